#!/usr/bin/env bash
# All checks that do not run the code. Continues after a failure, and fails at the end.
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$REPO"

failed=()
check() {
  local name=$1
  shift
  step "$name"
  "$@" || failed+=("$name")
}

documentation() { RUSTDOCFLAGS='-D warnings' cargo doc --quiet --locked --workspace --no-deps --document-private-items; }

dependencies() {
  cargo deny --log-level warn --locked check --hide-inclusion-graph licenses bans sources || return
  # The advisory database is a separate repository, which not every machine may fetch.
  if cargo deny --log-level error fetch db >/dev/null 2>&1; then
    cargo deny --log-level warn --locked check --hide-inclusion-graph --disable-fetch advisories
  else
    warn "advisories were not checked: their database cannot be fetched from here"
  fi
}

scripts() {
  local files
  mapfile -t files < <(git ls-files '*.sh' .ci/run)
  shellcheck -x -P . "${files[@]}"
}

"$ENV_DIR/install.sh" lint
# The cheapest first.
check "format" cargo fmt --all --check
check "shell scripts" scripts
check "conformance" tests/e2e/conformance.sh check
check "conformance of a cluster" tests/machine/conformance.sh check
check "node suite" tests/machine/e2e-node.sh check
check "dependencies" dependencies
check "clippy" cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
check "documentation" documentation

if ((${#failed[@]})); then
  die "lint: ${failed[*]}"
fi
say "${GREEN}lint: ok${RESET}"
