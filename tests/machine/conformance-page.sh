# shellcheck shell=bash
# The recorded results of `make conformance` and of `make e2e-node`, and the parts of docs/conformance.md that are made from
# them. Sourced by conformance.sh and e2e-node.sh.
#
# conformance.tsv, e2e-node.tsv: a spec's name, its state with rubelet and with upstream's kubelet (passed, failed, skipped or
# - for not run), and why it did not pass. The first lines name the commit and the day of both runs.

PAGE=$REPO/docs/conformance.md
# `page_of NAME AREA`: the part that NAME.sh writes, from NAME.tsv. AREA is a regular expression: a spec's area is what it
# matches in the spec's name.
page_of() {
  RECORDED=$MACHINE_DIR/$1.tsv
  PAGE_BEGIN="<!-- tests/machine/$1.sh writes what follows -->"
  PAGE_END="<!-- until here: $1.sh -->"
  PAGE_AREA=$2
}

recorded() { sed '/^#/d' "$RECORDED" 2>/dev/null || true; }

# `page_failed_elsewhere NODE`: specs that did not pass with the other agent.
page_failed_elsewhere() {
  local column=2
  [[ $1 == upstream ]] || column=3
  recorded | awk -F '\t' -v column="$column" '$column == "failed" { print $1 }' | sort -u
}

# `page_record NODE RESULTS SPECS`: specs that were not run keep their state. SPECS has the names of all of them.
page_record() {
  local node=$1 results=$2 specs=$3 other=upstream column=2
  if [[ $node == upstream ]]; then other=rubelet column=3; fi
  {
    echo "# $node $(git -C "$REPO" describe --always --abbrev=12 --dirty=+changes --exclude '*') $(date -u +%F)"
    grep "^# $other " "$RECORDED" 2>/dev/null || true
    awk -F '\t' -v OFS='\t' -v column="$column" '
      NR == FNR { now[$4] = $1; why[$4] = $5; next }
      { seen[$1] = 1 }
      $1 in now { $column = now[$1]; if (now[$1] != "passed" && why[$1] != "" && $4 == "") $4 = why[$1] }
      { if ($2 != "failed" && $2 != "skipped" && $3 != "failed" && $3 != "skipped") $4 = ""; print }
      END {
        for (name in now) if (!(name in seen))
          print name, column == 2 ? now[name] : "-", column == 3 ? now[name] : "-", now[name] == "passed" ? "" : why[name]
      }' "$results" <(recorded; comm -23 "$specs" <(recorded | cut -f1 | sort -u) | sed 's/$/\t-\t-\t/') | sort -t$'\t' -k1,1
  } >"$RECORDED.new"
  mv "$RECORDED.new" "$RECORDED"
  page_write
}

page_generated() {
  awk -v last="$PAGE_BEGIN" '{ print } $0 == last { exit }' "$PAGE"
  echo
  sed -n 's/^# \([a-z]*\) \([^ ]*\) \([^ ]*\)$/\1 \2 \3/p' "$RECORDED" | sort | while read -r node commit day; do
    echo "- ${node/upstream/"upstream's kubelet"}: $day, with the scripts of commit $commit"
  done
  echo
  echo "| area | specs | rubelet passes | upstream's kubelet passes |"
  echo "|---|---|---|---|"
  # Not -v, which would take the backslashes of a regular expression for its own.
  recorded | AREA=$PAGE_AREA awk -F '\t' '
    { area = match($1, ENVIRON["AREA"]) ? substr($1, RSTART, RLENGTH) : "others"; all[area]++; total++ }
    $2 == "passed" { ours[area]++; us++ }
    $3 == "passed" { theirs[area]++; them++ }
    END {
      for (area in all) printf "| %s | %d | %d | %d |\n", area, all[area], ours[area], theirs[area] | "sort"
      close("sort")
      printf "| all | %d | %d | %d |\n", total, us, them
    }'
  echo
  recorded | awk -F '\t' '
    $2 == "-" { us++ } $3 == "-" { them++ }
    END { if (us + them) printf "Not run yet: %d with rubelet, %d with upstream\047s kubelet.\n\n", us, them }'
  if recorded | awk -F '\t' '$2 ~ /failed|skipped/ || $3 ~ /failed|skipped/ { found = 1 } END { exit !found }'; then
    echo "| spec | rubelet | upstream's kubelet | why |"
    echo "|---|---|---|---|"
    recorded | awk -F '\t' '$2 ~ /failed|skipped/ || $3 ~ /failed|skipped/ {
      gsub(/[|]/, "\\|"); gsub(/[<]/, "\\&lt;"); print "| " $1 " | " $2 " | " $3 " | " $4 " |" }'
    echo
  fi
  awk -v first="$PAGE_END" '$0 == first { found = 1 } found' "$PAGE"
}

page_write() {
  page_generated >"$PAGE.new"
  mv "$PAGE.new" "$PAGE"
}

page_check() {
  [[ -e $RECORDED ]] || return 0
  diff <(page_generated) "$PAGE" >&2 || die "docs/conformance.md does not fit $RECORDED: run tests/machine/$(basename "$RECORDED" .tsv).sh page"
}
