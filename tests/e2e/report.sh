# shellcheck shell=bash
# The results of a run of the suite: per area, and compared with the expected results. Sourced by run.sh.
#
# results.tsv has a line for each spec that was run: state, seconds, area, name, and the reason of a failure or a skip.

E2E_DIR=${E2E_DIR:-}
# The same order of lines on every machine: the lists are in the repository and are compared line by line.
export LC_ALL=C
# Names of specs, one per line: those that upstream's kubelet passes here.
PASSES=$E2E_DIR/upstream-passes.txt
# Specs that upstream's kubelet did not pass here. A spec in neither list was never run with it.
FAILS=$E2E_DIR/upstream-fails.txt
# The subset that `make e2e` runs.
CI_SPECS=$E2E_DIR/ci-specs.txt
# A spec's name, a tab, and the missing feature that it waits for.
WAITING=$E2E_DIR/waiting.txt

# `results REPORT`: from ginkgo's JSON, without the specs that the focus excluded.
results() {
  jq -r '.[].SpecReports[] | select(.LeafNodeType == "It" and .NumAttempts > 0) |
    [.State, (.RunTime / 1e9 | floor), (.ContainerHierarchyTexts[0] | gsub(" *\\[[^]]*\\] *"; "")),
     (.ContainerHierarchyTexts + [.LeafNodeText] | join(" ")),
     (.Failure.Message // "" | gsub("[\\n\\t ]+"; " ") | .[0:300])] | @tsv' "$1" |
    sed 's/^\(interrupted\|panicked\|timedout\|aborted\)\t/failed\t/' | sort -t$'\t' -k3,4
}

table() {
  say ""
  awk -F '\t' -v bold="$BOLD" -v reset="$RESET" '
    { n[$3, $1]++; if (!seen[$3]++) areas[++count] = $3; total[$1]++ }
    END {
      printf "%s%-58s %7s %7s %7s%s\n", bold, "Area", "passed", "failed", "skipped", reset
      for (i = 1; i <= count; i++) {
        a = areas[i]
        printf "%-58s %7d %7d %7d\n", substr(a, 1, 58), n[a, "passed"], n[a, "failed"], n[a, "skipped"]
      }
      printf "%s%-58s %7d %7d %7d%s\n", bold, "all", total["passed"], total["failed"], total["skipped"], reset
    }' "$1" | tee "$OUT/table.txt"
}

# A regular expression for exactly the specs whose names are read.
exactly() { printf '(%s)$' "$(sed 's/[][\.*^$+?(){}|/]/\\&/g' | paste -sd '|')"; }

named() { awk -F '\t' -v state="$2" '$1 == state { print $4 }' "$1" | sort -u; }
waiting_names() { cut -f1 "$WAITING" | sed '/^#/d; /^$/d' | sort -u; }
passes() { sort -u "$PASSES"; }
fails() { sed '/^#/d; /^$/d' "$FAILS" | sort -u; }
ci_specs() { sed '/^#/d; /^$/d' "$CI_SPECS" | sort -u; }
failures_that_count() { comm -12 <(named "$1" failed) <(comm -23 <(passes) <(waiting_names)); }

# Each of those with the suite's failure message.
why_failed() {
  awk -F '\t' 'NR == FNR { counts[$0] = 1; next } $1 == "failed" && $4 in counts { print $4 ": " $5 }' \
    <(failures_that_count "$1") "$1"
}

# `merge_second FIRST SECOND`: a spec that passed the second time has passed, and is marked.
merge_second() {
  local merged=$1.merged
  awk -F '\t' -v OFS='\t' 'NR == FNR { if ($1 == "passed") ok[$4] = 1; next }
    $1 == "failed" && $4 in ok { $1 = "passed"; $5 = "at the second try: " $5 } { print }' "$2" "$1" >"$merged"
  mv "$merged" "$1"
  grep -P '\tat the second try: ' "$1" | cut -f4 | sed "s/^/    passed only at the second try: /" || true
}

# False if a spec that counts has failed.
verdict() {
  local failed
  failed=$(failures_that_count "$1")
  if [[ $NODE == upstream ]]; then
    list "of upstream-passes.txt, but did not pass now" "$(comm -23 <(passes | comm -12 - <(all_names "$1")) <(named "$1" passed))"
    list "passed now, and not in upstream-passes.txt" "$(comm -13 <(passes) <(named "$1" passed))"
    return 0
  fi
  list "failed, and waits for something (waiting.txt)" "$(comm -12 <(named "$1" failed) <(waiting_names))"
  list "passed, and is still in waiting.txt" "$(comm -12 <(named "$1" passed) <(waiting_names))"
  list "failed as it does with upstream's kubelet here" "$(comm -12 <(named "$1" failed) <(fails))"
  list "failed, and it is not known whether upstream's kubelet passes it here" \
    "$(comm -23 <(named "$1" failed) <(sort -u <(passes) <(fails)))"
  list "${RED}failed, and counts${RESET}" "$failed"
  say "$(comm -12 <(named "$1" passed) <(passes) | wc -l) passed of $(passes | comm -12 - <(all_names "$1") | wc -l) that upstream passes"
  [[ -z $failed ]]
}

all_names() { cut -f4 "$1" | sort -u; }

list() {
  [[ -n $2 ]] || return 0
  say "$1: $(wc -l <<<"$2")"
  printf '    %s\n' "${2//$'\n'/$'\n    '}"
}

# Specs that were not run keep their entries.
record() {
  update "$PASSES" "$1" passed
  update "$FAILS" "$1" failed
}

# `update LIST RESULTS STATE`: the list without the specs that were run, plus those with this state. Its comments stay.
update() {
  local list=$1
  {
    grep '^#' "$list" || true
    sort -u <(named "$2" "$3") <(comm -23 <(sed '/^#/d; /^$/d' "$list" | sort -u) <(all_names "$2"))
  } >"$list.new"
  mv "$list.new" "$list"
  say "${list#"$REPO/"} has $(grep -vc '^#' "$list") specs now"
}
