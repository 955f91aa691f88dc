#!/usr/bin/env bash
# Prints the path of a rubelet: RUBELET, else one that cargo builds with the profile NODE_PROFILE (dev). The profile `release`
# is what is shipped: `make build` and `make package` build it here too.
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$REPO"
profile=${NODE_PROFILE:-dev}

# The same commit gives the same bytes wherever it is built: no path of this machine gets into the program. Only for
# `release`, since other flags mean another build of every dependency.
as_shipped() {
  local cargo=${CARGO_HOME:-$HOME/.cargo} sources
  # The sources of the dependencies are below a directory that is named for the registry.
  cargo fetch --quiet --locked >&2
  RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$REPO=/rubelet --remap-path-prefix=$1=/rubelet/target"
  for sources in "$cargo"/registry/src/*; do
    RUSTFLAGS+=" --remap-path-prefix=$sources=/crates"
  done
  # `rubelet version` prints it.
  RUBELET_COMMIT=$(git rev-parse --short=12 HEAD 2>/dev/null || true)
  export RUSTFLAGS RUBELET_COMMIT
}

if [[ -z ${RUBELET:-} ]]; then
  type -P cargo >/dev/null || die "cargo is not there: install Rust (rustup, or your distribution's packages)"
  target=$(cargo metadata --format-version 1 --no-deps --offline | jq -r .target_directory)
  [[ $profile != release ]] || as_shipped "$target"
  quiet=()
  [[ -t 2 ]] || quiet=(--quiet)
  cargo build "${quiet[@]}" --locked --profile "$profile" -p rubelet >&2
  # cargo's directory for the profile "dev" is "debug".
  RUBELET=$target/${profile/#dev/debug}/rubelet
fi
realpath "$RUBELET"
