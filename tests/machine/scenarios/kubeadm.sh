#!/usr/bin/env bash
# What kubeadm does to nodes that rubelet runs, unchanged: `upgrade node` to the same version, `certs renew all` and the restart of
# the control plane that follows, `reset` and another `join`; then rotation of the agent's client certificate, of a short life.
set -euo pipefail
# shellcheck source=tests/machine/scenarios/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
PODS=10
MANIFESTS=/etc/kubernetes/manifests
CLIENT=/var/lib/kubelet/pki/kubelet-client-current.pem
# How long the controller manager signs client certificates of agents for. It is renewed at 70 to 90 % of that.
LIFE=3m

main() {
  begin
  started calm "$PODS"
  sleep "$SETTLE"
  unaffected "kubeadm upgrade node" again upgrade "$NODE"
  unaffected "kubeadm certs renew all" renew
  short_certificates
  gone calm
  rejoin
  started calm "$PODS"
  unaffected "rotation of the agent's certificate" rotated
  settled
  gone calm
  long_certificates
}

kubeadm() {
  local name=$1
  shift
  enter "$name" kubeadm "$@" >>"$logs/kubeadm.log" 2>&1 || wrong "kubeadm $1 $2 fails: $(tail -n 3 "$logs/kubeadm.log")"
}

# kubeadm does not start the agent anew after an upgrade: its documents say to do so.
upgrade() {
  kubeadm "$1" upgrade node --ignore-preflight-errors all
  enter "$1" systemctl restart kubelet
}

# --- Certificates of the control plane ---

serial() { echo | in_net openssl s_client -connect "$(address node-1):6443" 2>/dev/null | openssl x509 -noout -serial; }

# kubeadm's documents: move the manifests away, wait until their pods have ended, move them back.
renew() {
  local before
  before=$(serial)
  kubeadm node-1 certs renew all
  enter node-1 sh -c "mkdir -p /etc/kubernetes/away && mv $MANIFESTS/*.yaml /etc/kubernetes/away/"
  timed "manifests moved away: the control plane has ended" 60 no_control_plane || wrong "pods of the control plane still run"
  enter node-1 sh -c "mv /etc/kubernetes/away/*.yaml $MANIFESTS/"
  timed "manifests back: the API server answers" "$READY_SECONDS" answers || wrong "the API server does not answer"
  [[ $(serial) != "$before" ]] || wrong "the API server has its old certificate"
  timed "the node is ready" 90 ready || wrong "the node is not ready"
  enter node-1 cat /etc/kubernetes/admin.conf >"$AT/admin.conf"
  # The watch ended with the API server: what changed meanwhile is in the list that a new one begins with.
  stop_watch
  watch_pods "${WATCHED[@]}"
  sleep "$SETTLE"
}

no_control_plane() { [[ -z $(enter node-1 pidof kube-apiserver etcd kube-scheduler kube-controller-manager) ]]; }
answers() { [[ $(k get --raw /readyz 2>/dev/null) == ok ]]; }

# --- A node that is set up again ---

rejoin() {
  local begun=$SECONDS command left
  kubeadm "$NODE" reset --force
  on test ! -e /etc/kubernetes/kubelet.conf || wrong "kubeadm reset left kubelet.conf"
  left=$(on ctr -n k8s.io tasks ls -q)
  [[ -z $left ]] || wrong "containers run after kubeadm reset: $left"
  # Or else kubeadm takes it for another node of the same name.
  k delete node "$NODE" >/dev/null
  command=$(enter node-1 env KUBECONFIG=/etc/kubernetes/admin.conf kubeadm token create --print-join-command)
  # shellcheck disable=SC2086  # a command line
  kubeadm "$NODE" ${command#kubeadm } --ignore-preflight-errors all
  timed "reset, then joined: the node is ready" 120 ready || wrong "the node is not ready after kubeadm join"
  measured "kubeadm reset, join, ready" "$((SECONDS - begun)) s"
  timed "every pod of the node ready" 120 all_ready || wrong "a pod is not ready after kubeadm join"
  settled "nothing of before is left"
}

# --- The agent's certificate ---

# Of the controller manager, which is a static pod: it is replaced.
short_certificates() {
  enter node-1 sed -i "/--use-service-account-credentials/i\\    - --cluster-signing-duration=$LIFE" "$MANIFESTS/kube-controller-manager.yaml"
  timed "a changed manifest replaces the controller manager" 120 signs_for "$LIFE" || wrong "the controller manager does not run with another flag"
}
long_certificates() {
  enter node-1 sed -i '/--cluster-signing-duration/d' "$MANIFESTS/kube-controller-manager.yaml"
  until_true 120 runs_again || wrong "the controller manager does not run without the flag"
}
signs_for() { enter node-1 ps -o args= -C kube-controller-manager | grep -q -- "signing-duration=$1" && pod_ready kube-system kube-controller-manager-node-1; }
runs_again() { ! signs_for "$LIFE" && pod_ready kube-system kube-controller-manager-node-1; }

client_serial() { on cat "$CLIENT" | openssl x509 -noout -serial; }
another() { [[ $(client_serial) != "$1" ]]; }

rotated() {
  local before since
  before=$(client_serial)
  timed "a client certificate of $LIFE is renewed" 300 another "$before" || wrong "the agent's certificate is not renewed"
  since=$(now)
  until_true 60 taken_over "$since" || wrong "the node does not work with its new certificate"
}

main
