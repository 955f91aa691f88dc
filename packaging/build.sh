#!/usr/bin/env bash
# Builds the packages from the program that is shipped: target/package/rubelet_VERSION_ARCH.deb, and
# rubelet-VERSION-linux-ARCH.tar.gz for machines without dpkg. The same commit gives the same bytes.
#   RUBELET=PROGRAM            packs this program, else one that cargo builds (tests/env/rubelet.sh)
#   PACKAGE_VERSION=VERSION    another version than the program's own
#   OUT=DIRECTORY              another place than target/package
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tests/env/lib.sh"
HERE=$REPO/packaging
umask 022
export LC_ALL=C TZ=UTC

main() {
  local program out=${OUT:-$REPO/target/package} versions kubernetes version arch
  "$ENV_DIR/install.sh" package
  program=$(NODE_PROFILE=release "$ENV_DIR/rubelet.sh")
  # dpkg-deb and tar take the time of the files from it.
  SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$REPO" log -1 --format=%ct)}
  export SOURCE_DATE_EPOCH
  versions=$("$program" --version)
  versions=${versions#Kubernetes v}
  kubernetes=${versions%%+*}
  version=${PACKAGE_VERSION:-${versions#*+rubelet.}}
  arch=$(dpkg --print-architecture)

  work=$(mktemp -d "${TMPDIR:-/tmp}/rubelet-package.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  mkdir -p "$out"
  generated "$program"
  debian
  archive
  say "$out/rubelet_${version}_$arch.deb"
  say "$out/rubelet-$version-linux-$arch.tar.gz"
}

# What both packages have and no file of the repository is.
generated() {
  local program=$1 shell
  mkdir -p "$work/made"
  install -m 0755 "$program" "$work/made/rubelet"
  "$HERE/licences.sh" >"$work/made/third-party"
  mkdir "$work/made/man"
  "$program" man --dir "$work/made/man" >/dev/null
  for shell in bash zsh fish; do
    "$program" completion "$shell" >"$work/made/$shell"
  done
}

# `put MODE SOURCE TARGET`: the owner is set when the files are packed.
put() { install -D -m "$1" "$2" "$root/$3"; }

# Where files are in the Debian package.
debian() {
  local root=$work/deb name
  local doc=usr/share/doc/rubelet
  put 0755 "$work/made/rubelet" usr/bin/rubelet
  ln -s rubelet "$root/usr/bin/kubelet"
  put 0644 "$HERE/kubelet.service" usr/lib/systemd/system/kubelet.service
  put 0644 "$HERE/config.yaml" etc/rubelet/config.yaml
  put 0644 "$HERE/standalone.env" usr/share/rubelet/standalone.env
  put 0644 "$HERE/10-rubelet.conflist" usr/share/rubelet/10-rubelet.conflist
  install -d -m 0755 "$root/etc/kubernetes/manifests"
  pages
  install -d -m 0755 "$root/$doc"
  copyright >"$root/$doc/copyright"
  changelog | gzip -9n >"$root/$doc/changelog.gz"
  gzip -9nc "$REPO/CHANGELOG.md" >"$root/$doc/NEWS.gz"
  install -d -m 0755 "$root/DEBIAN"
  for name in postinst prerm postrm; do
    put 0755 "$HERE/debian/$name" "DEBIAN/$name"
  done
  (cd "$root" && find etc -type f -printf '/%p\n' | sort) >"$root/DEBIAN/conffiles"
  control >"$root/DEBIAN/control"
  (cd "$root" && find usr etc -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
  same_times "$root"
  # One thread: the bytes do not depend on the number of cores.
  dpkg-deb --root-owner-group --threads-max=1 -Zxz --build "$root" "$out/rubelet_${version}_$arch.deb" >/dev/null
}

# Manual pages and completions, also for the program's other name.
pages() {
  local page man=usr/share/man/man8
  for page in "$work"/made/man/*; do
    gzip -9nc "$page" >"$work/made/page.gz"
    put 0644 "$work/made/page.gz" "$man/${page##*/}.gz"
  done
  ln -s rubelet.8.gz "$root/$man/kubelet.8.gz"
  put 0644 "$work/made/bash" usr/share/bash-completion/completions/rubelet
  ln -s rubelet "$root/usr/share/bash-completion/completions/kubelet"
  put 0644 "$work/made/zsh" usr/share/zsh/vendor-completions/_rubelet
  put 0644 "$work/made/fish" usr/share/fish/vendor_completions.d/rubelet.fish
  ln -s rubelet.fish "$root/usr/share/fish/vendor_completions.d/kubelet.fish"
}

copyright() {
  cat "$HERE/debian/copyright"
  printf '\n'
  cat "$work/made/third-party"
}

# Debian wants a changelog of the package in a form of its own.
changelog() {
  printf 'rubelet (%s) unstable; urgency=medium\n\n  * See NEWS.gz.\n\n -- %s  %s\n' "$version" \
    "$(sed -n 's/^Maintainer: //p' "$HERE/debian/control.in")" "$(date -R -d "@$SOURCE_DATE_EPOCH")"
}

control() {
  local size
  # Not `du`: what a file takes depends on the file system.
  size=$(find "$root" -path "$root/DEBIAN" -prune -o -type f -printf '%s\n' | awk '{ kib += int(($1 + 1023) / 1024) } END { print kib }')
  sed -e "s/@VERSION@/$version/" -e "s/@ARCH@/$arch/" -e "s/@SIZE@/$size/" -e "s/@DEPENDS@/$(depends)/" \
    -e "s/@KUBELET_VERSION@/$kubernetes+rubelet.$version/" -e "s/@KUBERNETES@/v$kubernetes/" "$HERE/debian/control.in"
}

# The libraries that the program names, and the oldest libc whose symbols it needs. A library without a package here is a
# mistake.
depends() {
  local library needs=()
  while read -r library; do
    case $library in
      libc.so.6) needs+=("libc6 (>= $(objdump -p "$work/made/rubelet" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1 | cut -d _ -f 2))") ;;
      libgcc_s.so.1) needs+=(libgcc-s1) ;;
      # The loader is of libc6.
      ld-linux*) ;;
      *) die "the program needs $library: name its package in packaging/build.sh" ;;
    esac
  done < <(objdump -p "$work/made/rubelet" | awk '$1 == "NEEDED" { print $2 }' | sort)
  printf '%s, ' "${needs[@]}" | sed 's/, $//'
}

