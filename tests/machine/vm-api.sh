#!/bin/bash
# Inside the virtual machine: an API server of one pod, as far as a kubelet needs it. socat runs this script for each
# connection.
#   vm-api.sh DIR   DIR/pod.json is the pod; each status that is written for it becomes a line of DIR/statuses
set -u
dir=$1 method='' target='' length=0 body=''

answer() {
  printf 'HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' "$1" "${#2}" "$2"
}

none() { answer '404 Not Found' '{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}'; }

list() { answer '200 OK' '{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":['"$1"']}'; }

# `watch LIST LATER`: an object of the list, or none; then the end of the list; then an object, once its file exists.
watch() {
  printf 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n'
  [[ -z $1 ]] || printf '{"type":"ADDED","object":%s}\n' "$1"
  printf '{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}\n'
  if [[ -n $2 ]]; then
    until [[ -s $2 ]]; do sleep 1; done
    printf '{"type":"ADDED","object":%s}\n' "$(<"$2")"
  fi
  exec sleep infinity
}

# With all the statuses that were written.
pod() { jq -cs 'reduce .[1:][] as $patch (.[0]; . * $patch)' "$dir/pod.json" "$dir/statuses"; }

request() {
  local line pod=''
  length=0
  IFS=' ' read -r method target _ || return
  while IFS= read -r line && line=${line%$'\r'} && [[ -n $line ]]; do
    [[ ${line,,} != content-length:* ]] || length=${line#*:}
  done
  LC_ALL=C read -r -N "$((length))" body
  [[ $target != /api/v1/pods?* ]] || pod=$(pod)
  case "$method $target" in
    'GET /api/v1/nodes?'*'watch=true'*) watch '' "$dir/node.json" ;;
    GET*'watch=true'*) watch "$pod" '' ;;
    'GET /api/v1/nodes/'*) if [[ -e $dir/node.json ]]; then answer '200 OK' "$(<"$dir/node.json")"; else none; fi ;;
    'GET /apis/coordination.k8s.io/'*) none ;;
    'GET /api/v1/namespaces/'*/pods/*) answer '200 OK' "$(pod)" ;;
    GET*) list "$pod" ;;
    'POST /api/v1/nodes'*)
      jq -c '.metadata += {uid: "vm-1234", resourceVersion: "2"}' <<<"$body" >"$dir/node.part"
      mv "$dir/node.part" "$dir/node.json"
      answer '201 Created' "$(<"$dir/node.json")"
      ;;
    # Without copies of static pods.
    'POST /api/v1/namespaces/'*/pods*) answer '403 Forbidden' '{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}' ;;
    POST*) answer '201 Created' "$body" ;;
    'PATCH /api/v1/nodes/'*) answer '200 OK' "$(<"$dir/node.json")" ;;
    'PATCH /api/v1/namespaces/'*/pods/*)
      printf '%s\n' "$body" >>"$dir/statuses"
      answer '200 OK' "$(pod)"
      ;;
    *) answer '200 OK' "$body" ;;
  esac
}

while request; do :; done
