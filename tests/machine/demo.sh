#!/usr/bin/env bash
# `make cluster`: two machines with systemd, a cluster that kubeadm makes of them with rubelet as the node agent of both, a
# Deployment behind a Service, called from every pod by its name; then all of it is removed.
#   KEEP=1 leaves the cluster running; NODE=upstream runs upstream's kubelet instead
set -euo pipefail
# shellcheck source=tests/machine/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

MACHINES=2
CALLS=20

main() {
  trap clean EXIT
  trap 'exit 130' INT TERM HUP
  "$ENV_DIR/e2e-images.sh"
  "$MACHINE_DIR/cluster.sh" up "$MACHINES"
  images
  step "a Deployment of four pods behind a Service"
  kubectl apply -f - <"$MACHINE_DIR/web.yaml"
  kubectl rollout status deployment/web --timeout 90s
  kubectl get pods -l app=web -o wide
  step "each pod calls http://web.default.svc.cluster.local"
  calls
  step "slices of systemd on node-2"
  enter node-2 systemctl list-units --no-pager --no-legend --plain 'kubepods*.slice'
  say "${GREEN}ok${RESET}"
}

kubectl() { enter node-1 env KUBECONFIG=/etc/kubernetes/admin.conf kubectl "$@"; }

images() {
  local name
  while read -r name; do
    enter "$name" ctr -n k8s.io images import - <"$CACHE/e2e-images/agnhost.tar" >/dev/null
  done < <(machines)
}

# Each pod must reach pods of every machine.
calls() {
  local pod answers pods node
  pods=$(kubectl get pods -l app=web -o json | jq -c '[.items[] | {(.metadata.name): .spec.nodeName}] | add')
  for pod in $(jq -r 'keys[]' <<<"$pods"); do
    answers=$(kubectl exec "$pod" -- sh -c "for call in \$(seq $CALLS); do curl -sS -m 10 http://web.default.svc.cluster.local/hostname && echo; done")
    answers=$(jq -Rr --argjson pods "$pods" '$pods[.] // empty' <<<"$answers" | sort | uniq -c | awk '{ printf "%s%d from %s", sep, $1, $2; sep = ", " }')
    say "    $pod on $(jq -r --arg pod "$pod" '.[$pod]' <<<"$pods"): ${answers:-no answer}"
    while read -r node; do
      [[ $answers == *"from $node"* ]] || die "$pod got no answer of a pod on $node in $CALLS calls"
    done < <(machines)
  done
}

# shellcheck disable=SC2317  # called by the trap
clean() {
  local status=$?
  if [[ -n ${KEEP:-} ]]; then
    say "the cluster still runs: tests/machine/run.sh exec node-1 -- bash -l, and tests/machine/run.sh down"
  else
    "$MACHINE_DIR/run.sh" down || true
  fi
  exit "$status"
}

main
