#!/usr/bin/env bash
# Prints the path of a rubelet: RUBELET, else one that cargo builds with the profile NODE_PROFILE (dev).
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$REPO"
profile=${NODE_PROFILE:-dev}

if [[ -z ${RUBELET:-} ]]; then
  type -P cargo >/dev/null || die "cargo is not there: install Rust (rustup, or your distribution's packages)"
  cargo build --quiet --locked --profile "$profile" -p rubelet >&2
  target=$(cargo metadata --format-version 1 --no-deps --offline | jq -r .target_directory)
  # cargo's directory for the profile "dev" is "debug".
  RUBELET=$target/${profile/#dev/debug}/rubelet
fi
realpath "$RUBELET"
