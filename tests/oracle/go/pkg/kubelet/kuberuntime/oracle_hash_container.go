package kuberuntime

import (
	"strconv"

	v1 "k8s.io/api/core/v1"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/oracle"
)

func init() { oracle.Register("HashContainer", oracle.Of(oracleHash)) }

type oracleHashCase struct {
	Container v1.Container `json:"container"`
}

// The hash is answered as the annotation spells it.
func oracleHash(c oracleHashCase) any {
	return strconv.FormatUint(kubecontainer.HashContainer(&c.Container), 16)
}
