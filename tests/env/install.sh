#!/usr/bin/env bash
# Installs programs that the tests and the demo need and the machine lacks. `install.sh
# [runtime|cluster|metrics|proxy|dns|vm|machine|browser|tools|lint|package|mutants|all|mirror]`
#
#   runtime  containerd (two versions, side by side), runc, CNI plugins, busybox: unpacked into the cache,
#            never installed, so that no service starts and no package of the machine moves
#   cluster  what a control plane needs beside the programs of k8s.sh: etcd, kubectl, a static bash (unpacked), openssl
#   metrics  promtool, which checks metric pages (unpacked); no part of `all`
#   proxy    iptables with its libraries, for kube-proxy's image (unpacked); no part of `all`
#   dns      dig and nc, for the images of sig-network's specs; no part of `all`
#   vm       QEMU (a package of the machine) and a kernel with cgroup v2 for it (unpacked into the cache)
#   machine  debootstrap and what else the machines of tests/machine need; no part of `all`
#   browser  Chromium, for the page for people; no part of `all`
#   tools    cargo-nextest, if not on PATH (built once, some minutes)
#   lint     cargo-deny and shellcheck, if not on PATH
#   package  what packs a program: dpkg-deb, objdump, xz
#   mutants  cargo-mutants, if not on PATH; no part of `all`
#   mirror   installs nothing: prints the Debian mirror that this machine uses
#
# A second run finds everything present and takes a moment.
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

NEXTEST_VERSION=0.9.151
DENY_VERSION=0.20.2
MUTANTS_VERSION=27.1.0

# Packages to unpack: DIRECTORY SUITE PACKAGE, and a program whose presence shows that the package is unpacked. The
# suites are fixed: containerd 1.6 is needed on a newer Debian too, and runc of forky needs a newer libc.
UNPACK="
containerd-2.1 forky    containerd                  usr/bin/containerd
containerd-1.6 bookworm containerd                  usr/bin/containerd
runc           bookworm runc                        usr/sbin/runc
cni            bookworm containernetworking-plugins usr/lib/cni/bridge
busybox        bookworm busybox-static              bin/busybox
"
# The etcd of Debian 12 is too old for Kubernetes 1.36.
UNPACK_CLUSTER="
etcd           trixie   etcd-server                 usr/bin/etcd
kubectl        forky    kubectl                     usr/bin/kubectl
bash           bookworm bash-static                 bin/bash-static
"
UNPACK_METRICS="
prometheus     bookworm prometheus                  usr/bin/promtool
"

main() {
  mkdir -p "$CACHE"
  # Two runs at once would fetch and build the same things twice.
  exec 9>"$CACHE/install.lock"
  flock 9
  case ${1:-all} in
    runtime) runtime ;;
    cluster) runtime && cluster ;;
    metrics) unpack_missing <<<"$UNPACK_METRICS" ;;
    proxy) proxy ;;
    dns) programs dig:bind9-dnsutils nc.openbsd:netcat-openbsd ss:iproute2 getent:libc-bin ;;
    vm) vm ;;
    machine) programs debootstrap:debootstrap ip:iproute2 nsenter:util-linux pivot_root:mount jq:jq mkfs.ext4:e2fsprogs socat:socat ;;
    browser) programs chromium:chromium ;;
    mirror) mirror ;;
    tools) nextest ;;
    lint) lint ;;
    package) programs dpkg-deb:dpkg objdump:binutils xz:xz-utils jq:jq ;;
    mutants) nextest && cargo_tool cargo-mutants "$MUTANTS_VERSION" ;;
    all) runtime && cluster && vm && nextest && lint ;;
    *) die "usage: install.sh [runtime|cluster|metrics|proxy|dns|vm|machine|browser|tools|lint|package|mutants|all|mirror]" ;;
  esac
}

# Ordinary programs are installed as packages of the machine: `programs PROGRAM:PACKAGE…`
programs() {
  local pair missing=()
  for pair in "$@"; do
    type -P "${pair%:*}" >/dev/null || missing+=("${pair#*:}")
  done
  packages "${missing[@]}"
}

