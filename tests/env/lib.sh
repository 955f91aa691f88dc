# shellcheck shell=bash
# Paths, messages and polling for the scripts of this directory. Sourced, never run.

ENV_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck disable=SC2034  # used by those who source this
REPO=${ENV_DIR%/tests/env}
# Files that are fetched or built for the tests stay out of the tree and out of the system's directories.
CACHE=${RUBELET_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rubelet}
# shellcheck disable=SC2034  # used by those who source this
CONTAINERD_VERSIONS=(2.1 1.6)

if [[ -t 1 && -z ${NO_COLOR:-} && ${TERM:-dumb} != dumb ]]; then
  BOLD=$'\e[1m' DIM=$'\e[2m' RED=$'\e[31m' GREEN=$'\e[32m' YELLOW=$'\e[33m' RESET=$'\e[0m'
else
  BOLD='' DIM='' RED='' GREEN='' YELLOW='' RESET=''
fi
export BOLD DIM RED GREEN YELLOW RESET

say() { printf '%s\n' "$*"; }
step() { printf '%s==>%s %s\n' "$BOLD" "$RESET" "$*"; }
warn() { printf '%swarning:%s %s\n' "$YELLOW" "$RESET" "$*" >&2; }
die() {
  printf '%serror:%s %s\n' "$RED" "$RESET" "$*" >&2
  exit 1
}

# `until_true SECONDS COMMAND…`: polls a condition; false on a timeout. Every wait of these scripts is bounded.
until_true() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < end)) || return 1
    sleep 0.1
  done
}

# Programs that were built into the cache come last, so that a machine's own are preferred.
export PATH=$PATH:$CACHE/tools/bin:/usr/sbin:/sbin
