#!/usr/bin/env bash
# The program in which upstream's own functions answer: our Go files of tests/oracle/go beside a copy of upstream's sources,
# so that functions that are not exported can be called. Built once into the cache; prints where it is.
# Nothing of upstream's is kept in this repository: the sources come from the module cache.
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../env/lib.sh"

ours=$REPO/tests/oracle/go
tools=$REPO/tests/e2e/tools
version=$(sed -n 's|^\tk8s.io/kubernetes v\([0-9.]*\)$|\1|p' "$tools/go.mod")
dir=$CACHE/oracle-$version
# Binaries are kept by what they were built from: two checkouts share the cache and do not disturb each other.
KEPT=4

main() {
  local program
  [[ -n $version ]] || die "$tools/go.mod does not say which Kubernetes"
  program=$dir/bin/oracle-$(fingerprint)
  if [[ ! -x $program ]]; then
    mkdir -p "$dir/bin"
    exec 9>"$dir/lock"
    flock 9
    [[ -x $program ]] || build "$program"
  fi
  touch "$program"
  echo "$program"
}

fingerprint() {
  (cd "$REPO" && find tests/oracle/go tests/oracle/build.sh tests/e2e/tools/go.mod -type f -print0 | sort -z |
    xargs -0 sha256sum | sha256sum | cut -c1-16)
}

build() {
  local program=$1
  type -P go >/dev/null || die "the oracle is not in $dir and cannot be built: Go is not installed"
  step "building the oracle from Kubernetes $version" >&2
  copy_upstream
  find "$dir/kubernetes" \( -name 'oracle_*.go' -o -path '*/pkg/oracle/*' -o -path '*/cmd/oracle/*' \) -type f -delete
  cp -r "$ours/." "$dir/kubernetes/"
  mkdir -p "$dir/module"
  cp "$tools/go.mod" "$tools/go.sum" "$dir/module/"
  (cd "$dir/module" && go mod edit -replace k8s.io/kubernetes=../kubernetes &&
    CGO_ENABLED=0 GOFLAGS='-buildvcs=false -trimpath -mod=readonly' \
      go build -ldflags '-s -w' -o "$program.part" k8s.io/kubernetes/cmd/oracle) >&2 ||
    die "the oracle could not be built, see above"
  mv "$program.part" "$program"
  find "$dir/bin" -name 'oracle-*' -printf '%T@ %p\n' | sort -rn | tail -n "+$((KEPT + 1))" | cut -d' ' -f2- | xargs -r rm -f
}

# Into a directory beside, then renamed, so that a copy that is cut off leaves nothing.
copy_upstream() {
  local from
  [[ ! -d $dir/kubernetes ]] || return 0
  from=$(cd "$tools" && go mod download -json k8s.io/kubernetes | sed -n 's|^\t"Dir": "\(.*\)",$|\1|p')
  [[ -d $from ]] || die "the sources of Kubernetes $version could not be had"
  rm -rf "$dir/kubernetes.part"
  cp -r --no-preserve=mode "$from" "$dir/kubernetes.part"
  mv "$dir/kubernetes.part" "$dir/kubernetes"
}

main "$@"
