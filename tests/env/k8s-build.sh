#!/usr/bin/env bash
# Go programs for the tests, above all Kubernetes' own: built once into the cache from tests/e2e/tools and
# tests/machine/tools. Prints their directory.
#   k8s-build.sh              those of the e2e tier
#   k8s-build.sh PROGRAM…     these; some are built only on request
#   K8S_BIN=DIR   takes the programs from there and builds nothing
# The e2e tier's take twelve minutes and more on two cores; an existing program is not built again. Fails with the reason
# if Go or the modules are not available.
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

tools=$REPO/tests/e2e/tools
machine_tools=$REPO/tests/machine/tools
usage_tools=$REPO/tests/e2e/usage-tools
version=$(sed -n 's|^\tk8s.io/kubernetes v\([0-9.]*\)$|\1|p;s|^require k8s.io/kubernetes v\([0-9.]*\)$|\1|p' "$tools/go.mod")
bin=$CACHE/kubernetes-$version/bin

# PROGRAM CGO MODULE PACKAGE. The kubelet is linked to libc, as upstream ships it.
PROGRAMS="
kube-apiserver          0 $tools k8s.io/kubernetes/cmd/kube-apiserver
kube-controller-manager 0 $tools k8s.io/kubernetes/cmd/kube-controller-manager
kube-scheduler          0 $tools k8s.io/kubernetes/cmd/kube-scheduler
kubelet                 1 $tools k8s.io/kubernetes/cmd/kubelet
agnhost                 0 $tools k8s.io/kubernetes/test/images/agnhost
ginkgo                  0 $tools github.com/onsi/ginkgo/v2/ginkgo
e2e.test                0 $tools k8s.io/kubernetes/test/e2e
"
# Only on request: clusters that kubeadm makes, and upstream's node suite.
ON_REQUEST="
kubeadm          0 $tools k8s.io/kubernetes/cmd/kubeadm
kube-proxy       0 $tools k8s.io/kubernetes/cmd/kube-proxy
etcd             0 $machine_tools/etcd go.etcd.io/etcd/server/v3
coredns          0 $machine_tools/coredns .
sample-apiserver 0 $tools k8s.io/sample-apiserver
e2e_node.test    0 $tools k8s.io/kubernetes/test/e2e_node
metrics-server   0 $usage_tools sigs.k8s.io/metrics-server/cmd/metrics-server
"

main() {
  local name cgo module package list missing=()
  list=$(wanted "$@") || exit 1
  [[ -n $version ]] || die "$tools/go.mod does not say which Kubernetes"
  if [[ -n ${K8S_BIN:-} ]]; then
    while read -r name _; do
      [[ -x $K8S_BIN/$name ]] || missing+=("$name")
    done <<<"$list"
    ((${#missing[@]} == 0)) || die "K8S_BIN=$K8S_BIN has no ${missing[*]}"
    realpath "$K8S_BIN"
    return
  fi
  mkdir -p "$bin"
  while read -r name cgo module package; do
    [[ -x $bin/$name ]] || build "$name" "$cgo" "$module" "$package" </dev/null
  done <<<"$list"
  echo "$bin"
}

# `wanted [PROGRAM…]`: their lines.
wanted() {
  if (($# == 0)); then
    sed '/^$/d' <<<"$PROGRAMS"
    return
  fi
  local name line
  for name in "$@"; do
    line=$(grep "^${name//./\\.} " <<<"$PROGRAMS$ON_REQUEST") || die "no such program: $name"
    say "$line"
  done
}

# The version is linked into the programs; the API server's feature defaults depend on it.
flags() {
  local at
  printf '%s' '-s -w'
  for at in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    printf ' -X %s' "$at.gitVersion=v$version" "$at.gitMajor=${version%%.*}" \
      "$at.gitMinor=$(cut -d. -f2 <<<"$version")" "$at.gitTreeState=clean"
  done
}

# `build NAME CGO MODULE PACKAGE`: builds into a temporary file, then renames it: an interrupted build leaves nothing. The
# lock is that of one program, so that nobody waits for programs that are not needed.
build() {
  local name=$1 cgo=$2 module=$3 package=$4 command=(build) lock
  type -P go >/dev/null || die "$name is not in $bin and cannot be built: Go is not installed, and K8S_BIN names no directory"
  exec {lock}>"$bin/.$name.lock"
  flock "$lock"
  if [[ ! -x $bin/$name ]]; then
    [[ $name != *.test ]] || command=(test -c -vet=off)
    step "building $name" >&2
    (cd "$module" && CGO_ENABLED=$cgo GOFLAGS='-buildvcs=false -trimpath -mod=readonly' \
      go "${command[@]}" -ldflags "$(flags)" -o "$bin/.$name.part" "$package") >&2 ||
      die "$name is not in $bin and could not be built, see above; K8S_BIN=DIR takes programs that are built already"
    mv "$bin/.$name.part" "$bin/$name"
  fi
  exec {lock}>&-
}

main "$@"
