#!/usr/bin/env bash
# `make demo`: rubelet runs the pods of examples/ on a private containerd, shows them as they become ready, and removes
# everything again, also on Ctrl-C and after a failure.
#   CONTAINERD=1.6        which containerd
#   DEMO_PROFILE=dev      which build of rubelet
#   RUBELET=PROGRAM       a rubelet that is already built
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/env/demo-node.sh
. "$ENV_DIR/demo-node.sh"
cd "$REPO"

CONTAINERD=${CONTAINERD:-2.1}
DEMO_PROFILE=${DEMO_PROFILE:-dev}
# Two small pods take about a second; a cold machine may need many.
READY_SECONDS=60

main() {
  local lacks
  if ! lacks=$("$ENV_DIR/can-run.sh"); then
    die "this machine cannot run containers. It lacks:"$'\n'"$lacks"
  fi
  "$ENV_DIR/install.sh" runtime
  "$ENV_DIR/images.sh"
  [[ -n ${RUBELET:-} ]] || step "building rubelet"
  RUBELET=$(NODE_PROFILE=$DEMO_PROFILE "$ENV_DIR/rubelet.sh")

  work=$(mktemp -d "${TMPDIR:-/tmp}/rubelet-demo.XXXXXX")
  trap clean EXIT
  trap 'exit 130' INT TERM HUP
  step "starting a private containerd $CONTAINERD"
  "$ENV_DIR/containerd.sh" start "$CONTAINERD" "$work/containerd"
  step "starting rubelet on examples/"
  start_rubelet
  watch_pods
  show_page
  show_logs
  show_explain
  show_ui
  say "${GREEN}That was it.${RESET} The manifests are in examples/: change one, and run this again."
}

pods() { "$RUBELET" pods --root-dir "$work/kubelet" "$@" 2>/dev/null; }

# Redraws the table in place on a terminal; elsewhere prints it only when it changes.
watch_pods() {
  local want table='' shown='' lines=0 end=$((SECONDS + READY_SECONDS))
  want=$(find examples -name '*.yaml' | wc -l)
  step "waiting for $want pods"
  until all_running "$want"; do
    kill -0 "$rubelet_pid" 2>/dev/null || fail "rubelet has ended"
    ((SECONDS < end)) || fail "the pods are not running after $READY_SECONDS s"
    table=$(pods || true)
    draw
    sleep 0.2
  done
  table=$(pods)
  draw
}

draw() {
  # A changed age alone is no reason to print the table again.
  local news
  news=$(awk '{ $NF = ""; print }' <<<"$table")
  [[ -n $table ]] || return 0
  if [[ -t 1 ]]; then
    ((lines == 0)) || printf '\e[%dA\e[J' "$lines"
  elif [[ $news == "$shown" ]]; then
    return 0
  fi
  shown=$news
  indent <<<"$table"
  lines=$(wc -l <<<"$table")
}

all_running() {
  pods -o json | jq -e --argjson want "$1" '.pods | length == $want and all(.state == "Running")' >/dev/null 2>&1
}

# `first_pod NAME`: its full name, which ends with the node's, and its address.
first_pod() { pods -o json | jq -r --arg name "$1" '.pods[] | select(.name | startswith($name)) | "\(.name) \(.ip)"' | head -n 1; }

show_page() {
  local name ip
  read -r name ip < <(first_pod web)
  step "the page of $name: curl http://$ip:8080/"
  # The container runs, but its server may need another moment.
  until_true 10 curl -s --max-time 2 --noproxy '*' -o "$work/page" "http://$ip:8080/" || fail "the page cannot be fetched"
  indent <"$work/page"
}

show_logs() {
  step "the log of ticker"
  until_true 10 ticked || fail "ticker prints nothing"
  cat "$work"/logs/*_ticker-*/reader/*.log | tail -n 2 | indent
}

ticked() { [[ -n $(cat "$work"/logs/*_ticker-*/reader/*.log 2>/dev/null) ]]; }

show_explain() {
  local name _
  read -r name _ < <(first_pod web)
  step "rubelet explain $name"
  "$RUBELET" explain --root-dir "$work/kubelet" "$name" | indent
}

# The page for people: its address, and on a terminal time to look at it.
show_ui() {
  local address=http://127.0.0.1:$ui_port/
  step "the page of this node: $address"
  until_true 10 curl -s --max-time 2 --noproxy '*' -o "$work/ui" "$address" || fail "the page cannot be fetched"
  if [[ -t 0 && -t 1 ]]; then
    if [[ -n ${DISPLAY:-}${WAYLAND_DISPLAY:-} ]] && command -v xdg-open >/dev/null; then
      xdg-open "$address" >/dev/null 2>&1 || true
    fi
    read -r -p "    Open it in a browser; press Enter to end the demo. " _ || true
  fi
}

indent() { sed "s/^/    /"; }

# `fail WHAT`: prints the end of rubelet's log, which is about to be removed.
fail() {
  tail -n 20 "$work/rubelet.log" | indent >&2
  die "$1; the end of rubelet's log is above"
}

# shellcheck disable=SC2317  # called by the trap
clean() {
  local status=$?
  trap - EXIT
  trap '' INT TERM HUP
  step "cleaning up"
  stop_rubelet || true
  "$ENV_DIR/containerd.sh" stop "$work/containerd" || true
  remove_node || true
  exit "$status"
}

main "$@"
