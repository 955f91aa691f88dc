package status

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/oracle"
)

func init() {
	oracle.Register("mergePodStatus", oracle.Of(oracleMerge))
	oracle.Register("normalizeStatus", oracle.Of(oracleNormalise))
}

type oracleMergeCase struct {
	// The pod as the API has it, with its status there.
	Pod  *v1.Pod      `json:"pod"`
	Ours v1.PodStatus `json:"ours"`
	// A container may still run.
	MayRun bool `json:"mayRun"`
}

// As the manager of a kubelet that has just started does it: the status is compared with what the API has, kept, and
// merged with what the API has when it is written. An answer of null: the manager refuses the status.
func oracleMerge(c oracleMergeCase) any {
	m := &manager{
		podManager:       oraclePods{},
		podStatuses:      map[types.UID]versionedPodStatus{},
		podStatusChannel: make(chan struct{}, 1),
	}
	m.updateStatusInternal(klog.Background(), c.Pod, *c.Ours.DeepCopy(), false, false)
	kept, accepted := m.podStatuses[c.Pod.UID]
	if !accepted {
		return nil
	}
	return mergePodStatus(c.Pod, c.Pod.Status, kept.status, c.MayRun)
}

type oraclePods struct{ PodManager }

func (oraclePods) GetMirrorPodByPod(*v1.Pod) (*v1.Pod, bool) { return nil, false }

func oracleNormalise(c oracleMergeCase) any {
	return normalizeStatus(c.Pod, c.Ours.DeepCopy())
}
