#!/bin/bash
# Inside the virtual machine: an API server of a few pods, as far as a kubelet needs it. socat runs this script for each
# connection.
#   vm-api.sh DIR   DIR/pods/NAME.json is a pod; each status that is written for it becomes a line of DIR/statuses/NAME
set -u
dir=$1 method='' target='' length=0 body=''

answer() {
  printf 'HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' "$1" "${#2}" "$2"
}

none() { answer '404 Not Found' '{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}'; }

list() { answer '200 OK' '{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":['"$(paste -sd , <<<"$1")"']}'; }

# `kind TARGET`: as upstream's client wants it in the last event of a list.
kind() {
  case $1 in
    */pods*) echo '"kind":"Pod","apiVersion":"v1"' ;;
    */nodes*) echo '"kind":"Node","apiVersion":"v1"' ;;
    */services*) echo '"kind":"Service","apiVersion":"v1"' ;;
    */runtimeclasses*) echo '"kind":"RuntimeClass","apiVersion":"node.k8s.io/v1"' ;;
    */csidrivers*) echo '"kind":"CSIDriver","apiVersion":"storage.k8s.io/v1"' ;;
    *) echo '"kind":"ConfigMap","apiVersion":"v1"' ;;
  esac
}

# `watch LIST LATER`: the objects of the list, one in a line; then the end of the list; then an object, once its file exists.
watch() {
  local object
  printf 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n'
  while read -r object; do
    [[ -z $object ]] || printf '{"type":"ADDED","object":%s}\n' "$object"
  done <<<"$1"
  printf '{"type":"BOOKMARK","object":{%s,"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}\n' \
    "$(kind "$target")"
  if [[ -n $2 ]]; then
    until [[ -s $2 ]]; do sleep 1; done
    printf '{"type":"ADDED","object":%s}\n' "$(<"$2")"
  fi
  exec sleep infinity
}

# `pod NAME`: with all the statuses that were written.
pod() {
  touch "$dir/statuses/$1"
  jq -cs 'reduce .[1:][] as $patch (.[0]; . * $patch)' "$dir/pods/$1.json" "$dir/statuses/$1"
}

pods() {
  local file
  for file in "$dir"/pods/*.json; do
    file=${file##*/}
    [[ ! -e $dir/pods/$file ]] || pod "${file%.json}"
  done
}

# `name_of TARGET`: of the pod that a path names.
name_of() {
  local name=${1#*/pods/}
  echo "${name%%[/?]*}"
}

request() {
  local line pods=''
  length=0
  IFS=' ' read -r method target _ || return
  while IFS= read -r line && line=${line%$'\r'} && [[ -n $line ]]; do
    [[ ${line,,} != content-length:* ]] || length=${line#*:}
  done
  LC_ALL=C read -r -N "$((length))" body
  [[ $target != /api/v1/pods?* ]] || pods=$(pods)
  case "$method $target" in
    'GET /api/v1/nodes?'*'watch=true'*) watch '' "$dir/node.json" ;;
    GET*'watch=true'*) watch "$pods" '' ;;
    'GET /api/v1/nodes/'*) if [[ -e $dir/node.json ]]; then answer '200 OK' "$(<"$dir/node.json")"; else none; fi ;;
    'GET /apis/coordination.k8s.io/'*) none ;;
    'GET /api/v1/namespaces/'*/pods/*) answer '200 OK' "$(pod "$(name_of "$target")")" ;;
    GET*) list "$pods" ;;
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
      printf '%s\n' "$body" >>"$dir/statuses/$(name_of "$target")"
      answer '200 OK' "$(pod "$(name_of "$target")")"
      ;;
    *) answer '200 OK' "$body" ;;
  esac
}

while request; do :; done
