#!/usr/bin/env bash
# The images of upstream's e2e suite, under upstream's names, made of Debian's busybox and curl and of upstream's
# agnhost, as OCI archives in the cache. No registry is used. The suite's list: test/utils/image/manifest.go.
#
#   agnhost      the suite's own tool; busybox, bash, curl, a key pair of localhost, a user and a group that specs look for,
#                and a registry's files, which its fake-registry-server serves
#   busybox (with a small nmeter, as all that are made of it), ipc-utils, nonroot (user 1234), nonewprivs (a program that is
#   setuid root), nginx (busybox's web server), glibc-dns-testing (the host's `hostname`, no name server), pause
#
# `e2e-images.sh full`: agnhost and glibc-dns-testing have Debian's dig, nc, ss and getent too, and bash as /bin/sh, in another
# directory. Only specs of sig-network call them, and they double the size.
# Rebuilt only when these scripts or their inputs change.
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

umask 022
FROM=registry.k8s.io/e2e-test-images
out=$CACHE/e2e-images${1:+-$1}
more=()
case ${1:-} in
  '') ;;
  full)
    "$ENV_DIR/install.sh" dns
    more=("$(type -P dig)" "$(type -P nc.openbsd)" "$(type -P ss)" "$(type -P getent)" "$(type -P nslookup)")
    ;;
  *) die "usage: e2e-images.sh [full]" ;;
esac
agnhost=$("$ENV_DIR/k8s-build.sh" agnhost)/agnhost
curl=$(type -P curl) hostname=$(type -P hostname) bash=$CACHE/bash/bin/bash-static
"$ENV_DIR/images.sh"
recipe=$(cat "$ENV_DIR"/{e2e-images.sh,nmeter.c} "$CACHE/images/recipe" "$agnhost" "$curl" "$hostname" "$bash" "${more[@]}" | sha256sum)
exec 9>"$CACHE/images.lock"
flock 9
if [[ -e $out/recipe && $(<"$out/recipe") == "$recipe" ]]; then
  exit 0
fi

step "building the images of upstream's e2e suite"
# Beside the old ones, which somebody may be reading.
ready=$out
out=$ready.part
rm -rf "$out"
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cc -static -Os -s -Wall -Wextra -Werror -o "$work/nmeter" "$ENV_DIR/nmeter.c"

# `base DIR`: busybox with all its applets, and nmeter.
base() {
  local applet
  mkdir -p "$1"/{bin,etc,home,root,tmp,run,usr/bin,usr/local/bin,var/log,www}
  ln -s ../run "$1/var/run"
  cp "$CACHE/busybox/bin/busybox" "$1/bin/busybox"
  cp "$work/nmeter" "$1/bin/nmeter"
  while read -r applet; do
    [[ $applet == busybox ]] || ln -s busybox "$1/bin/$applet"
  done < <("$CACHE/busybox/bin/busybox" --list)
  cat >"$1/etc/passwd" <<'END'
root:x:0:0:root:/root:/bin/sh
user-defined-in-image:x:1000:1000::/home:/bin/sh
nobody:x:65534:65534:nobody:/:/bin/false
END
  cat >"$1/etc/group" <<'END'
root:x:0:
user-defined-in-image:x:1000:
group-defined-in-image:x:50000:user-defined-in-image
nogroup:x:65534:
END
  echo 'passwd: files' >"$1/etc/nsswitch.conf"
  echo 'hello from a pod' >"$1/www/index.html"
  # A layer's modes must not follow the caller's umask.
  chmod -R u=rwX,go=rX "$1"
  chmod 1777 "$1/tmp"
}

# `put PROGRAM DIR`: copies a program with its shared libraries.
put() {
  local lib
  cp -L "$1" "$2/usr/bin/"
  while read -r lib; do
    mkdir -p "$2/$(dirname "$lib")"
    cp -L "$lib" "$2/$lib"
  done < <(ldd "$1" | grep -o '/[^ ]*\.so[^ ]*' | sort -u)
}

