#!/usr/bin/env bash
# In-place resize: the time from the request to the cgroup, without a restart. Then the agent is killed in the middle of
# resizes of a container and a sidecar, and a resize is requested while the agent is down: the cgroups and the status
# reach the values of the spec.
#   resize.sh DIR LOGS     AGENT=rubelet is the node's agent; upstream's time is only printed
set -euo pipefail
# shellcheck source=tests/e2e/scenario.sh
. "$(dirname "${BASH_SOURCE[0]}")/scenario.sh"
AGENT=${AGENT:-${NODE:-rubelet}}
# Limit for the median of this many resizes, in the best of this many rounds: other work may disturb a round.
BAR_MS=200 TIMES=15 ROUNDS=3
# Delays of the kill after the request, in seconds: before the resize is seen, during the runtime's call, during the
# status write.
KILLS=(0 0.02 0.05 0.1 0.3)
PATIENCE=60

main() {
  local before delay size=150 round quick=''
  begin "$AGENT"
  # shellcheck source=/dev/null
  . "$cluster/env"
  pod
  until_true 60 ready || wrong "the pod is not ready"
  before=$(identities -l app=resized)
  find_cgroups
  # The first resize does not count: it includes one-time initialisation.
  resize "$size"
  settled "$size"
  for round in $(seq "$ROUNDS"); do
    if measured "$round"; then
      quick=$round
      break
    fi
  done
  same "$before"

  for delay in "${KILLS[@]}"; do
    size=$((size == 150 ? 250 : 150))
    resize "$size"
    sleep "$delay"
    quit KILL
    agent "$AGENT"
    settled "$size"
  done
  quit KILL
  resize 200
  agent "$AGENT"
  settled 200
  same "$before"
  say "    killed ${#KILLS[@]} times in a resize and once before one: every resize was carried out, and nothing restarted"
  [[ -n $quick || $AGENT == upstream ]] || wrong "a resize takes more than $BAR_MS ms"
}

# `measured ROUND`: prints the times; false if the median is too long.
measured() {
  local n times=() sorted middle
  for n in $(seq "$TIMES"); do
    times+=("$(timed $((100 + 100 * ((n + $1) % 2))))")
    until_true "$PATIENCE" no_resize || wrong "a resize is not over after $PATIENCE s"
  done
  sorted=$(printf '%s\n' "${times[@]}" | sort -n)
  middle=$(sed -n "$((TIMES / 2 + 1))p" <<<"$sorted")
  say "    request to cgroup, $TIMES times: $middle ms in the middle, all: ${sorted//$'\n'/ }"
  ((middle <= BAR_MS))
}

pod() {
  k apply -f - >/dev/null <<END
apiVersion: v1
kind: Pod
metadata: {name: resized, labels: {app: resized}}
spec:
  terminationGracePeriodSeconds: 1
  initContainers:
  - {name: side, image: $IMAGE, args: [pause], restartPolicy: Always, resources: $(resources 100)}
  containers:
  - {name: app, image: $IMAGE, args: [pause], resources: $(resources 100)}
END
}

IMAGE=registry.k8s.io/e2e-test-images/agnhost:2.63.0

# `resources N`: N thousandths of a CPU at most, and N MiB.
resources() { printf '{requests: {cpu: 50m, memory: 64Mi}, limits: {cpu: %sm, memory: %sMi}}' "$1" "$1"; }

ready() { k wait pod/resized --for=condition=Ready --timeout=1s >/dev/null 2>&1; }

# The files with the limits of both containers in the kernel.
find_cgroups() {
  local id
  cpu=() memory=()
  for id in $(k get pod resized -o json | jq -r '.status | (.containerStatuses + .initContainerStatuses)[].containerID | sub(".*//"; "")'); do
    cpu+=("$(find /sys/fs/cgroup -path "*/$id/*" \( -name cpu.cfs_quota_us -o -name cpu.max \) -print -quit)")
    memory+=("$(find /sys/fs/cgroup -path "*/$id/*" \( -name memory.limit_in_bytes -o -name memory.max \) -print -quit)")
  done
  [[ ${#cpu[@]} == 2 && -n ${cpu[0]} && -n ${memory[0]} && -n ${cpu[1]} && -n ${memory[1]} ]] || wrong "the containers' cgroups cannot be found"
}

# `resize N [app]`: both containers or one, in one request, as kubectl would send it, but with a program that starts
# faster.
resize() {
  local one sides='[]'
  one=$(printf '"resources":{"limits":{"cpu":"%sm","memory":"%sMi"}}' "$1" "$1")
  [[ ${2:-} == app ]] || sides="[{\"name\":\"side\",$one}]"
  curl -sf --max-time 10 --noproxy '*' --cacert "$cluster/pki/ca.crt" --cert "$cluster/pki/admin.crt" --key "$cluster/pki/admin.key" \
    -X PATCH -H 'Content-Type: application/strategic-merge-patch+json' -o "$logs/answer.json" \
    -d "{\"spec\":{\"initContainers\":$sides,\"containers\":[{\"name\":\"app\",$one}]}}" \
    "$CLUSTER_URL/api/v1/namespaces/default/pods/resized/resize" || wrong "the API server did not take the resize"
}

# `in_cgroups N [HOW_MANY]`: read by the shell itself, as it runs thousands of times. The first is the container.
in_cgroups() {
  local file value
  for file in "${cpu[@]:0:${2:-2}}"; do
    read -r value <"$file"
    [[ ${value%% *} == $(($1 * 100)) ]] || return 1
  done
  for file in "${memory[@]:0:${2:-2}}"; do
    read -r value <"$file"
    [[ $value == $(($1 * 1024 * 1024)) ]] || return 1
  done
}

# `timed N`: milliseconds from sending the request until the cgroup has the limit.
timed() {
  local since until nap
  exec {nap}<> <(:)
  since=${EPOCHREALTIME/./}
  until=$((since + 10000000))
  resize "$1" app &
  until in_cgroups "$1" 1; do
    ((${EPOCHREALTIME/./} < until)) || wrong "a resize did not reach the cgroups within 10 s" >&2
    # Two milliseconds, without starting a program.
    read -rt 0.002 -u "$nap" || true
  done
  echo $(((${EPOCHREALTIME/./} - since) / 1000))
  wait
}

# `settled N`: the cgroups and the status have the values, and no resize condition is left.
settled() {
  until_true "$PATIENCE" in_cgroups "$1" || wrong "the cgroups are not those of $1 after $PATIENCE s"
  until_true "$PATIENCE" reported "$1" || wrong "the status does not say $1 after $PATIENCE s: $(k get pod resized -o json | jq -c .status)"
}

no_resize() {
  k get pod resized -o json | jq -e '.metadata.generation as $g | .status |
    .observedGeneration == $g and all(.conditions[]; .type | startswith("PodResize") | not)' >/dev/null
}

reported() {
  no_resize &&
  k get pod resized -o json | jq -e --arg cpu "$1m" --arg memory "$1Mi" '.status |
    all((.containerStatuses + .initContainerStatuses)[]; .ready and .resources.limits == {cpu: $cpu, memory: $memory})' >/dev/null
}

# `same IDENTITIES`
same() {
  diff <(echo "$1") <(identities -l app=resized) >"$logs/identities.diff" || wrong "a container was restarted, see $logs/identities.diff"
  [[ $(k get pod resized -o json | jq '[.status | (.containerStatuses + .initContainerStatuses)[].restartCount] | add') == 0 ]] ||
    wrong "a container was restarted"
}

main
