#!/bin/sh
# Inside the virtual machine: one static pod on containerd and cgroup v2, from its manifest to its complete removal.
#   vm-pod.sh CONTAINERD-BIN RUBELET DIR     DIR has containerd's config.toml and images/
# shellcheck shell=dash
set -eu
bin=$1 rubelet=$2 dir=$3
PATH=$PATH:$bin
# Emulation is slow, and the host may be busy: conditions are polled cheaply and rarely.
PATIENCE=60
root=/var/lib/kubelet
top=/sys/fs/cgroup/kubepods

fail() {
  echo "FAILED: $*"
  "$rubelet" pods --root-dir "$root" || true
  for log in "$dir"/*.log; do
    echo "--- end of $log"
    tail -n 25 "$log"
  done
  exit 1
}

# `wait_for WHAT COMMAND…`
wait_for() {
  what=$1 end=$(($(date +%s) + PATIENCE))
  shift
  until "$@"; do
    [ "$(date +%s)" -lt $end ] || fail "$what: not within $PATIENCE s"
    sleep 0.5
  done
  echo "ok: $what"
}

# `check FILE VALUE`
check() {
  [ "$(cat "$1")" = "$2" ] || fail "$1 is $(cat "$1"), not $2"
  echo "ok: $1 is $2"
}

ctr() { "$bin/ctr" -a "$dir/containerd.sock" -n k8s.io "$@" 2>>"$dir/ctr.log"; }
containerd_answers() { [ -S "$dir/containerd.sock" ] && ctr version >/dev/null; }
containers() { ctr containers list -q; }
# The sandbox and the container each have a cgroup.
both_run() { [ "$(cat $top/burstable/pod*/*/cgroup.procs 2>/dev/null | wc -l)" -ge 2 ]; }
pod_is_running() { "$rubelet" pods --root-dir "$root" 2>/dev/null | grep -q 'vm-pod-vm .*Running'; }
pod_mounts() { grep -E "$root/pods/|$dir/state/" /proc/self/mountinfo; }
no_pod_cgroup() { [ -z "$(find $top -name 'pod*')" ]; }
no_pod_dir() { [ -z "$(ls $root/pods)" ]; }
no_container() { [ -z "$(containers)" ]; }

mkdir -p $root /etc/manifests
"$bin/containerd" --config "$dir/config.toml" >"$dir/containerd.log" 2>&1 &
wait_for "containerd answers" containerd_answers
for image in "$dir"/images/*.tar; do ctr images import "$image" >/dev/null || fail "import $image"; done

# The configuration does not mention cgroup v1: the default refuses it, and must find none here.
cat >"$dir/config.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: /etc/manifests
fileCheckFrequency: 1s
containerRuntimeEndpoint: unix://$dir/containerd.sock
cgroupDriver: cgroupfs
podPidsLimit: 64
enableServer: false
healthzPort: 0
END
cat >/etc/manifests/pod.yaml <<'END'
apiVersion: v1
kind: Pod
metadata: {name: vm-pod, namespace: default}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: app
      image: rubelet.test/busybox:1
      imagePullPolicy: Never
      command: [sh, -c, "trap 'exit 0' TERM; while :; do sleep 1; done"]
      resources:
        requests: {cpu: 100m, memory: 16Mi}
        limits: {cpu: 1500m, memory: 32Mi}
      volumeMounts: [{name: memory, mountPath: /memory}]
  volumes: [{name: memory, emptyDir: {medium: Memory}}]
END
"$rubelet" --config "$dir/config.yaml" --root-dir "$root" >"$dir/rubelet.log" 2>&1 &
pid=$!
wait_for "the container has a process" both_run
wait_for "the pod is Running" pod_is_running

# CG-05, CG-11, CG-12: 100m are 102 shares, which are weight 4.
pod=$(echo $top/burstable/pod*)
check "$pod/cpu.weight" 4
check "$pod/cpu.max" "150000 100000"
check "$pod/memory.max" 33554432
check "$pod/pids.max" 64
check $top/besteffort/cpu.weight 1

# The container's own cgroup; the sandbox's has no limits.
app=$(dirname "$(grep -Lx max "$pod"/*/memory.max)")
check "$app/cpu.max" "150000 100000"
check "$app/memory.max" 33554432
check "$app/memory.oom.group" 1
main=$(head -n 1 "$app/cgroup.procs")
check "/proc/$main/cgroup" "0::${app#/sys/fs/cgroup}"

# RT-93: one process that exceeds the memory limit gets the whole container killed.
main_has_ended() { [ ! -e "/proc/$main" ]; }
# shellcheck disable=SC2016  # for the shell that joins
sh -c 'echo $$ >"$1/cgroup.procs"; exec tail /dev/zero' sh "$app" >/dev/null 2>&1 && fail "memory has no end"
wait_for "running out of memory ended the container" main_has_ended

rm /etc/manifests/pod.yaml
wait_for "no pod cgroup is left" no_pod_cgroup
wait_for "no pod directory is left" no_pod_dir
wait_for "no container is left" no_container
! pod_mounts || fail "mounts are left"
kill $pid
wait $pid || fail "rubelet ended with $?"
echo "ok: rubelet exits on SIGTERM"