# `put_more DIR`: in the place of busybox's own. The shell must not be busybox's, which prefers its own programs.
put_more() {
  local program
  ((${#more[@]})) || return 0
  for program in "${more[@]}"; do
    put "$program" "$1"
  done
  mv "$1/usr/bin/nc.openbsd" "$1/usr/bin/nc"
  rm -f "$1"/bin/{nc,nslookup,sh}
  cp "$bash" "$1/bin/bash"
  ln -s bash "$1/bin/sh"
  # libc asks a name server only if this file says so.
  echo 'hosts: files dns' >>"$1/etc/nsswitch.conf"
}

# `registry DIR`: one image, pause:testing, in the layout of agnhost's fake-registry-server.
registry() {
  local at=$1/pause tag file kind
  mkdir -p "$work/pause-image" "$at/manifests"
  tar -C "$work/pause-image" -xf "$CACHE/images/pause.tar"
  # Names inside an archive are not part of an image in a registry.
  jq -c 'del(.manifests[].annotations)' "$work/pause-image/index.json" >"$work/index"
  tag=$(sha256sum "$work/index" | cut -d' ' -f1)
  cp "$work/index" "$work/pause-image/blobs/sha256/$tag"
  echo "sha256:$tag" >"$at/manifests/testing"
  for file in "$work"/pause-image/blobs/sha256/*; do
    for kind in manifests blobs; do
      tag=$(basename "$file")
      mkdir -p "$at/$kind/sha256/${tag:0:2}/$tag"
      cp "$file" "$at/$kind/sha256/${tag:0:2}/$tag/data"
    done
  done
}

# `image FILE DIR CONFIG NAME…`: an image of its own for each name. Of two names of one image a runtime reports either, and
# specs compare what it reports with what they have asked for. The first is in FILE.tar.
image() {
  local file=$1 root=$2 config=$3 name full
  shift 3
  for name in "$@"; do
    full=$FROM/$name
    [[ $name != pause:* ]] || full=registry.k8s.io/$name
    "$ENV_DIR/oci.sh" "$full" "$work/$root" "$out/$file.tar" "$(jq -c --arg name "$name" '.Labels = {name: $name}' <<<"$config")"
    say "    $name"
    file+=-more
  done
}

base "$work/busybox"
# Debian's busybox drops environment variables whose names it cannot represent, such as one with a dash: specs that need
# them use `sh`. Specs that look for busybox's own messages use `/bin/sh`.
cp "$bash" "$work/busybox/bin/bash"
ln -s /bin/bash "$work/busybox/usr/local/bin/sh"
base "$work/agnhost"
cp "$bash" "$work/agnhost/bin/bash"
put "$curl" "$work/agnhost"
put_more "$work/agnhost"
cp "$agnhost" "$work/agnhost/agnhost"
ln -s agnhost "$work/agnhost/agnhost-2"
mkdir "$work/agnhost/uploads"
openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
  -keyout "$work/agnhost/localhost.key" -out "$work/agnhost/localhost.crt" 2>/dev/null
chmod 644 "$work/agnhost/localhost.key"
registry "$work/agnhost/var/registry"

base "$work/glibc"
rm "$work/glibc/bin/hostname"
put "$hostname" "$work/glibc"
put_more "$work/glibc"

base "$work/nonewprivs"
cat >"$work/nnp.c" <<'END'
#include <stdio.h>
#include <unistd.h>
int main(void) { return printf("Effective uid: %d\n", (int)geteuid()) < 0; }
END
cc -static -Os -s -Wall -Wextra -Werror -o "$work/nonewprivs/usr/local/bin/nnp" "$work/nnp.c"
chmod 6755 "$work/nonewprivs/usr/local/bin/nnp"

mkdir "$work/pause"
cc -static -Os -s -Wall -Wextra -Werror -o "$work/pause/pause" "$ENV_DIR/pause.c"

path='"Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]'
image agnhost agnhost "{$path,\"Entrypoint\":[\"/agnhost\"],\"Cmd\":[\"pause\"]}" agnhost:2.63.0 agnhost:2.55
image busybox busybox "{$path,\"Cmd\":[\"sh\"]}" busybox:1.37.0-1 ipc-utils:1.4
image nonroot busybox "{$path,\"Cmd\":[\"sh\"],\"User\":\"1234\"}" nonroot:1.5
image nonewprivs nonewprivs "{$path,\"Cmd\":[\"nnp\"]}" nonewprivs:1.4
image nginx busybox "{$path,\"Cmd\":[\"httpd\",\"-f\",\"-p\",\"80\",\"-h\",\"/www\"]}" nginx:1.15-4 nginx:1.27-0
image glibc glibc "{$path,\"Cmd\":[\"sh\"]}" glibc-dns-testing:2.0.0
image pause pause '{"Entrypoint":["/pause"]}' pause:3.10.2
echo "$recipe" >"$out/recipe"
rm -rf "$ready"
mv "$out" "$ready"
