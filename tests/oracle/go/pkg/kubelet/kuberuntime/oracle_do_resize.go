package kuberuntime

import (
	"context"
	"time"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	kubeletconfiginternal "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/oracle"
)

func init() { oracle.Register("doPodResizeAction", oracle.Of(oracleDoResize)) }

const oraclePeriod = 100000

type oracleDoResizeCase struct {
	Pod         *v1.Pod           `json:"pod"`
	Observation OracleObservation `json:"observation"`
	Actuated    *OracleAllocation `json:"actuated"`
	// Bytes in use: by the pod under the empty name, by containers under theirs.
	Usage map[string]uint64 `json:"usage"`
}

// Values of the pod's cgroup; -1 is no limit.
type oraclePodValues struct {
	Memory int64 `json:"memory"`
	Quota  int64 `json:"quota"`
	Shares int64 `json:"shares"`
}

// A call for a container, and the values of the pod's cgroup at that moment.
type oracleResizeCall struct {
	ID       string          `json:"id"`
	Resource v1.ResourceName `json:"resource"`
	Memory   int64           `json:"memory"`
	Quota    int64           `json:"quota"`
	Shares   int64           `json:"shares"`
	Pod      oraclePodValues `json:"pod"`
}

type oracleResized struct {
	Old     oraclePodValues    `json:"old"`
	New     oraclePodValues    `json:"new"`
	Checked bool               `json:"checked"`
	Error   string             `json:"error"`
	Calls   []oracleResizeCall `json:"calls"`
	Pod     oraclePodValues    `json:"pod"`
}

func oraclePodValuesOf(pod *v1.Pod) oraclePodValues {
	config := cm.ResourceConfigForPod(pod, true, oraclePeriod, false, kubeletconfiginternal.NoneMemoryReservationPolicy)
	values := oraclePodValues{Memory: -1, Quota: -1, Shares: int64(*config.CPUShares)}
	values.set(config)
	return values
}

func (v *oraclePodValues) set(config *cm.ResourceConfig) {
	if config.Memory != nil {
		v.Memory = *config.Memory
	}
	if config.CPUQuota != nil {
		v.Quota = *config.CPUQuota
	}
	if config.CPUShares != nil {
		v.Shares = int64(*config.CPUShares)
	}
}

func oracleDoResize(c oracleDoResizeCase) any {
	oracle.Gates{}.Set()
	m := OracleManager(c.Pod, nil)
	oracleActuated(m, c.Pod, c.Actuated)
	status := c.Observation.PodStatus(m, c.Pod)
	actions := m.computePodActions(context.Background(), c.Pod, status, false)
	changes := len(actions.ContainersToUpdate) > 0 || actions.UpdatePodResources || actions.UpdatePodLevelResources
	if actions.KillPod || !changes {
		return nil
	}
	before := c.Pod.DeepCopy()
	before.Spec.Resources = c.Actuated.Pod
	for _, list := range [][]v1.Container{before.Spec.InitContainers, before.Spec.Containers} {
		for i := range list {
			list[i].Resources = c.Actuated.Containers[list[i].Name]
		}
	}
	world := &oracleResizeWorld{usage: c.Usage, actions: actions, values: oraclePodValuesOf(before)}
	answer := oracleResized{Old: world.values, New: oraclePodValuesOf(c.Pod)}
	answer.Checked = len(actions.ContainersToUpdate[v1.ResourceMemory]) > 0 || actions.UpdatePodResources
	m.cpuCFSQuota, m.cpuCFSQuotaPeriod = true, metav1.Duration{Duration: oraclePeriod * time.Microsecond}
	m.machineInfo = &cadvisorapi.MachineInfo{MemoryCapacity: 16 << 30}
	m.getSwapControllerAvailable = func() bool { return false }
	m.containerManager, m.runtimeHelper = oracleResizeManager{world: world}, oracleResizeHelper{world: world}
	m.runtimeService = &oracleResizeRuntime{world: world}
	result := m.doPodResizeAction(context.Background(), c.Pod, status, actions)
	answer.Error, answer.Calls, answer.Pod = result.Message, notNilCalls(world.calls), world.values
	return answer
}

func notNilCalls(calls []oracleResizeCall) []oracleResizeCall {
	if calls == nil {
		return []oracleResizeCall{}
	}
	return calls
}

// What a resize sees and changes.
type oracleResizeWorld struct {
	usage   map[string]uint64
	actions podActions
	values  oraclePodValues
	calls   []oracleResizeCall
}

type oracleResizeManager struct {
	cm.ContainerManager
	world *oracleResizeWorld
}

func (m oracleResizeManager) NewPodContainerManager() cm.PodContainerManager {
	return oracleResizeCgroup{world: m.world}
}
func (m oracleResizeManager) PodHasExclusiveCPUs(*v1.Pod) bool                      { return false }
func (m oracleResizeManager) ContainerHasExclusiveCPUs(*v1.Pod, *v1.Container) bool { return false }

type oracleResizeCgroup struct {
	cm.PodContainerManager
	world *oracleResizeWorld
}

func (g oracleResizeCgroup) GetPodCgroupConfig(_ *v1.Pod, resource v1.ResourceName) (*cm.ResourceConfig, error) {
	values, shares, period := g.world.values, uint64(g.world.values.Shares), uint64(oraclePeriod)
	if resource == v1.ResourceMemory {
		return &cm.ResourceConfig{Memory: &values.Memory}, nil
	}
	return &cm.ResourceConfig{CPUQuota: &values.Quota, CPUShares: &shares, CPUPeriod: &period}, nil
}

func (g oracleResizeCgroup) SetPodCgroupConfig(_ klog.Logger, _ *v1.Pod, config *cm.ResourceConfig) error {
	g.world.values.set(config)
	return nil
}

type oracleResizeHelper struct {
	kubecontainer.RuntimeHelper
	world *oracleResizeWorld
}

func (oracleResizeHelper) RequestPodReinspect(types.UID) {}

// Containers are in the order in which they change: a real node has them in any order.
func (h oracleResizeHelper) PodCPUAndMemoryStats(context.Context, *v1.Pod, *kubecontainer.PodStatus) (*statsapi.PodStats, error) {
	memory := func(name string) *statsapi.MemoryStats {
		used := h.world.usage[name]
		return &statsapi.MemoryStats{UsageBytes: &used}
	}
	stats := &statsapi.PodStats{Memory: memory("")}
	for _, update := range h.world.actions.ContainersToUpdate[v1.ResourceMemory] {
		name := update.container.Name
		stats.Containers = append(stats.Containers, statsapi.ContainerStats{Name: name, Memory: memory(name)})
	}
	return stats, nil
}

type oracleResizeRuntime struct {
	oracleRuntime
	world *oracleResizeWorld
}

func (r *oracleResizeRuntime) UpdateContainerResources(_ context.Context, id string, resources *runtimeapi.ContainerResources) error {
	resource := v1.ResourceCPU
	if len(r.world.calls) < len(r.world.actions.ContainersToUpdate[v1.ResourceMemory]) {
		resource = v1.ResourceMemory
	}
	linux := resources.Linux
	call := oracleResizeCall{id, resource, linux.MemoryLimitInBytes, linux.CpuQuota, linux.CpuShares, r.world.values}
	r.world.calls = append(r.world.calls, call)
	return nil
}

func (r *oracleResizeRuntime) UpdatePodSandboxResources(context.Context, *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	return &runtimeapi.UpdatePodSandboxResourcesResponse{}, nil
}