packages() {
  (($#)) || return 0
  need_apt
  [[ $EUID == 0 ]] || die "not there: $*; only root may install packages"
  step "installing packages: $*"
  # The first attempt fails on a machine without a package index, or with an old one.
  apt_install "$@" 2>/dev/null || { apt_update && apt_install "$@"; }
}

# A new machine may be running its first upgrade, which holds apt's lock for minutes; a mirror may fail for a moment.
apt_install() {
  DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 \
    install -qq -y --no-install-recommends "$@" >/dev/null
}

# There is no such setting for the lock of the package lists.
apt_update() {
  local attempt
  for attempt in {1..30}; do
    if apt-get -o Acquire::Retries=3 update -qq; then return 0; fi
    ((attempt == 30)) || sleep 5
  done
  return 1
}

need_apt() {
  command -v apt-get >/dev/null || die "this machine has no apt-get: the test environment is made for Debian"
}

# Also cargo's linker. The headers and libc.a, with which the pause program is linked, are in a separate package.
compiler() {
  programs cc:gcc
  [[ -n $(find /usr/lib -name libc.a -print -quit) ]] || packages libc6-dev
}

runtime() {
  programs curl:curl jq:jq ip:iproute2 dbus-daemon:dbus-daemon
  compiler
  # runc's only library besides libc.
  [[ $(ldconfig -p) == *libseccomp.so.2* ]] || packages libseccomp2
  unpack_missing <<<"$UNPACK"
}

cluster() {
  programs openssl:openssl sysctl:procps mkfs.ext4:e2fsprogs losetup:mount
  unpack_missing <<<"$UNPACK_CLUSTER"
}

# With libc, so that kube-proxy's image does not depend on this machine's.
proxy() {
  [[ -x $CACHE/iptables/usr/sbin/xtables-nft-multi ]] || unpack iptables bookworm iptables libc6 libip4tc2 libip6tc2 \
    libmnl0 libnetfilter-conntrack3 libnfnetlink0 libnftnl11 libxtables12
}

# Reads lines as in UNPACK.
unpack_missing() {
  local dir suite package proof
  while read -r dir suite package proof; do
    [[ -z $dir || -x $CACHE/$dir/$proof ]] || unpack "$dir" "$suite" "$package"
  done
}

vm() {
  programs qemu-system-x86_64:qemu-system-x86 mkfs.ext4:e2fsprogs jq:jq
  grep '^busybox ' <<<"$UNPACK" | unpack_missing
  [[ -e $CACHE/kernel/boot/vmlinuz ]] || kernel
}

# The metapackage of a release's cloud kernel only depends on the newest kernel package.
kernel() {
  local modules
  unpack kernel bookworm linux-image-cloud-amd64
  unpack kernel bookworm "$(sed 's/[ ,].*//' "$CACHE/kernel/depends")"
  modules=$(basename "$CACHE"/kernel/lib/modules/*)
  "$CACHE/busybox/bin/busybox" depmod -b "$CACHE/kernel" "$modules"
  mv "$CACHE/kernel/boot/vmlinuz-$modules" "$CACHE/kernel/boot/vmlinuz"
}

# `unpack DIR SUITE PACKAGE…`: fetches packages of a suite and unpacks them into a temporary directory, which is then
# renamed: an interrupted run leaves nothing that looks complete. The version is that of the first.
unpack() {
  local dir=$1 suite=$2 package=$3 work=$CACHE/unpack.$1 deb
  shift 2
  step "fetching $* ($suite)"
  rm -rf "$work" "${CACHE:?}/$dir"
  mkdir -p "$work/deb" "$work/root"
  index "$suite"
  # As root, apt would download as its own user, who may not enter this cache.
  (cd "$work/deb" && private_apt "$suite" -qq -o APT::Sandbox::User=root download "$@")
  for deb in "$work"/deb/*.deb; do
    dpkg-deb -x "$deb" "$work/root"
  done
  deb=$(find "$work/deb" -name "${package}_*.deb" -print -quit)
  dpkg-deb -f "$deb" Version >"$work/root/version"
  dpkg-deb -f "$deb" Depends >"$work/root/depends"
  mv "$work/root" "$CACHE/$dir"
  rm -rf "$work"
  [[ $dir != containerd-* || $(<"$CACHE/$dir/version") == "${dir#containerd-}".* ]] ||
    warn "$suite now has another containerd than ${dir#containerd-}; the tests will use that name for it"
  say "    $package $(<"$CACHE/$dir/version") in $CACHE/$dir"
}

# apt-get with an index of one suite, kept in the cache: the machine's own sources and state are not touched.
private_apt() {
  local at=$CACHE/apt/$1
  shift
  apt-get -o Dir::Etc::sourcelist="$at/sources.list" -o Dir::Etc::sourceparts=- \
    -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts="$at/none" \
    -o Dir::State::lists="$at/lists" -o Dir::State::status="$at/status" -o Dir::Cache="$at" \
    -o Acquire::Retries=3 -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false "$@"
}

# Downloads a suite's package index from the machine's own mirror, unless today's index is present: an older one may
# name packages that the mirror no longer has.
index() {
  local suite=$1 at=$CACHE/apt/$1 mirror key
  [[ -z $(find "$at/done" -mtime -1 2>/dev/null) ]] || return 0
  mirror=$(mirror)
  key=/usr/share/keyrings/debian-archive-keyring.gpg
  say "    reading the package index of $suite"
  mkdir -p "$at/lists/partial" "$at/archives/partial" "$at/none"
  : >"$at/status"
  echo "deb [signed-by=$key] $mirror $suite main" >"$at/sources.list"
  private_apt "$suite" -qq -o APT::Sandbox::User=root update
  touch "$at/done"
}

# A new machine may have no package index yet.
mirror() {
  local mirror
  need_apt
  mirror=$(debian_mirror)
  [[ -n $mirror ]] || { apt_update && mirror=$(debian_mirror); }
  [[ -n $mirror ]] || die "the machine's package sources name no Debian mirror"
  echo "$mirror"
}

debian_mirror() {
  # shellcheck disable=SC2016  # apt's own placeholders
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' 'Component: main' |
    sed -n 1p
}

nextest() {
  # Built without nextest's update check, which would need the network and half of its dependencies.
  cargo_tool cargo-nextest "$NEXTEST_VERSION" --no-default-features --features default-no-update
}

lint() {
  programs shellcheck:shellcheck
  cargo_tool cargo-deny "$DENY_VERSION"
}

# Built without optimisation: these programs start others and wait, and the build takes a third of the time.
cargo_tool() {
  local name=$1 version=$2
  shift 2
  ! type -P "$name" >/dev/null || return 0
  type -P cargo >/dev/null || die "cargo is not there: install Rust (rustup, or your distribution's packages)"
  compiler
  step "building $name $version (some minutes, once)"
  CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
    CARGO_PROFILE_RELEASE_DEBUG=false CARGO_PROFILE_RELEASE_STRIP=symbols \
    CARGO_TARGET_DIR=$CACHE/build cargo install --quiet --locked --root "$CACHE/tools" "$@" "$name@$version"
  rm -rf "$CACHE/build"
}

main "$@"
