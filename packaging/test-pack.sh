#!/usr/bin/env bash
# The packages as files: the same bytes each time, and contents that Debian's rules allow. `test-pack.sh DIR`, from test.sh
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tests/env/lib.sh"
work=$1
deb=$work/rubelet.deb

for file in "$work"/one/*; do
  cmp "$file" "$work/two/${file##*/}" || die "packing twice gives different bytes"
done

# `expect WHAT ACTUAL EXPECTED`
expect() { [[ $2 == "$3" ]] || die "$1: expected $3, and it is $2"; }

expect "owners" "$(dpkg-deb -c "$deb" | awk '{ print $2 }' | sort -u)" root/root
expect "modes" "$(dpkg-deb -c "$deb" | awk '$1 !~ /^(drwxr-xr-x|-rw-r--r--|lrwxrwxrwx)$/ { print $1, $6 }')" \
  "-rwxr-xr-x ./usr/bin/rubelet"
expect "the link" "$(dpkg-deb -c "$deb" | sed -n 's|.* \./usr/bin/kubelet -> ||p')" rubelet
expect "conffiles" "$(dpkg-deb -I "$deb" conffiles)" /etc/rubelet/config.yaml
# A package that ships one of these could not be installed beside others, or would leave it behind.
if dpkg-deb -c "$deb" | grep -E '10-kubeadm.conf| \./(var|run|usr/local|lib|bin)/'; then die "these belong to others"; fi

# Every file that is shipped is named, so that a new one is a decision.
dpkg-deb -c "$deb" | awk '$1 !~ /^d/ { sub(/^\./, "", $6); print $6 }' | sort >"$work/files"
diff - "$work/files" <<'FILES' || die "the package has other files than packaging/test-pack.sh names"
/etc/rubelet/config.yaml
/usr/bin/kubelet
/usr/bin/rubelet
/usr/lib/systemd/system/kubelet.service
/usr/share/bash-completion/completions/kubelet
/usr/share/bash-completion/completions/rubelet
/usr/share/doc/rubelet/NEWS.gz
/usr/share/doc/rubelet/changelog.gz
/usr/share/doc/rubelet/copyright
/usr/share/fish/vendor_completions.d/kubelet.fish
/usr/share/fish/vendor_completions.d/rubelet.fish
/usr/share/man/man8/kubelet.8.gz
/usr/share/man/man8/rubelet-check.8.gz
/usr/share/man/man8/rubelet-completion.8.gz
/usr/share/man/man8/rubelet-config-show.8.gz
/usr/share/man/man8/rubelet-config-validate.8.gz
/usr/share/man/man8/rubelet-events.8.gz
/usr/share/man/man8/rubelet-explain.8.gz
/usr/share/man/man8/rubelet-help.8.gz
/usr/share/man/man8/rubelet-logs.8.gz
/usr/share/man/man8/rubelet-man.8.gz
/usr/share/man/man8/rubelet-pods.8.gz
/usr/share/man/man8/rubelet-status.8.gz
/usr/share/man/man8/rubelet-top.8.gz
/usr/share/man/man8/rubelet-version.8.gz
/usr/share/man/man8/rubelet.8.gz
/usr/share/rubelet/10-rubelet.conflist
/usr/share/rubelet/standalone.env
/usr/share/zsh/vendor-completions/_rubelet
FILES

mkdir "$work/x"
dpkg-deb -x "$deb" "$work/x"
program=$work/x/usr/bin/rubelet
cmp "$RUBELET" "$program"
for here in "$REPO" "${CARGO_HOME:-$HOME/.cargo}"; do
  ! grep -qaF "$here/" "$program" || die "the program contains the path $here"
done
[[ $(readelf -S "$program") != *.symtab* ]] || die "the program is not stripped"
expect "licences" "$(grep -cE '^(ring|rustls|tokio) [0-9.]+: .*(Apache-2.0|ISC|MIT)' "$work/x/usr/share/doc/rubelet/copyright")" 3
grep -q 'Permission is hereby granted' "$work/x/usr/share/doc/rubelet/copyright" || die "no texts of licences"
gzip -dc "$work/x/usr/share/doc/rubelet/changelog.gz" | dpkg-parsechangelog -l - >/dev/null

tar -xzf "$work"/one/rubelet-*.tar.gz -C "$work"
expect "the archive's program" "$(sha256sum <"$(echo "$work"/rubelet-*-linux-*/bin/rubelet)")" "$(sha256sum <"$program")"
for file in LICENSE LICENSES-OF-DEPENDENCIES lib/systemd/system/kubelet.service etc/rubelet/config.yaml; do
  [[ -s $(echo "$work"/rubelet-*-linux-*/"$file") ]] || die "the archive lacks $file"
done
[[ -n $(tar -tvzf "$work"/one/rubelet-*.tar.gz --numeric-owner | awk '$2 == "0/0"') ]] || die "the archive has other owners than root"
