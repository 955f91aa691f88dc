#!/bin/busybox sh
# PID 1 of the machine that vm.sh starts: mounts the file systems of a modern host, runs /command, writes its exit code
# to the second serial line, powers off. Runs in busybox; errors appear on the console.
# shellcheck shell=dash
export PATH=/bin:/usr/sbin:/usr/bin:/sbin HOME=/root TERM=dumb RUBELET_NODE_TESTS=1

/bin/busybox mount -t proc proc /proc
/bin/busybox --install -s /bin
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
exec </dev/null >/dev/ttyS0 2>&1
stty -onlcr </dev/ttyS0
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs -o mode=755 run /run
mount -t cgroup2 -o nsdelegate cgroup2 /sys/fs/cgroup
ip link set lo up
hostname vm
while read -r module; do modprobe "$module"; done </modules

/command
echo $? >/dev/ttyS1
poweroff -f
