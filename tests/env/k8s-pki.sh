# shellcheck shell=bash
# The keys and certificates of a control plane, and the kubeconfigs that contain them. Sourced by k8s.sh.
#
# One authority signs everything, as kubeadm's does; another one serves the aggregation layer. Keys are elliptic: making
# all of them takes a quarter of a second.

# Set by k8s.sh.
dir='' node='' url='' service_ip=''
# Longer than any run.
DAYS=3
TOKEN_ID=rubele TOKEN_SECRET=0123456789abcdef

make_pki() {
  local pki=$dir/pki
  mkdir -p "$pki"
  authority ca rubelet-test
  authority front-proxy-ca rubelet-test-front-proxy
  key sa
  openssl pkey -in "$pki/sa.key" -pubout -out "$pki/sa.pub"
  server apiserver kube-apiserver "IP:127.0.0.1,IP:$service_ip,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
  # The serving certificate of the node's API, which the API server calls by the node's name. The subject is the one
  # that a kubelet requests.
  server kubelet "system:node:$node/O=system:nodes" "IP:127.0.0.1,DNS:$node"
  client apiserver-kubelet-client kube-apiserver-kubelet-client system:masters
  client front-proxy-client front-proxy-client '' front-proxy-ca
  client admin kubernetes-admin system:masters
  client controller-manager system:kube-controller-manager
  client scheduler system:kube-scheduler
  client node "system:node:$node" system:nodes
  local who
  for who in admin controller-manager scheduler node; do
    kubeconfig "$who" >"$dir/$who.conf"
  done
  kubeconfig bootstrap >"$dir/bootstrap-kubelet.conf"
}

key() { openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$dir/pki/$1.key" 2>/dev/null ||
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$dir/pki/$1.key"; }

# `authority FILE NAME`
authority() {
  key "$1"
  openssl req -x509 -new -key "$dir/pki/$1.key" -days "$DAYS" -subj "/CN=$2" -out "$dir/pki/$1.crt" \
    -addext keyUsage=critical,digitalSignature,keyEncipherment,keyCertSign
}

# `server FILE COMMON-NAME ALTERNATIVE-NAMES`
server() { certificate "$1" "/CN=$2" ca "subjectAltName=$3" extendedKeyUsage=serverAuth; }

# `client FILE COMMON-NAME [ORGANISATION [AUTHORITY]]`
client() { certificate "$1" "${3:+/O=$3}/CN=$2" "${4:-ca}" extendedKeyUsage=clientAuth; }

# `certificate FILE SUBJECT AUTHORITY EXTENSION…`
certificate() {
  local file=$dir/pki/$1 subject=$2 ca=$dir/pki/$3
  key "$1"
  shift 3
  openssl req -new -key "$file.key" -subj "$subject" |
    openssl x509 -req -CA "$ca.crt" -CAkey "$ca.key" -days "$DAYS" -out "$file.crt" \
      -extfile <(printf '%s\n' keyUsage=critical,digitalSignature "$@") 2>/dev/null
}

# `kubeconfig NAME`: as kubeadm writes it, with embedded data. `bootstrap` has a token instead of a certificate.
kubeconfig() {
  local user
  if [[ $1 == bootstrap ]]; then
    user="token: $TOKEN_ID.$TOKEN_SECRET"
  else
    user="client-certificate-data: $(base64 -w0 "$dir/pki/$1.crt")
    client-key-data: $(base64 -w0 "$dir/pki/$1.key")"
  fi
  cat <<END
apiVersion: v1
kind: Config
clusters:
- name: kubernetes
  cluster:
    server: $url
    certificate-authority-data: $(base64 -w0 "$dir/pki/ca.crt")
users:
- name: $1
  user:
    $user
contexts:
- name: $1@kubernetes
  context:
    cluster: kubernetes
    user: $1
current-context: $1@kubernetes
END
}

# The objects that kubeadm creates so that a node can join with a token: the token, and its role bindings.
joining() {
  cat <<END
apiVersion: v1
kind: Secret
metadata: {name: bootstrap-token-$TOKEN_ID, namespace: kube-system}
type: bootstrap.kubernetes.io/token
stringData:
  token-id: $TOKEN_ID
  token-secret: $TOKEN_SECRET
  usage-bootstrap-authentication: "true"
  auth-extra-groups: system:bootstrappers:kubeadm:default-node-token
$(binding kubeadm:kubelet-bootstrap system:node-bootstrapper system:bootstrappers:kubeadm:default-node-token)
$(binding kubeadm:node-autoapprove-bootstrap system:certificates.k8s.io:certificatesigningrequests:nodeclient system:bootstrappers:kubeadm:default-node-token)
$(binding kubeadm:node-autoapprove-certificate-rotation system:certificates.k8s.io:certificatesigningrequests:selfnodeclient system:nodes)
END
}

# `binding NAME CLUSTER-ROLE GROUP`
binding() {
  cat <<END
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "$1"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "$2"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "$3"}]
END
}
