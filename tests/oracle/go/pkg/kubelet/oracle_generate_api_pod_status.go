package kubelet

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/kuberuntime"
	"k8s.io/kubernetes/pkg/kubelet/prober"
	"k8s.io/kubernetes/pkg/kubelet/runtimeclass"
	"k8s.io/kubernetes/pkg/kubelet/status"
	"k8s.io/kubernetes/pkg/oracle"
	testingclock "k8s.io/utils/clock/testing"
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
	// RecursiveReadOnly says that the runtime can make mounts read-only with all that is mounted below them.
	RecursiveReadOnly bool `json:"recursiveReadOnly"`
}

type oracleFailure struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// The moment at which every case is decided, in the hour of its observation.
var oracleNow = time.Unix(1_767_225_600+1_000, 0)

// Pods of cases name no runtime class, so there are none.
var oracleRuntimeClasses = runtimeclass.NewManager(nil)

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
	before := c.Previous
	if before == nil {
		before = &c.Pod.Status
	}
	kl := &Kubelet{
		statusManager:    oracleStatusManager{previous: c.Previous, resize: oracleResizeConditions(before)},
		probeManager:     prober.OracleManager(c.Pod, readiness, startup),
		containerManager: oracleContainerManager{cm.NewStubContainerManager()},
		reasonCache:      NewReasonCache(),
		kubeClient:       oracleClient{},
		nodeLister:       oracleNode{c.HostIPs},

		runtimeClassManager: oracleRuntimeClasses,
		runtimeState:        newRuntimeState(0),
	}
	kl.runtimeState.setRuntimeHandlers([]kubecontainer.RuntimeHandler{{SupportsRecursiveReadOnlyMounts: c.RecursiveReadOnly}})
	deadline, err := newActiveDeadlineHandler(kl.statusManager, &record.FakeRecorder{}, testingclock.NewFakeClock(oracleNow))
	if err != nil {
		panic(err)
	}
	kl.AddPodSyncHandler(deadline)
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
		for _, ip := range before.PodIPs {
			seen.IPs = append(seen.IPs, ip.IP)
		}
	}
	return kl.generateAPIPodStatus(context.Background(), c.Pod, seen, c.Terminal)
}

type oracleStatusManager struct {
	status.Manager
	previous *v1.PodStatus
	resize   []*v1.PodCondition
}

func (m oracleStatusManager) GetPodStatus(types.UID) (v1.PodStatus, bool) {
	if m.previous == nil {
		return v1.PodStatus{}, false
	}
	return *m.previous.DeepCopy(), true
}

func (m oracleStatusManager) GetPodResizeConditions(types.UID) []*v1.PodCondition { return m.resize }
func (m oracleStatusManager) ClearPodResizePendingCondition(types.UID)            {}
func (m oracleStatusManager) ClearPodResizeInProgressCondition(types.UID) (int64, bool) {
	return 0, false
}

// upstream: status/status_manager.go BackfillPodResizeConditions: after a restart they are those of the status.
func oracleResizeConditions(status *v1.PodStatus) []*v1.PodCondition {
	var found []*v1.PodCondition
	for i := range status.Conditions {
		if kind := status.Conditions[i].Type; kind == v1.PodResizePending || kind == v1.PodResizeInProgress {
			found = append(found, status.Conditions[i].DeepCopy())
		}
	}
	return found
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

func (m oracleContainerManager) NewPodContainerManager() cm.PodContainerManager {
	return oraclePodCgroups{}
}

type oraclePodCgroups struct{ cm.PodContainerManager }

func (oraclePodCgroups) GetPodCgroupConfig(*v1.Pod, v1.ResourceName) (*cm.ResourceConfig, error) {
	return nil, errors.New("no cgroup")
}
