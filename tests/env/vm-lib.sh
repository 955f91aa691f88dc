# shellcheck shell=bash
# A virtual machine in software emulation: what it is made of, its disk and its run. Sourced by scripts of this directory and
# of tests/machine; `work` is their temporary directory, and `clean_vm` their trap at the end.

# Debian's cloud kernel, of install.sh.
KERNEL=$CACHE/kernel
# The disk is a sparse file: unused space costs nothing.
DISK=2G
work='' machine=''

# `put PATH PATH-INSIDE`: copies a file or directory to the disk, programs with their libraries.
put() {
  local lib
  mkdir -p "$work/root/$(dirname "$2")"
  cp -a "$(realpath "$1")" "$work/root/$2"
  while read -r lib; do
    [[ ! -e $work/root/$lib ]] || continue
    mkdir -p "$work/root/$(dirname "$lib")"
    cp -L "$lib" "$work/root/$lib"
  done < <(find "$work/root/$2" -type f -perm -u+x -exec ldd {} + 2>/dev/null | grep -o '/[^ ]*\.so[^ ]*' | sort -u)
}

# `put_modules MODULE…`: with those that they depend on.
put_modules() {
  local dir inside module
  dir=$(echo "$KERNEL"/lib/modules/*)
  inside=$work/root${dir#"$KERNEL"}
  mkdir -p "$inside"
  for module in "$@"; do
    # A line of the index: a module, a colon, and its dependencies.
    grep "/$module\.ko:" "$dir/modules.dep" | tr -d : | xargs -n 1
  done | sort -u | (cd "$dir" && xargs cp --parents -t "$inside" modules.dep modules.order modules.builtin modules.builtin.modinfo)
}

# The disk, of the directory $work/root, which is removed. It has no journal: it is not used after a crash.
make_disk() {
  truncate -s "$DISK" "$work/disk"
  mkfs.ext4 -q -O ^has_journal -d "$work/root" "$work/disk"
  rm -rf --one-file-system "$work/root"
}

# `boot_vm SECONDS MEGABYTES KERNEL-ARGUMENTS [FLAG…]`: runs the machine, and exits with the number that it wrote to its
# second serial line. The first one is the output.
boot_vm() {
  local seconds=$1 megabytes=$2 arguments=$3 status=0
  shift 3
  # Emulated even if the hardware supports virtualisation: nested virtualisation is not available everywhere, and
  # emulation behaves the same everywhere. The timer check of old chips fails on a busy host.
  timeout --foreground --kill-after=5 "$seconds" qemu-system-x86_64 -accel tcg,thread=multi -smp 2 -m "$megabytes" \
    -nodefaults -no-user-config -display none -nic none "$@" \
    -drive "file=$work/disk,format=raw,if=none,id=disk,cache=unsafe" -device nvme,serial=1,drive=disk \
    -serial stdio -serial "file:$work/exit" -kernel "$KERNEL/boot/vmlinuz" \
    -append "console=ttyS0 loglevel=2 panic=-1 no_timer_check mitigations=off root=/dev/nvme0n1 rw rootwait $arguments" \
    </dev/null &
  machine=$!
  # In the background, so that a signal is handled at once.
  wait "$machine" || status=$?
  machine=''
  if ((status == 124 || status == 137)); then
    warn "the virtual machine was stopped after $seconds s"
    exit 124
  fi
  if ((status)) || [[ ! -s $work/exit ]]; then
    warn "the virtual machine ended before its command did"
    exit 125
  fi
  exit "$(tr -dc 0-9 <"$work/exit")"
}

# The same selection of packages as in the fast tier, so that nothing is built twice.
built() { cargo nextest list --cargo-quiet --locked --workspace --list-type binaries-only --message-format json; }

# `built_tests CRATE`: the program with the tests of a library.
built_tests() { built | jq -r --arg crate "$1" '."rust-binaries"[$crate]."binary-path"'; }

built_rubelet() {
  built | jq -r '."rust-build-meta" | ."target-directory" as $at |
    ."non-test-binaries"[][] | select(.name == "rubelet") | "\($at)/\(.path)"'
}

clean_vm() {
  if [[ -n $machine ]]; then
    kill "$machine" 2>/dev/null || true
    wait "$machine" 2>/dev/null || true
  fi
  rm -rf --one-file-system "$work"
}
