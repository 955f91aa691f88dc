package kubelet

import (
	"sort"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/kuberuntime"
	"k8s.io/kubernetes/pkg/oracle"
)

func init() { oracle.Register("getContainersToDeleteInPod", oracle.Of(oraclePrune)) }

type oraclePruneCase struct {
	Pod         *v1.Pod                       `json:"pod"`
	Observation kuberuntime.OracleObservation `json:"observation"`
	// The flag's value, negative for no limit.
	PerContainer int  `json:"perContainer"`
	RemoveAll    bool `json:"removeAll"`
}

// As the kubelet calls it, once for each container that has ended.
func oraclePrune(c oraclePruneCase) any {
	status := c.Observation.PodStatus(kuberuntime.OracleManager(c.Pod, nil), c.Pod)
	keep := max(c.PerContainer, minDeadContainerInPod)
	chosen := map[string]bool{}
	if c.RemoveAll {
		for _, container := range getContainersToDeleteInPod("", status, 0) {
			chosen[container.ID.ID] = true
		}
	} else {
		for _, ended := range status.ContainerStatuses {
			for _, container := range getContainersToDeleteInPod(ended.ID.ID, status, keep) {
				chosen[container.ID.ID] = true
			}
		}
	}
	ids := []string{}
	for id := range chosen {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	return ids
}
