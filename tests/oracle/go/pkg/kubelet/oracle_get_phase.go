package kubelet

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/oracle"
)

func init() { oracle.Register("getPhase", oracle.Of(oraclePhase)) }

type oraclePhaseCase struct {
	Pod         *v1.Pod      `json:"pod"`
	Terminal    bool         `json:"terminal"`
	Initialised bool         `json:"initialised"`
	Gates       oracle.Gates `json:"gates"`
}

// The container statuses are those of the pod's status.
func oraclePhase(c oraclePhaseCase) any {
	c.Gates.Set()
	all := append(append([]v1.ContainerStatus{}, c.Pod.Status.ContainerStatuses...), c.Pod.Status.InitContainerStatuses...)
	return getPhase(klog.Background(), c.Pod, all, c.Terminal, c.Initialised)
}
