#!/usr/bin/env bash
# The page for people in a real browser: a headless Chromium loads it from a node with made-up pods, and what it shows is
# checked. Needs neither root nor containers.
#   SHOTS=DIR   also writes page-light.png and page-dark.png there
#   PODS=500    with how many pods
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../env/lib.sh"
cd "$REPO"

PODS=${PODS:-500}
PORT=8321
# The page reads every three seconds of the browser's clock, which runs as fast as it can.
BUDGET=330000
work='' node_pid=''

main() {
  "$ENV_DIR/install.sh" browser
  browser=$(type -P chromium)
  cargo build -q --locked -p rubelet-server --example page
  work=$(mktemp -d "${TMPDIR:-/tmp}/rubelet-page.XXXXXX")
  trap clean EXIT

  step "a node with $PODS pods"
  start "$PODS"
  load "" --dump-dom >"$work/dom.html"
  has 'data-state="live"' "the page is live"
  has '<h1 id="node">node-1</h1>' "the node's name is shown"
  equal "$(grep -o '<li><button class="row"' "$work/dom.html" | wc -l)" "$PODS" "every pod has a row"
  has '&lt;img src=x onerror=alert(1)&gt;' "a name with markup in it is text"
  lacks '<img' "no markup comes from a name"
  has 'memory.available' "thresholds are shown"
  has 'queued\|to be pulled' "what a pod waits for is shown"
  has 'class="strip"[^>]*><i' "timelines are drawn"
  has 'class="line" d="M' "CPU and memory are drawn"

  step "one pod, from the address"
  load '#shop%2Fcheckout-7c6f5-zz9wd' --dump-dom >"$work/dom.html"
  has '<h2 id="d-name">shop/checkout-7c6f5-zz9wd</h2>' "its details are open"
  has 'CrashLoopBackOff' "its container is explained"
  has 'BackOff: Back-off restarting failed container app (6 times)' "its timeline is shown"
  has 'class="track"[^>]*><i' "its steps are bars"
  stop

  if [[ -n ${SHOTS:-} ]]; then
    step "pictures in $SHOTS"
    mkdir -p "$SHOTS"
    start 13
    shot '#data%2Fbackup-9k2d7' light
    shot '' dark --force-dark-mode --blink-settings=preferredColorScheme=0
    stop
  fi
  say "${GREEN}The page shows what it should.${RESET}"
}

start() {
  target/debug/examples/page "$PORT" "$1" &
  node_pid=$!
  until_true 10 curl -s --max-time 2 --noproxy '*' -o "$work/page" "http://127.0.0.1:$PORT/"
}

stop() {
  [[ -z $node_pid ]] || kill "$node_pid" 2>/dev/null || true
  [[ -z $node_pid ]] || wait "$node_pid" 2>/dev/null || true
  node_pid=''
}

# `load FRAGMENT FLAG…`: the browser loads the page, and does what the flags say.
load() {
  local fragment=$1
  shift
  timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
    --disable-background-networking --disable-component-update --disable-sync --hide-scrollbars \
    --user-data-dir="$(mktemp -d "$work/profile.XXXXXX")" --window-size=1600,1000 --virtual-time-budget="$BUDGET" \
    "$@" "http://127.0.0.1:$PORT/$fragment" 2>>"$work/browser.log"
}

shot() {
  local fragment=$1 theme=$2
  shift 2
  load "$fragment" "$@" --screenshot="$work/shot.png" >/dev/null
  mv "$work/shot.png" "$SHOTS/page-$theme.png"
}

has() { grep -q "$1" "$work/dom.html" || wrong "$2"; }
lacks() { ! grep -q "$1" "$work/dom.html" || wrong "$2"; }
equal() { [[ $1 == "$2" ]] || wrong "$3 ($1, not $2)"; }

wrong() {
  cp "$work/dom.html" "${TMPDIR:-/tmp}/rubelet-page.html"
  die "not so: $1; the page is in ${TMPDIR:-/tmp}/rubelet-page.html"
}

# shellcheck disable=SC2317  # called by the trap
clean() {
  stop
  rm -rf --one-file-system "$work"
}

main "$@"
