#!/usr/bin/env bash
# `make mutants`: mutates the code, one place at a time, and runs the tests on each mutation. Prints those that no test
# finds.
#   MUTANTS_BASE=main    mutates the lines that differ from the merge base with this (main, else HEAD~1)
#   CRATE=core           mutates all of crates/core instead
#   SHARD=0/8            only a sample of the mutations: every eighth, from all files
#   JOBS=2               how many at a time, two at most; each has a build of its own, of some gigabytes, below TMPDIR
# Each mutation runs the tests of its crate. A mutation that makes them hang counts as found.
# The report is in target/mutants/mutants.out: missed.txt, caught.txt, timeout.txt, unviable.txt, log/.
# Exit code 0: all mutations found. 2: some were missed. Else the run failed.
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$REPO"

JOBS=${JOBS:-2}
OUT=$REPO/target/mutants
# Longer than the slowest test of the crate with two builds in parallel; a mutation that hangs costs this much time.
LEAST_SECONDS=60

main() {
  ((JOBS >= 1 && JOBS <= 2)) || die "JOBS is 1 or 2, not $JOBS: each job builds and tests with all cores"
  "$ENV_DIR/install.sh" mutants
  mkdir -p "$OUT"
  local status=0 what=()
  if [[ -n ${CRATE:-} ]]; then
    [[ -d crates/$CRATE/src ]] || die "no such crate: crates/$CRATE"
    what=(--file "crates/$CRATE/src/**/*.rs")
  else
    diff_of_change >"$OUT/change.diff"
    [[ -s $OUT/change.diff ]] || die "no Rust file of the program differs from $(base); MUTANTS_BASE= names another base, CRATE= a whole crate"
    what=(--in-diff "$OUT/change.diff")
  fi
  [[ -z ${SHARD:-} ]] || what+=(--shard "$SHARD" --sharding round-robin)
  step "cargo mutants ${what[*]}"
  NEXTEST_PROFILE=mutants cargo mutants --jobs "$JOBS" --output "$OUT" --test-tool nextest --cargo-arg=--locked \
    --timeout-multiplier 3 --minimum-test-timeout "$LEAST_SECONDS" --colors never --no-shuffle "${what[@]}" || status=$?
  # 2: some missed. 3: some timed out. Both are results.
  case $status in
    0 | 2 | 3) summary ;;
    *) die "cargo-mutants ended with $status, see $OUT/mutants.out/log" ;;
  esac
}

base() {
  local of=${MUTANTS_BASE:-main}
  git merge-base HEAD "$of" 2>/dev/null || git rev-parse HEAD~1
}

# Tests and test-only code are not mutated. Uncommitted changes are included.
diff_of_change() { git diff "$(base)" -- 'crates/*/src/*.rs' ':!crates/testkit' ':!*/tests.rs' ':!*/tests/*'; }

summary() {
  local report=$OUT/mutants.out/outcomes.json found missed
  if [[ ! -s $report ]]; then
    say "nothing to change in what differs: no mutations"
    exit 0
  fi
  found=$(jq '.caught + .timeout' "$report")
  missed=$(jq .missed "$report")
  if ((missed)); then
    say "missed:"
    sed 's/^/    /' "$OUT/mutants.out/missed.txt"
  fi
  say "$((found + missed)) mutations: $found found, $missed missed, $((found + missed ? found * 100 / (found + missed) : 100)) % found; $(jq .unviable "$report") more do not compile"
  ((missed == 0)) || exit 2
}

main "$@"
