#!/usr/bin/env bash
# `make pressure`: a node that runs short of memory, disk, inodes and process IDs, under real load, with rubelet and with upstream's
# kubelet side by side: machines with systemd for each, on one control plane. Is the right pod evicted, ten times out of ten,
# and no second one? How long does it take? What each load is, is in pressure/rounds.sh.
#   pressure.sh [LOAD…]      some loads; all by default
#   NODES="rubelet upstream" which agents; RUBELET=PROGRAM and DEB=FILE choose a rubelet, else one is built as it is shipped
#   ROUNDS=10                how often each load
#   RECORD=1                 writes the results into pressure.tsv, and docs/pressure.md from it
#   KEEP=1                   leaves the machines up
#   OUT=DIR                  where logs and results go (target/pressure)
#   pressure.sh page         writes the table in docs/pressure.md again
# Exit code 1: with rubelet a round has lost another pod than the right one, or the node was not Ready.
# At most 3 GiB of memory and 8 GiB of disk.
set -euo pipefail
export RUBELET_MACHINES=${RUBELET_MACHINES:-${TMPDIR:-/tmp}/rubelet-pressure}
# shellcheck source=tests/machine/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
read -ra AGENTS <<<"${NODES:-rubelet upstream}"
ROUNDS=${ROUNDS:-10}
OUT=$(realpath -m "${OUT:-$REPO/target/pressure}")
RUN=$MACHINE_DIR/run.sh
PLANE=$AT.plane
RECORDED=$MACHINE_DIR/pressure.tsv
PAGE=$REPO/docs/pressure.md
PAGE_BEGIN="<!-- tests/machine/pressure.sh writes what follows -->"
PAGE_END="<!-- until here: pressure.sh -->"
READY_SECONDS=120
# Loads of different lanes run at the same time, on machines of their own.
LANES=("memory-hog leak two-hogs log-writer flap api-away agent-killed" "disk-volume disk-layer inodes images pid-bomb sleepers")
forwarders=() workers=() names=() agents=() loads=()

