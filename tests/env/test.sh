#!/usr/bin/env bash
# Runs the tests, tier by tier, and prints at the end which tiers ran, and why one could not.
#   TIERS="fast doc node vm machine"   which to run; all by default
#   CI=true                            a tier that cannot run is a failure
#   NODE_PROFILE=dev                   cargo profile of the node tier; the tier "machine" packs what is shipped
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$REPO"

NODE_PROFILE=${NODE_PROFILE:-dev}
work=''
report=()
bad=0 left_out=0 passed=0 failed=0 counted=''

main() {
  local tier
  trap clean EXIT
  # Not 0: make and CI must see that the run was interrupted.
  trap 'exit 130' INT TERM HUP
  "$ENV_DIR/install.sh" tools
  for tier in ${TIERS:-fast doc node vm machine}; do
    case $tier in
      fast) nextest default "fast" ;;
      doc) doc_tier ;;
      node) node_tier ;;
      vm) vm_tier ;;
      machine) machine_tier ;;
      *) die "no such tier: $tier (fast, doc, node, vm, machine)" ;;
    esac
  done
  summary
  exit "$bad"
}

# `run_tier NAME COMMAND…`
run_tier() {
  local name=$1 begin=$SECONDS
  shift
  counted=''
  step "tier $name: $*"
  if "$@"; then
    note "$GREEN" passed "$name" "$((SECONDS - begin)) s$counted"
  else
    bad=1
    note "$RED" failed "$name" "$((SECONDS - begin)) s$counted"
  fi
}

# `nextest PROFILE NAME FLAG…`: always for the whole workspace. Another selection of packages enables other features of
# the dependencies, and would rebuild them.
nextest() {
  local profile=$1 name=$2
  shift 2
  run_tier "$name" counted "$profile" cargo nextest run --profile "$profile" --locked --workspace "$@"
}

# `counted PROFILE COMMAND…`: the command runs nextest with this profile.
# shellcheck disable=SC2317  # called by run_tier
counted() {
  local profile=$1 status=0 junit tests bad_tests
  shift
  junit=$(target_dir)/nextest/$profile/junit.xml
  rm -f "$junit"
  "$@" || status=$?
  if [[ -s $junit ]]; then
    tests=$(count tests "$junit")
    bad_tests=$(($(count failures "$junit") + $(count errors "$junit")))
    passed=$((passed + tests - bad_tests)) failed=$((failed + bad_tests))
    counted=", $((tests - bad_tests)) passed, $bad_tests failed"
  fi
  return "$status"
}

# `count ATTRIBUTE FILE`: a total of the whole run.
# shellcheck disable=SC2317
count() { sed -nE "s/^<testsuites .*[ ]$1=\"([0-9]+)\".*/\\1/p" "$2"; }

# shellcheck disable=SC2317
target_dir() { cargo metadata --format-version 1 --no-deps --offline | sed -nE 's/.*"target_directory":"([^"]*)".*/\1/p'; }

