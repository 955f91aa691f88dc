#!/usr/bin/env bash
# Builds images of clusters that kubeadm makes, under upstream's names, as OCI archives in the cache. No registry is used.
#   images.sh [control-plane]   what `kubeadm config images list` names, in $CACHE/kubeadm-images
#   images.sh conformance       what [Conformance] specs need beyond tests/env/e2e-images.sh, in $CACHE/conformance-images
#
# An image has nothing but its program, at upstream's path; kube-proxy's has Debian's iptables and libc too, nautilus and
# kitten are agnhost with the page that specs look for.
# Rebuilt only when these scripts or their inputs change.
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../env/lib.sh"

umask 022
group=${1:-control-plane}
path='"Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]'
FROM=registry.k8s.io
TESTS=$FROM/e2e-test-images

main() {
  local programs out recipe
  case $group in
    control-plane) programs=(kube-apiserver kube-controller-manager kube-scheduler kube-proxy etcd coredns kubeadm) ;;
    conformance) programs=(agnhost sample-apiserver) ;;
    *) die "usage: images.sh [control-plane|conformance]" ;;
  esac
  bin=$("$ENV_DIR/k8s-build.sh" "${programs[@]}")
  [[ $group == conformance ]] || "$ENV_DIR/install.sh" proxy
  out=$CACHE/${group/control-plane/kubeadm}-images
  recipe=$({
    cat "${BASH_SOURCE[0]}" "$ENV_DIR/oci.sh" "$ENV_DIR/pause.c"
    cd "$bin" && sha256sum "${programs[@]}"
    [[ $group == conformance ]] || cat "$CACHE/iptables/version"
  } | sha256sum)
  exec 9>"$CACHE/images.lock"
  flock 9
  [[ ! -e $out/recipe || $(<"$out/recipe") != "$recipe" ]] || return 0

  step "building images: $group"
  rm -rf "$out"
  mkdir -p "$out"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  "${group//-/_}" "$out"
  echo "$recipe" >"$out/recipe"
}

control_plane() {
  local out=$1 name program
  local images
  images=$("$bin/kubeadm" config images list --kubernetes-version "$("$bin/kubeadm" version -o short)")
  while read -r name; do
    program=$(basename "${name%:*}")
    case $program in
      pause) pause ;;
      # Its pod has arguments only.
      coredns) root_of "$program" && put "$program" / ;;
      kube-proxy) root_of "$program" && put "$program" /usr/local/bin && iptables ;;
      *) root_of "$program" && put "$program" /usr/local/bin ;;
    esac
    archive "$out" "$program" "$name" "$([[ $program != @(coredns|pause) ]] || echo ",\"Entrypoint\":[\"/$program\"]")"
  done <<<"$images"
}

conformance() {
  local out=$1 name
  for name in nautilus kitten; do
    root_of "$name"
    put agnhost /
    printf '{"image": "%s.jpg"}\n' "$name" >"$root/data.json"
    archive "$out" "$name" "$TESTS/$name:1.8" ',"Entrypoint":["/agnhost"],"Cmd":["test-webserver"]'
  done
  root_of sample-apiserver
  put sample-apiserver /
  archive "$out" sample-apiserver "$TESTS/sample-apiserver:1.29.2" ',"Entrypoint":["/sample-apiserver"]'
}

# `root_of NAME`: an empty root directory, in $root.
root_of() {
  root=$work/$1
  mkdir -p "$root"/{etc,tmp,usr/local/bin}
  echo 'root:x:0:0:root:/:/bin/false' >"$root/etc/passwd"
  chmod 1777 "$root/tmp"
}

# `put PROGRAM DIR`
put() { cp --reflink=auto "$bin/$1" "$root/$2/"; }

pause() {
  root_of pause
  cc -static -Os -s -Wall -Wextra -Werror -o "$root/pause" "$ENV_DIR/pause.c"
}

# The machines' CNI plugins use Debian's iptables, on nftables, and the rules of two kinds do not mix: so does kube-proxy.
iptables() {
  local name
  cp -a "$CACHE"/iptables/{lib,lib64,usr} "$root/"
  rm -rf "${root:?}"/usr/share "${root:?}"/usr/lib/*/gconv
  for name in {iptables,ip6tables}{,-save,-restore}; do
    ln -sf xtables-nft-multi "$root/usr/sbin/$name"
  done
}

# `archive OUT FILE NAME CONFIG`
archive() {
  "$ENV_DIR/oci.sh" "$3" "$root" "$1/$2.tar" "{$path$4}"
  # Half a gigabyte in all: only one root at a time.
  rm -rf "$root"
  say "    $3"
}

main
