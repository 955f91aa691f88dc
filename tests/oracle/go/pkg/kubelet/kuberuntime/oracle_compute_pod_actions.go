package kuberuntime

import (
	"context"
	"sort"

	v1 "k8s.io/api/core/v1"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	containertest "k8s.io/kubernetes/pkg/kubelet/container/testing"
	"k8s.io/kubernetes/pkg/kubelet/logs"
	"k8s.io/kubernetes/pkg/oracle"
)

func init() { oracle.Register("computePodActions", oracle.Of(oraclePodActions)) }

type oraclePlanCase struct {
	Pod         *v1.Pod           `json:"pod"`
	Observation OracleObservation `json:"observation"`
	Probes      OracleProbes      `json:"probes"`
	Gates       oracle.Gates      `json:"gates"`
	Actuated    *OracleAllocation `json:"actuated"`
}

type oracleKill struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type oracleReset struct {
	ID   string `json:"id"`
	Kill bool   `json:"kill"`
}

type oraclePlan struct {
	KillPod        bool           `json:"killPod"`
	CreateSandbox  bool           `json:"createSandbox"`
	Attempt        uint32         `json:"attempt"`
	SandboxID      string         `json:"sandboxID"`
	StartEphemeral []int          `json:"startEphemeral"`
	StartInit      []int          `json:"startInit"`
	StartRegular   []int          `json:"startRegular"`
	Kill           []oracleKill   `json:"kill"`
	Reset          []oracleReset  `json:"reset"`
	Purge          []string       `json:"purge"`
	Prune          []string       `json:"prune"`
	ResizeMemory   []oracleResize `json:"resizeMemory"`
	ResizeCPU      []oracleResize `json:"resizeCPU"`
	ResizePod      bool           `json:"resizePod"`
	// Of the containers that start those that start with other resources than were actuated.
	InitResized    []int `json:"initResized"`
	RegularResized []int `json:"regularResized"`
	// The resources of the pod itself are not those that were actuated.
	PodLevelChanges bool `json:"podLevelChanges"`
}

func oraclePodActions(c oraclePlanCase) any {
	c.Gates.Set()
	m := OracleManager(c.Pod, nil)
	oracleActuated(m, c.Pod, c.Actuated)
	m.livenessManager, m.startupManager = OracleResultsOf(c.Probes.Liveness), OracleResultsOf(c.Probes.Startup)
	status := c.Observation.PodStatus(m, c.Pod)
	all := kubecontainer.ShouldAllContainersRestart(c.Pod, status, &c.Pod.Status)
	actions := m.computePodActions(context.Background(), c.Pod, status, all)
	plan := oraclePlan{
		KillPod: actions.KillPod, CreateSandbox: actions.CreateSandbox, Attempt: actions.Attempt,
		SandboxID: actions.SandboxID, StartEphemeral: notNil(actions.EphemeralContainersToStart),
		StartInit: notNil(actions.InitContainersToStart), StartRegular: notNil(actions.ContainersToStart),
		Kill: []oracleKill{}, Reset: []oracleReset{},
		InitResized:    oracleStartResized(m, c.Pod, c.Pod.Spec.InitContainers, actions.InitContainersToStart),
		RegularResized: oracleStartResized(m, c.Pod, c.Pod.Spec.Containers, actions.ContainersToStart),
		ResizeMemory:   oracleResizes(actions, v1.ResourceMemory), ResizeCPU: oracleResizes(actions, v1.ResourceCPU),
		PodLevelChanges: actions.UpdatePodLevelResources,
		ResizePod:       actions.UpdatePodResources || actions.UpdatePodLevelResources,
	}
	for id, kill := range actions.ContainersToKill {
		plan.Kill = append(plan.Kill, oracleKill{id.ID, kill.name, string(kill.reason), kill.message})
	}
	// A map in upstream: it stops them in any order.
	sort.Slice(plan.Kill, func(i, j int) bool { return plan.Kill[i].ID < plan.Kill[j].ID })
	for _, reset := range actions.ContainersToReset {
		plan.Reset = append(plan.Reset, oracleReset{reset.containerID.ID, reset.kill})
	}
	// What SyncPod removes beside what starts over.
	if actions.KillPod && actions.CreateSandbox {
		plan.Purge = oracleRemoved(m, func() { m.purgeInitContainers(context.Background(), c.Pod, status) })
	}
	plan.Prune = oracleRemoved(m, func() { m.pruneInitContainersBeforeStart(context.Background(), c.Pod, status) })
	return plan
}

// What a function of upstream removes, found out on a runtime that only writes down. A map decides upstream's order, so
// there is none.
func oracleRemoved(m *kubeGenericRuntimeManager, remove func()) []string {
	runtime := &oracleRuntime{removed: map[string]bool{}}
	m.runtimeService, m.osInterface, m.logManager = runtime, &containertest.FakeOS{}, logs.NewStubContainerLogManager()
	remove()
	removed := []string{}
	for id := range runtime.removed {
		removed = append(removed, id)
	}
	sort.Strings(removed)
	return removed
}

func notNil(list []int) []int {
	if list == nil {
		return []int{}
	}
	return list
}
