package kubelet

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/kuberuntime"
	"k8s.io/kubernetes/pkg/kubelet/prober"
	"k8s.io/kubernetes/pkg/kubelet/status"
	"k8s.io/kubernetes/pkg/oracle"
	netutils "k8s.io/utils/net"
)

func init() { oracle.Register("generateAPIPodStatus", oracle.Of(oraclePodStatus)) }

type oracleStatusCase struct {
	Pod         *v1.Pod                       `json:"pod"`
	Previous    *v1.PodStatus                 `json:"previous"`
	Observation kuberuntime.OracleObservation `json:"observation"`
	Probes      kuberuntime.OracleProbes      `json:"probes"`
	Failures    map[string]oracleFailure      `json:"failures"`
	Terminal    bool                          `json:"terminal"`
	Gates       oracle.Gates                  `json:"gates"`
	HostIPs     []string                      `json:"hostIPs"`
}

type oracleFailure struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func oraclePodStatus(c oracleStatusCase) any {
	c.Gates.Set()
	// What is allocated is what was actuated: these cases have no resize under way.
	allocation := &kuberuntime.OracleAllocation{Containers: map[string]v1.ResourceRequirements{}, Pod: c.Pod.Spec.Resources}
	for _, list := range [][]v1.Container{c.Pod.Spec.InitContainers, c.Pod.Spec.Containers} {
		for _, container := range list {
			allocation.Containers[container.Name] = container.Resources
		}
	}
	seen := c.Observation.PodStatus(kuberuntime.OracleManager(c.Pod, allocation), c.Pod)
	readiness, startup := kuberuntime.OracleResultsOf(c.Probes.Readiness), kuberuntime.OracleResultsOf(c.Probes.Startup)
	kl := &Kubelet{
		statusManager:    oracleStatusManager{previous: c.Previous},
		probeManager:     prober.OracleManager(c.Pod, readiness, startup),
		containerManager: oracleContainerManager{cm.NewStubContainerManager()},
		reasonCache:      NewReasonCache(),
		kubeClient:       oracleClient{},
		nodeLister:       oracleNode{c.HostIPs},
	}
	for _, ip := range c.HostIPs {
		kl.nodeIPs = append(kl.nodeIPs, netutils.ParseIPSloppy(ip))
	}
	for name, failure := range c.Failures {
		kl.reasonCache.add(c.Pod.UID, name, errors.New(failure.Reason), failure.Message)
	}
	// upstream: pleg/generic.go getPodIPs: a pod without a ready sandbox keeps the addresses that were seen before; SyncPod
	// leaves those of a pod on the node's network in the cache.
	ready := len(seen.SandboxStatuses) > 0 && seen.SandboxStatuses[0].State == 0
	if len(seen.IPs) == 0 && (!ready || c.Pod.Spec.HostNetwork) {
		before := c.Previous
		if before == nil {
			before = &c.Pod.Status
		}
		for _, ip := range before.PodIPs {
			seen.IPs = append(seen.IPs, ip.IP)
		}
	}
	return kl.generateAPIPodStatus(context.Background(), c.Pod, seen, c.Terminal)
}

type oracleStatusManager struct {
	status.Manager
	previous *v1.PodStatus
}

func (m oracleStatusManager) GetPodStatus(types.UID) (v1.PodStatus, bool) {
	if m.previous == nil {
		return v1.PodStatus{}, false
	}
	return *m.previous.DeepCopy(), true
}

func (m oracleStatusManager) GetPodResizeConditions(types.UID) []*v1.PodCondition { return nil }
func (m oracleStatusManager) ClearPodResizePendingCondition(types.UID)            {}
func (m oracleStatusManager) ClearPodResizeInProgressCondition(types.UID) (int64, bool) {
	return 0, false
}

type oracleClient struct{ clientset.Interface }

type oracleNode struct{ ips []string }

func (n oracleNode) Get(string) (*v1.Node, error) {
	node := &v1.Node{}
	for _, ip := range n.ips {
		node.Status.Addresses = append(node.Status.Addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip})
	}
	return node, nil
}

func (n oracleNode) List(_ labels.Selector) ([]*v1.Node, error) { return nil, nil }

var _ corelisters.NodeLister = oracleNode{}

// The cgroup of a pod cannot be read here.
type oracleContainerManager struct{ cm.ContainerManager }

func (m oracleContainerManager) NewPodContainerManager() cm.PodContainerManager { return oraclePodCgroups{} }

type oraclePodCgroups struct{ cm.PodContainerManager }

func (oraclePodCgroups) GetPodCgroupConfig(*v1.Pod, v1.ResourceName) (*cm.ResourceConfig, error) {
	return nil, errors.New("no cgroup")
}
