#!/usr/bin/env bash
# The Go programs of the e2e tier, Kubernetes' own: built once from tests/e2e/tools into the cache. Prints their
# directory.
#   k8s-build.sh [PROGRAM…]   all of them by default
#   K8S_BIN=DIR   takes the programs from there and builds nothing
# Takes twelve minutes and more on two cores; an existing program is not built again. Fails with the reason if Go or the
# modules are not available.
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

tools=$REPO/tests/e2e/tools
version=$(sed -n 's|^\tk8s.io/kubernetes v\([0-9.]*\)$|\1|p;s|^require k8s.io/kubernetes v\([0-9.]*\)$|\1|p' "$tools/go.mod")
bin=$CACHE/kubernetes-$version/bin

# PROGRAM CGO PACKAGE. The kubelet is linked to libc, as upstream ships it.
PROGRAMS="
kube-apiserver          0 k8s.io/kubernetes/cmd/kube-apiserver
kube-controller-manager 0 k8s.io/kubernetes/cmd/kube-controller-manager
kube-scheduler          0 k8s.io/kubernetes/cmd/kube-scheduler
kubelet                 1 k8s.io/kubernetes/cmd/kubelet
agnhost                 0 k8s.io/kubernetes/test/images/agnhost
ginkgo                  0 github.com/onsi/ginkgo/v2/ginkgo
e2e.test                0 k8s.io/kubernetes/test/e2e
"

main() {
  local name cgo package missing=() wanted=" $* "
  [[ -n $version ]] || die "$tools/go.mod does not say which Kubernetes"
  if [[ -n ${K8S_BIN:-} ]]; then
    while read -r name _; do
      [[ -z $name || -x $K8S_BIN/$name ]] || ! is_wanted || missing+=("$name")
    done <<<"$PROGRAMS"
    ((${#missing[@]} == 0)) || die "K8S_BIN=$K8S_BIN has no ${missing[*]}"
    realpath "$K8S_BIN"
    return
  fi
  mkdir -p "$bin"
  exec 9>"$CACHE/kubernetes.lock"
  flock 9
  while read -r name cgo package; do
    [[ -z $name || -x $bin/$name ]] || ! is_wanted || build "$name" "$cgo" "$package"
  done <<<"$PROGRAMS"
  echo "$bin"
}

is_wanted() { [[ $wanted == "  " || $wanted == *" $name "* ]]; }

# The version is linked into the programs; the API server's feature defaults depend on it.
flags() {
  local at
  printf '%s' '-s -w'
  for at in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    printf ' -X %s' "$at.gitVersion=v$version" "$at.gitMajor=${version%%.*}" \
      "$at.gitMinor=$(cut -d. -f2 <<<"$version")" "$at.gitTreeState=clean"
  done
}

# `build NAME CGO PACKAGE`: builds into a temporary file, then renames it: an interrupted build leaves nothing.
build() {
  local name=$1 cgo=$2 package=$3 command=(build)
  type -P go >/dev/null || die "$name is not in $bin and cannot be built: Go is not installed, and K8S_BIN names no directory"
  [[ $name != *.test ]] || command=(test -c -vet=off)
  step "building $name $version" >&2
  (cd "$tools" && CGO_ENABLED=$cgo GOFLAGS='-buildvcs=false -trimpath -mod=readonly' \
    go "${command[@]}" -ldflags "$(flags)" -o "$bin/.$name.part" "$package") >&2 ||
    die "$name is not in $bin and could not be built, see above; K8S_BIN=DIR takes programs that are built already"
  mv "$bin/.$name.part" "$bin/$name"
}

main "$@"
