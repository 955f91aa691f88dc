#!/usr/bin/env bash
# Tests the packages: packs twice and compares, then installs, upgrades, swaps, removes and purges the Debian package in a
# Debian root of its own, and in a machine that runs systemd. Needs root. Under a minute once the program is built.
#   RUBELET=PROGRAM   packs this program, else the one that is shipped (tests/env/rubelet.sh)
#   PARTS="pack root machine"   all by default
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tests/env/lib.sh"
HERE=$REPO/packaging

main() {
  local part
  [[ $EUID == 0 ]] || die "only root can test the packages: they are installed into a root file system"
  RUBELET=$(NODE_PROFILE=release "$ENV_DIR/rubelet.sh")
  export RUBELET
  work=$(mktemp -d "${TMPDIR:-/tmp}/rubelet-packages.XXXXXX")
  trap 'rm -rf --one-file-system "$work"' EXIT
  trap 'exit 130' INT TERM HUP
  pack
  for part in ${PARTS:-pack root machine}; do
    step "packages: $part"
    case $part in
      pack) "$HERE/test-pack.sh" "$work" ;;
      # In a mount namespace: what it mounts is gone when it ends, however it ends.
      root) unshare --mount --propagation private "$HERE/test-root.sh" "$work" ;;
      machine) "$HERE/test-machine.sh" "$work" ;;
      *) die "no such part: $part (pack, root, machine)" ;;
    esac
  done
  say "${GREEN}packages: ok${RESET}"
}

# Three at once: the packages, the same once more from another place and with other habits, and a newer version.
pack() {
  local pids=() pid
  step "packages: packing"
  OUT=$work/one "$HERE/build.sh" >"$work/one.log" 2>&1 & pids+=($!)
  (cd / && umask 077 && TZ=Asia/Tokyo LANG=de_DE.UTF-8 OUT=$work/two "$HERE/build.sh") >"$work/two.log" 2>&1 & pids+=($!)
  PACKAGE_VERSION=99.0 OUT=$work/newer "$HERE/build.sh" >"$work/newer.log" 2>&1 & pids+=($!)
  for pid in "${pids[@]}"; do
    wait "$pid" || { cat "$work"/*.log >&2 && die "packing failed"; }
  done
  mv "$work"/newer/rubelet_99.0_*.deb "$work/newer.deb"
  cp "$work"/one/rubelet_*.deb "$work/rubelet.deb"
}

main "$@"
