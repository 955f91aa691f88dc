#!/usr/bin/env bash
# Builds the images of the tests and the demo as OCI archives in the cache. No registry is used.
#
#   rubelet.test/pause:1      the sandbox's container (pause.c)
#   rubelet.test/busybox:1    busybox with all its applets, users in /etc/passwd, a page in /www
#   rubelet.test/nonroot:1    the same, as user 1000
#   rubelet.test/nameduser:1  the same, as user "www": a name that runAsNonRoot cannot verify
#
# Rebuilt only when these scripts change.
set -euo pipefail
# shellcheck source=tests/env/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

umask 022
out=$CACHE/images
busybox=$CACHE/busybox/bin/busybox
recipe=$(cat "$ENV_DIR/images.sh" "$ENV_DIR/oci.sh" "$ENV_DIR/pause.c" "$busybox" | sha256sum)
mkdir -p "$CACHE"
exec 9>"$CACHE/images.lock"
flock 9
if [[ -e $out/recipe && $(<"$out/recipe") == "$recipe" ]]; then
  exit 0
fi

step "building the images of the tests"
rm -rf "$out"
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work/pause"
cc -static -Os -s -Wall -Wextra -Werror -o "$work/pause/pause" "$ENV_DIR/pause.c"

root=$work/busybox
mkdir -p "$root"/{bin,etc,home/www,root,tmp,var/run,www}
chmod 1777 "$root/tmp"
cp "$busybox" "$root/bin/busybox"
"$busybox" --list | while read -r applet; do
  [[ $applet == busybox ]] || ln -s busybox "$root/bin/$applet"
done
cat >"$root/etc/passwd" <<'END'
root:x:0:0:root:/root:/bin/sh
www:x:1000:1000:www:/home/www:/bin/sh
nobody:x:65534:65534:nobody:/tmp:/bin/false
END
cat >"$root/etc/group" <<'END'
root:x:0:
www:x:1000:
staff:x:2000:www
nogroup:x:65534:
END
echo 'hello from a pod' >"$root/www/index.html"
# A layer's modes are part of its digest and must not follow the caller's umask.
chmod -R u=rwX,go=rX "$root" "$work/pause"
chmod 1777 "$root/tmp"

path='"Env":["PATH=/bin"]'
image() { "$ENV_DIR/oci.sh" "rubelet.test/$1:1" "$work/$2" "$out/$1.tar" "$3" && say "    rubelet.test/$1:1"; }
image pause pause '{"Entrypoint":["/pause"]}'
image busybox busybox "{$path,\"Cmd\":[\"sh\"]}"
image nonroot busybox "{$path,\"Cmd\":[\"sh\"],\"User\":\"1000\"}"
image nameduser busybox "{$path,\"Cmd\":[\"sh\"],\"User\":\"www\"}"
echo "$recipe" >"$out/recipe"
