package kuberuntime

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/allocation/state"
	"k8s.io/kubernetes/pkg/oracle"
)

func init() { oracle.Register("IsPodResizeInProgress", oracle.Of(oracleResizeInProgress)) }

type oracleSizes struct {
	MemoryLimit   int64 `json:"memoryLimit"`
	MemoryRequest int64 `json:"memoryRequest"`
	CPULimit      int64 `json:"cpuLimit"`
	CPURequest    int64 `json:"cpuRequest"`
}

// A container that changes while it runs.
type oracleResize struct {
	ID  string      `json:"id"`
	Old oracleSizes `json:"old"`
	New oracleSizes `json:"new"`
}

func oracleSizesOf(r resourceRequirements) oracleSizes {
	return oracleSizes{r.memoryLimit, r.memoryRequest, r.cpuLimit, r.cpuRequest}
}

func oracleResizes(actions podActions, resource v1.ResourceName) []oracleResize {
	resizes := []oracleResize{}
	for _, update := range actions.ContainersToUpdate[resource] {
		old, desired := oracleSizesOf(*update.currentContainerResources), oracleSizesOf(update.desiredContainerResources)
		resizes = append(resizes, oracleResize{update.kubeContainerID.ID, old, desired})
	}
	return resizes
}

// Of the containers that start those that start with other resources than were actuated.
func oracleStartResized(m *kubeGenericRuntimeManager, pod *v1.Pod, containers []v1.Container, start []int) []int {
	resized := []int{}
	for _, place := range start {
		if m.startingResizedContainer(klog.Background(), pod, containers, []int{place}) {
			resized = append(resized, place)
		}
	}
	return resized
}

// The record of what was actuated, written by upstream's own functions: the limits of the pod are those of containers that
// have none.
func oracleActuated(m *kubeGenericRuntimeManager, pod *v1.Pod, actuated *OracleAllocation) {
	if actuated == nil {
		return
	}
	info := state.PodResourceInfo{ContainerResources: map[string]v1.ResourceRequirements{}, PodLevelResources: actuated.Pod}
	if err := m.actuatedState.SetPodResourceInfo(klog.Background(), pod.UID, info); err != nil {
		panic(err)
	}
	before := pod.DeepCopy()
	before.Spec.Resources = actuated.Pod
	for name, resources := range actuated.Containers {
		if err := m.setActuatedContainerResources(before, &v1.Container{Name: name, Resources: resources}); err != nil {
			panic(err)
		}
	}
}

type oracleProgressCase struct {
	Pod         *v1.Pod           `json:"pod"`
	Observation OracleObservation `json:"observation"`
	Actuated    *OracleAllocation `json:"actuated"`
}

func oracleResizeInProgress(c oracleProgressCase) any {
	oracle.Gates{}.Set()
	m := OracleManager(c.Pod, nil)
	oracleActuated(m, c.Pod, c.Actuated)
	return m.IsPodResizeInProgress(c.Pod, c.Observation.PodStatus(m, c.Pod))
}