main() {
  if [[ ${1:-} == page ]]; then page && return; fi
  mkdir -p "$OUT"
  rm -rf "${OUT:?}"/*
  trap clean EXIT
  trap 'exit 130' INT TERM HUP
  "$ENV_DIR/install.sh" machine
  package
  divide "$@"
  step "a control plane, and machines for ${agents[*]}"
  "$ENV_DIR/k8s.sh" start "$PLANE" >"$OUT/k8s.log"
  DISK=3G "$RUN" up "${#names[@]}"
  image
  objects
  local n
  for n in "${!names[@]}"; do
    join_node "${names[n]}" "${agents[n]}"
  done
  for n in "${!names[@]}"; do
    until_true "$READY_SECONDS" ready "${names[n]}" || not_ready "${names[n]}"
  done
  step "$ROUNDS rounds of each load"
  for n in "${!names[@]}"; do
    # shellcheck disable=SC2086  # a list of words
    ROUNDS=$ROUNDS "$MACHINE_DIR/pressure/rounds.sh" "${names[n]}" "${agents[n]}" "$OUT" ${loads[n]} \
      > >(sed -u "s/^/    ${names[n]} ${agents[n]}: /") 2>&1 &
    workers+=($!)
  done
  local failed=0
  for n in "${workers[@]}"; do
    wait "$n" || failed=1
  done
  cat "$OUT"/*.tsv 2>/dev/null >"$OUT/results" || true
  step "measured"
  table "$OUT/results"
  [[ ${RECORD:-} != 1 ]] || record
  ((failed == 0)) || die "the rounds did not come to their end; logs in $OUT"
  ! awk -F '\t' '$1 == "rubelet" && $4 != "right" { found = 1 } END { exit !found }' "$OUT/results" ||
    die "with rubelet not every round went as it should; logs in $OUT"
  say "${GREEN}pressure: ok${RESET}"
}

# `divide [LOAD…]`: which machine has which agent and which loads.
divide() {
  local lane agent load wanted=" $* " mine
  for lane in "${LANES[@]}"; do
    mine=''
    for load in $lane; do
      if (($# == 0)) || [[ $wanted == *" $load "* ]]; then mine+=" $load"; fi
    done
    [[ -n $mine ]] || continue
    for agent in "${AGENTS[@]}"; do
      names+=("node-$((${#names[@]} + 1))")
      agents+=("$agent")
      loads+=("$mine")
    done
  done
  ((${#names[@]})) || die "no such load: $* (${LANES[*]})"
}

package() {
  [[ " ${AGENTS[*]} " == *" rubelet "* && -z ${DEB:-} ]] || return 0
  OUT=$OUT/package "$REPO/packaging/build.sh" >/dev/null
  DEB=$(echo "$OUT"/package/rubelet_*.deb)
  export DEB
}

k() { "$PLANE/kubectl" "$@"; }

# An image of the loads, which are one static program.
image() {
  mkdir -p "$AT/load/root"
  cc -static -O2 -s -Wall -Wextra -Werror -o "$AT/load/root/load" "$MACHINE_DIR/pressure/load.c"
  "$ENV_DIR/oci.sh" rubelet.test/load:1 "$AT/load/root" "$AT/load/load.tar" '{"Entrypoint":["/load"]}'
  "$ENV_DIR/images.sh"
}

objects() {
  k apply -f - >/dev/null <<'END'
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: important}
value: 1000
END
}

# `join_node NAME AGENT`: by TLS bootstrap. The API server is on the host's loopback; a socket of the machine leads there.
join_node() {
  local port
  port=$(sed -n 's/^PORT_API=//p' "$PLANE/env")
  # shellcheck disable=SC2031
  socat "UNIX-LISTEN:$AT/$1/disk/etcd/api.sock,fork" "TCP:127.0.0.1:$port" &
  forwarders+=($!)
  enter "$1" systemd-run --quiet --unit=api socat "TCP-LISTEN:$port,bind=127.0.0.1,fork,reuseaddr" UNIX-CONNECT:/var/lib/etcd/api.sock
  enter "$1" mkdir -p /etc/kubernetes/manifests /etc/kubernetes/pki
  "$RUN" put "$PLANE/bootstrap-kubelet.conf" "$1" /etc/kubernetes/bootstrap-kubelet.conf
  "$RUN" put "$PLANE/pki/ca.crt" "$1" /etc/kubernetes/pki/ca.crt
  configuration | enter "$1" sh -c 'cat >/var/lib/kubelet/config.yaml'
  # PAUSE is of the machine's containerd.
  local pause="$AT/load/pause.tar"
  [[ -e $pause ]] || pause_image "$pause"
  enter "$1" ctr -n k8s.io images import --local - <"$pause" >/dev/null
  "$MACHINE_DIR/agent.sh" "$2" "$1"
}

pause_image() {
  mkdir -p "$AT/load/pause"
  cc -static -Os -s -Wall -Wextra -Werror -o "$AT/load/pause/pause" "$ENV_DIR/pause.c"
  "$ENV_DIR/oci.sh" registry.k8s.io/pause:3.10.2 "$AT/load/pause" "$1" '{"Entrypoint":["/pause"]}'
}

# Each field on a line of its own: rounds.sh replaces some.
configuration() {
  cat <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}
authorization: {mode: Webhook}
staticPodPath: /etc/kubernetes/manifests
rotateCertificates: true
failCgroupV1: false
failSwapOn: false
resolvConf: ""
serializeImagePulls: false
evictionPressureTransitionPeriod: 5s
imageMinimumGCAge: 1s
imageGCHighThresholdPercent: 100
containerLogMaxSize: 10Mi
containerLogMaxFiles: 3
kubeReserved: {memory: $((machine_kib - pods_kib))Ki}
evictionHard: {memory.available: 300Mi}
END
}
machine_kib=$(awk '$1 == "MemTotal:" { print $2 }' /proc/meminfo)
pods_kib=$((1200 * 1024))

ready() { [[ $(k get node "$1" -o jsonpath='{.status.conditions[?(@.type=="Ready")].status}' 2>/dev/null) == True ]]; }
not_ready() {
  k describe node "$1" >&2 || true
  enter "$1" journalctl -u kubelet -n 40 --no-pager >&2 || true
  die "$1 is not Ready after $READY_SECONDS s"
}

# Of results: AGENT LOAD ROUND VERDICT HOW OTHERS ENDED RELIEVED LEAST
rows() {
  awk -F '\t' '
    function middle(list,  parts, n, i, j, t) {
      n = split(list, parts, " ")
      if (!n) return "-"
      for (i = 2; i <= n; i++) for (j = i; j > 1 && parts[j] + 0 < parts[j - 1] + 0; j--) { t = parts[j]; parts[j] = parts[j - 1]; parts[j - 1] = t }
      t = n % 2 ? parts[(n + 1) / 2] : (parts[n / 2] + parts[n / 2 + 1]) / 2
      return sprintf("%.2f s (%.2f s)", t / 1000, parts[n] / 1000)
    }
    { key = $2 "\t" $1; if (!(key in rounds)) order[++count] = key }
    { rounds[key]++; right[key] += $4 == "right"; others[key] += $6; how[key, $5]++ }
    $7 != "-" { ended[key] = ended[key] " " $7 }
    $8 != "-" && $2 != "log-writer" { relieved[key] = relieved[key] " " $8 }
    $2 == "log-writer" && $9 < peak[key] { peak[key] = $9 }
    END {
      for (n = 1; n <= count; n++) {
        key = order[n]; split(key, name, "\t")
        text = ""
        split("Evicted OOMKilled none ended", ways, " ")
        for (i = 1; i <= 4; i++) if (how[key, ways[i]]) text = text (text == "" ? "" : ", ") how[key, ways[i]] " " ways[i]
        if (key in peak) text = text sprintf("; logs of %d MB at most", -peak[key] / 1e6)
        print name[1] "\t" name[2] "\t" right[key] "/" rounds[key] "\t" others[key] + 0 "\t" text "\t" middle(ended[key]) "\t" middle(relieved[key])
      }
    }' "$1" | sort -t$'\t' -s -k1,1
}

table() { rows "$1" | column -t -s $'\t' -N LOAD,AGENT,RIGHT,OTHERS,HOW,"TO THE END",RELIEF; }

# Rows of an agent and load that were run now take the place of older ones.
record() {
  local agent
  touch "$RECORDED"
  {
    for agent in rubelet upstream; do
      if [[ " ${AGENTS[*]} " == *" $agent "* ]]; then
        echo "# $agent $(git -C "$REPO" describe --always --abbrev=12 --dirty=+changes --exclude '*') $(date -u +%F)"
      else
        sed -n "/^# $agent /p" "$RECORDED"
      fi
    done
    awk -F '\t' 'NR == FNR { now[$1, $2] = 1; print; next } /^#/ || ($1, $2) in now { next } { print }' "$OUT/results" "$RECORDED"
  } >"$RECORDED.new"
  mv "$RECORDED.new" "$RECORDED"
  page
}

page() {
  {
    awk -v last="$PAGE_BEGIN" '{ print } $0 == last { exit }' "$PAGE"
    echo
    sed -n 's/^# \([a-z]*\) \([^ ]*\) \([^ ]*\)$/\1 \2 \3/p' "$RECORDED" | sort | while read -r agent commit day; do
      echo "- ${agent/upstream/"upstream's kubelet"}: $day, with the scripts of commit $commit"
    done
    echo
    echo "| load | agent | as it should be | other pods lost | how the load ended | threshold → end, median (worst) | threshold → relief |"
    echo "|---|---|---|---|---|---|---|"
    rows <(sed '/^#/d' "$RECORDED") | awk -F '\t' '{ print "| " $1 " | " $2 " | " $3 " | " $4 " | " $5 " | " $6 " | " $7 " |" }'
    echo
    awk -v first="$PAGE_END" '$0 == first { found = 1 } found' "$PAGE"
  } >"$PAGE.new"
  mv "$PAGE.new" "$PAGE"
}

# shellcheck disable=SC2317  # called by the trap
clean() {
  local status=$?
  trap - EXIT
  trap '' INT TERM HUP
  ((${#workers[@]} == 0)) || kill "${workers[@]}" 2>/dev/null || true
  if [[ ${KEEP:-} == 1 ]]; then
    say "left up: RUBELET_MACHINES=$RUBELET_MACHINES tests/machine/run.sh down; tests/env/k8s.sh stop $PLANE; kill ${forwarders[*]}"
  else
    ((${#forwarders[@]} == 0)) || kill "${forwarders[@]}" 2>/dev/null || true
    "$RUN" down || true
    "$ENV_DIR/k8s.sh" stop "$PLANE" || true
  fi
  exit "$status"
}

main "$@"
