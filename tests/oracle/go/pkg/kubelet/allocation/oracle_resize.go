package allocation

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/allocation/state"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/status"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
	"k8s.io/kubernetes/pkg/oracle"
)

func init() {
	oracle.Register("podResizesAdmitHandler", oracle.Of(oracleResizeAdmit))
	oracle.Register("sortPendingResizes", oracle.Of(oraclePendingResizes))
}

type oracleResizeCase struct {
	Desired   *v1.Pod         `json:"desired"`
	Allocated *v1.Pod         `json:"allocated"`
	Swaps     map[string]bool `json:"swaps"`
}

type oracleSwap struct {
	kubecontainer.Runtime
	swaps map[string]bool
}

func (s oracleSwap) GetContainerSwapBehavior(_ *v1.Pod, container *v1.Container) kubetypes.SwapBehavior {
	if s.swaps[container.Name] {
		return kubetypes.LimitedSwap
	}
	return kubetypes.NoSwap
}

type oracleAllocated struct {
	Manager
	pod *v1.Pod
}

func (a oracleAllocated) UpdatePodFromAllocation(*v1.Pod) (*v1.Pod, bool) { return a.pod, true }

type oracleContainers struct{ cm.ContainerManager }

func (oracleContainers) GetNodeConfig() cm.NodeConfig { return cm.NodeConfig{CPUManagerPolicy: "none"} }

func oracleResizeAdmit(c oracleResizeCase) any {
	handler := NewPodResizesAdmitHandler(oracleContainers{}, oracleSwap{swaps: c.Swaps}, oracleAllocated{pod: c.Allocated}, klog.Background())
	result := handler.Admit(&lifecycle.PodAdmitAttributes{Pod: c.Desired, Operation: lifecycle.ResizeOperation})
	return map[string]any{"admit": result.Admit, "reason": result.Reason, "message": result.Message}
}

type oraclePendingCase struct {
	Pods []oraclePending `json:"pods"`
}

// A pod that waits, what it has, and since when it has been deferred.
type oraclePending struct {
	Desired   *v1.Pod `json:"desired"`
	Allocated *v1.Pod `json:"allocated"`
	Since     *int64  `json:"since"`
}

type oracleConditions struct {
	status.Manager
	since map[types.UID]*int64
}

func (c oracleConditions) GetPodResizeConditions(uid types.UID) []*v1.PodCondition {
	since := c.since[uid]
	if since == nil {
		return nil
	}
	return []*v1.PodCondition{{Type: v1.PodResizePending, LastTransitionTime: metav1.NewTime(time.Unix(*since, 0))}}
}

// The order of the pods, and which of them ask for more than they have.
func oraclePendingResizes(c oraclePendingCase) any {
	pods, since := map[types.UID]*v1.Pod{}, map[types.UID]*int64{}
	m := &manager{allocated: state.NewStateMemory(state.PodResourceInfoMap{})}
	for _, pending := range c.Pods {
		uid := pending.Desired.UID
		pods[uid], since[uid] = pending.Desired, pending.Since
		m.podsWithPendingResizes = append(m.podsWithPendingResizes, uid)
		if err := m.SetAllocatedResources(pending.Allocated); err != nil {
			panic(err)
		}
	}
	m.statusManager = oracleConditions{since: since}
	m.getPodByUID = func(uid types.UID) (*v1.Pod, bool) { return pods[uid], true }
	m.sortPendingResizes(klog.Background())
	growing := map[types.UID]bool{}
	for uid, pod := range pods {
		growing[uid] = m.isResizeIncreasingRequests(pod)
	}
	return map[string]any{"order": m.podsWithPendingResizes, "growing": growing}
}