same_times() { find "$1" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +; }

# The tree of the other package is one directory whose files are laid out to be copied below /usr and /etc.
archive() {
  local name=rubelet-$version-linux-$arch
  local root=$work/$name page
  put 0755 "$work/made/rubelet" bin/rubelet
  ln -s rubelet "$root/bin/kubelet"
  put 0644 "$HERE/kubelet.service" lib/systemd/system/kubelet.service
  put 0644 "$HERE/config.yaml" etc/rubelet/config.yaml
  put 0644 "$HERE/standalone.env" share/rubelet/standalone.env
  put 0644 "$HERE/10-rubelet.conflist" share/rubelet/10-rubelet.conflist
  for page in "$work"/made/man/*; do
    put 0644 "$page" "share/man/man8/${page##*/}"
  done
  put 0644 "$work/made/bash" share/bash-completion/completions/rubelet
  put 0644 "$work/made/zsh" share/zsh/site-functions/_rubelet
  put 0644 "$work/made/fish" share/fish/vendor_completions.d/rubelet.fish
  put 0644 "$REPO/LICENSE" LICENSE
  put 0644 "$work/made/third-party" LICENSES-OF-DEPENDENCIES
  for page in README.md CHANGELOG.md; do
    put 0644 "$REPO/$page" "$page"
  done
  find "$root" -type d -exec chmod 0755 {} +
  tar -C "$work" --format=gnu --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - "$name" |
    gzip -9n >"$out/$name.tar.gz"
}

main "$@"
