#!/usr/bin/env bash
# A node joins as after `kubeadm join`: with a bootstrap token, a client certificate by CSR, and a serving certificate
# by CSR that an administrator approves. Then it runs a pod, its logs can be read and a command run in it. After a
# restart the agent requests no new certificates.
#   join.sh DIR LOGS     AGENT=rubelet is the node's agent
set -euo pipefail
# shellcheck source=tests/e2e/scenario.sh
. "$(dirname "${BASH_SOURCE[0]}")/scenario.sh"
AGENT=${AGENT:-${NODE:-rubelet}}

main() {
  local requests
  export JOIN=token NODE_TLS=bootstrap
  begin "$AGENT"
  # shellcheck source=/dev/null
  . "$cluster/env"
  say "    the node is Ready"
  grep -q 'client-certificate: .*/kubelet-client-current.pem' "$cluster/kubelet.conf" ||
    wrong "$cluster/kubelet.conf does not name the certificate in the place where kubeadm looks for it"
  until_true 30 serving_request || wrong "no serving certificate was asked for"
  # shellcheck disable=SC2046  # a list of words
  k certificate approve $(serving_requests) >/dev/null
  deploy joined 1 1
  until_true 60 rolled_out joined 1 || wrong "the pod is not ready"
  until_true 30 logs_and_exec || wrong "logs and exec do not work once the serving certificate is approved"
  say "    a pod runs, logs and exec work over the approved certificate"

  requests=$(k get csr -o name | wc -l)
  quit TERM
  since=$(now)
  agent "$AGENT"
  until_true 60 taken_over "$PORT_HEALTHZ" "$since" || wrong "the agent has not taken the node over within 60 s"
  until_true 30 logs_and_exec || wrong "logs and exec do not work after a restart"
  (($(k get csr -o name | wc -l) == requests)) || wrong "a restart asked for certificates that are there"
  say "    a restart takes the certificates that are there"
}

serving_requests() {
  k get csr -o json | jq -r '.items[] | select(.spec.signerName == "kubernetes.io/kubelet-serving" and .status.conditions == null) | .metadata.name'
}
serving_request() { [[ -n $(serving_requests) ]]; }
logs_and_exec() {
  k logs deployment/joined 2>/dev/null | grep -q 'HTTP server' && [[ $(k exec deployment/joined -- cat /config/greeting 2>/dev/null) == hello ]]
}

main