# rustdoc takes seconds for each crate, with or without examples: only crates with examples are run.
doc_tier() {
  local crate flags=()
  for crate in crates/*; do
    ! grep -rqE --include='*.rs' '^ *//[/!] ```(rust|should_panic|no_run|compile_fail)?$' "$crate/src" ||
      flags+=(-p "$(sed -n 's/^name = "\(.*\)"/\1/p' "$crate/Cargo.toml" | head -n 1)")
  done
  if ((${#flags[@]})); then
    run_tier doc cargo test --quiet --locked --doc "${flags[@]}"
  else
    note "$GREEN" passed doc "there are no examples in comments"
  fi
}

# `cannot_run NAME REASON`
cannot_run() {
  warn "tier $1 cannot run: $2"
  note "$YELLOW" 'not run' "$1" "$2"
  left_out=1
  [[ ${CI:-} != true ]] || bad=1
}

note() { report+=("$(printf '  %s%-8s%s %-22s %s' "$1" "$2" "$RESET" "$3" "$4")"); }

# `can_run NAME`: whether this machine can run containers.
can_run() {
  local reason
  if ! reason=$("$ENV_DIR/can-run.sh"); then
    reason=${reason#  - }
    cannot_run "$1" "this machine lacks ${reason//$'\n'  - /; }"
    return 1
  fi
}

node_tier() {
  local version
  can_run node || return 0
  if ! "$ENV_DIR/install.sh" runtime || ! "$ENV_DIR/images.sh"; then
    cannot_run node "containerd or its images could not be made, see above"
  else
    RUBELET_NODE_TESTS=1 nextest kernel "node, kernel" -E "$(of_this_kernel)"
    work=$(mktemp -d "${TMPDIR:-/tmp}/rubelet-test.XXXXXX")
    for version in "${CONTAINERD_VERSIONS[@]}"; do
      node_tests "$version"
    done
  fi
}

# Tests of cgroup v2 run on hosts that have it; the tier vm always has it.
of_this_kernel() {
  if [[ $(stat -fc %T /sys/fs/cgroup) == cgroup2fs ]]; then echo 'all()'; else echo 'not test(node_v2_)'; fi
}

node_tests() {
  local version=$1 dir=$work/containerd-$1
  if ! "$ENV_DIR/containerd.sh" start "$version" "$dir"; then
    cannot_run "node, containerd $version" "containerd does not start, see above"
    return
  fi
  RUBELET_NODE_TESTS=1 RUBELET_TEST_CONTAINERD_SOCK=$dir/containerd.sock RUBELET_TEST_CONTAINERD_VERSION=$version \
    nextest node "node, containerd $version" --cargo-profile "$NODE_PROFILE"
  "$ENV_DIR/containerd.sh" stop "$dir"
}

# cgroup v2 on a separate kernel, whatever this machine has. Needs neither root nor containers on the host.
vm_tier() {
  if [[ $(uname -sm) != "Linux x86_64" ]]; then
    cannot_run vm "the machine's kernel is one for Linux on x86_64, and this is $(uname -sm)"
  elif ! "$ENV_DIR/install.sh" vm; then
    cannot_run vm "QEMU or the kernel for it could not be had, see above"
  else
    run_tier "vm, kernel" "$ENV_DIR/vm-tests.sh" linux
    if ! "$ENV_DIR/install.sh" runtime || ! "$ENV_DIR/images.sh"; then
      cannot_run "vm, pod" "containerd or its images could not be made, see above"
    else
      run_tier "vm, pod" "$ENV_DIR/vm-tests.sh" pod
    fi
  fi
}

# Machines with systemd as PID 1: the kernel's tests that need it, the package of what is shipped, and a cluster by kubeadm.
machine_tier() {
  local machine=$REPO/tests/machine
  can_run machine || return 0
  if ! "$machine/root.sh" >/dev/null || ! "$ENV_DIR/install.sh" runtime || ! "$ENV_DIR/images.sh"; then
    cannot_run machine "the machines' root file system, containerd or its images could not be made, see above"
    return
  fi
  run_tier "machine, kernel" counted machine "$machine/tests.sh" kernel
  run_tier "machine, package" "$REPO/packaging/test.sh"
  if "$machine/images.sh" control-plane; then
    run_tier "machine, join" "$machine/tests.sh" join
  else
    cannot_run "machine, join" "the control plane's images could not be made, see above"
  fi
}

# shellcheck disable=SC2317  # called by the trap
clean() {
  local dir
  # A second Ctrl-C must not leave a containerd behind.
  trap '' INT TERM HUP
  [[ -n $work ]] || return 0
  for dir in "$work"/containerd-*; do
    [[ ! -e $dir ]] || "$ENV_DIR/containerd.sh" stop "$dir" || true
  done
  rm -rf --one-file-system "$work"
}

summary() {
  printf '\n%s%s%s\n' "$BOLD" "Tiers" "$RESET"
  printf '%s\n' "${report[@]}"
  say "$passed passed, $failed failed"
  if ((bad)); then
    say "${RED}not all is well${RESET}"
  elif ((left_out)); then
    say "${YELLOW}ok as far as it went: not every tier could run${RESET}"
  else
    say "${GREEN}ok${RESET}"
  fi
}

main "$@"
