#!/usr/bin/env bash
# Takes away what the scripts of this directory made: private containerds, running or crashed, and the cache.
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# A private containerd writes its directory on its bridge.
if command -v ip >/dev/null && command -v jq >/dev/null; then
  ip -j link show type bridge | jq -r '.[].ifalias // "" | select(startswith("rubelet:")) | ltrimstr("rubelet:")' |
    while read -r dir; do
      step "stopping the containerd of $dir"
      "$ENV_DIR/containerd.sh" stop "$dir"
    done
fi
step "removing $CACHE"
rm -rf "${CACHE:?}"
