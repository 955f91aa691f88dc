package kuberuntime

import (
	"context"
	"fmt"
	"sort"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/allocation/state"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	proberesults "k8s.io/kubernetes/pkg/kubelet/prober/results"
)

// OracleObservation is what a runtime shows of a pod, in the words of our cases. Times are nanoseconds since 1970.
type OracleObservation struct {
	Sandboxes  []OracleSandbox   `json:"sandboxes"`
	Containers []OracleContainer `json:"containers"`
}

// OracleSandbox is one sandbox.
type OracleSandbox struct {
	ID          string   `json:"id"`
	Attempt     uint32   `json:"attempt"`
	Ready       bool     `json:"ready"`
	CreatedAt   int64    `json:"createdAt"`
	HostNetwork bool     `json:"hostNetwork"`
	IPs         []string `json:"ips"`
}

// OracleContainer is one instance of a container. Hash is what its annotation holds: hexadecimal, or anything else.
type OracleContainer struct {
	ID           string           `json:"id"`
	Sandbox      string           `json:"sandbox"`
	Name         string           `json:"name"`
	State        string           `json:"state"`
	CreatedAt    int64            `json:"createdAt"`
	StartedAt    int64            `json:"startedAt"`
	FinishedAt   int64            `json:"finishedAt"`
	ExitCode     int32            `json:"exitCode"`
	Reason       string           `json:"reason"`
	Message      string           `json:"message"`
	Image        string           `json:"image"`
	ImageID      string           `json:"imageID"`
	Hash         string           `json:"hash"`
	RestartCount int              `json:"restartCount"`
	Resources    *OracleResources `json:"resources"`
	User         *OracleUser      `json:"user"`
}

// OracleResources are the resources that the runtime says are in force.
type OracleResources struct {
	CPUShares   int64 `json:"cpuShares"`
	CPUQuota    int64 `json:"cpuQuota"`
	CPUPeriod   int64 `json:"cpuPeriod"`
	MemoryLimit int64 `json:"memoryLimit"`
}

// OracleUser is the user of a container's first process.
type OracleUser struct {
	UID                int64   `json:"uid"`
	GID                int64   `json:"gid"`
	SupplementalGroups []int64 `json:"supplementalGroups"`
}

// OracleAllocation is what the runtime was last asked to give to a pod's containers.
type OracleAllocation struct {
	Containers map[string]v1.ResourceRequirements `json:"containers"`
	Pod        *v1.ResourceRequirements           `json:"pod"`
}

// OracleRuntimeName is the runtime of every case.
const OracleRuntimeName = "oracle"

var oracleStates = map[string]runtimeapi.ContainerState{
	"created": runtimeapi.ContainerState_CONTAINER_CREATED,
	"running": runtimeapi.ContainerState_CONTAINER_RUNNING,
	"exited":  runtimeapi.ContainerState_CONTAINER_EXITED,
	"unknown": runtimeapi.ContainerState_CONTAINER_UNKNOWN,
}

// OracleManager is a runtime manager with the parts that decisions look at.
func OracleManager(pod *v1.Pod, allocation *OracleAllocation) *kubeGenericRuntimeManager {
	m := &kubeGenericRuntimeManager{
		livenessManager:   OracleResults{},
		readinessManager:  OracleResults{},
		startupManager:    OracleResults{},
		internalLifecycle: cm.NewFakeInternalContainerLifecycle(),
		actuatedState:     state.NewStateMemory(nil),
		runtimeName:       OracleRuntimeName,
	}
	if allocation != nil {
		info := state.PodResourceInfo{ContainerResources: allocation.Containers, PodLevelResources: allocation.Pod}
		if err := m.actuatedState.SetPodResourceInfo(klog.Background(), pod.UID, info); err != nil {
			panic(err)
		}
	}
	return m
}

// PodStatus is the observation as upstream's GetPodStatus gives it, converted by upstream's own functions: newest first,
// addresses and active containers of the newest sandbox if it is ready.
func (o OracleObservation) PodStatus(m *kubeGenericRuntimeManager, pod *v1.Pod) *kubecontainer.PodStatus {
	ctx := context.Background()
	status := &kubecontainer.PodStatus{
		ID: pod.UID, Name: pod.Name, Namespace: pod.Namespace, IPs: []string{},
		ContainerStatuses: []*kubecontainer.Status{}, ActiveContainerStatuses: []*kubecontainer.Status{},
	}
	for _, sandbox := range o.Sandboxes {
		status.SandboxStatuses = append(status.SandboxStatuses, sandbox.cri(pod))
	}
	sort.SliceStable(status.SandboxStatuses, func(i, j int) bool {
		return status.SandboxStatuses[i].CreatedAt > status.SandboxStatuses[j].CreatedAt
	})
	active := ""
	if len(status.SandboxStatuses) > 0 && status.SandboxStatuses[0].State == runtimeapi.PodSandboxState_SANDBOX_READY {
		active = status.SandboxStatuses[0].Id
		status.IPs = m.determinePodSandboxIPs(ctx, pod.Namespace, pod.Name, status.SandboxStatuses[0])
	}
	sandboxOf := map[string]string{}
	for _, container := range o.Containers {
		sandboxOf[container.ID] = container.Sandbox
		converted := m.toKubeContainerStatus(ctx, pod.UID, container.cri(pod), OracleRuntimeName)
		status.ContainerStatuses = append(status.ContainerStatuses, converted)
	}
	// upstream sorts what it read by creation, newest first; cases are stable beyond that.
	sort.Stable(containerStatusByCreated(status.ContainerStatuses))
	for _, container := range status.ContainerStatuses {
		if active != "" && sandboxOf[container.ID.ID] == active {
			status.ActiveContainerStatuses = append(status.ActiveContainerStatuses, container)
		}
	}
	return status
}

func (s OracleSandbox) cri(pod *v1.Pod) *runtimeapi.PodSandboxStatus {
	state, network := runtimeapi.PodSandboxState_SANDBOX_NOTREADY, runtimeapi.NamespaceMode_POD
	if s.Ready {
		state = runtimeapi.PodSandboxState_SANDBOX_READY
	}
	if s.HostNetwork {
		network = runtimeapi.NamespaceMode_NODE
	}
	metadata := &runtimeapi.PodSandboxMetadata{
		Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: s.Attempt,
	}
	options := &runtimeapi.NamespaceOption{Network: network}
	status := &runtimeapi.PodSandboxStatus{
		Id: s.ID, Metadata: metadata, State: state, CreatedAt: s.CreatedAt, Network: &runtimeapi.PodSandboxNetworkStatus{},
		Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: options}},
	}
	for i, ip := range s.IPs {
		if i == 0 {
			status.Network.Ip = ip
		} else {
			status.Network.AdditionalIps = append(status.Network.AdditionalIps, &runtimeapi.PodIP{Ip: ip})
		}
	}
	return status
}

func (c OracleContainer) cri(pod *v1.Pod) *runtimeapi.ContainerStatus {
	state, known := oracleStates[c.State]
	if !known {
		panic("no such state of a container: " + c.State)
	}
	status := &runtimeapi.ContainerStatus{
		Id: c.ID, State: state, CreatedAt: c.CreatedAt, StartedAt: c.StartedAt, FinishedAt: c.FinishedAt,
		ExitCode: c.ExitCode, Reason: c.Reason, Message: c.Message,
		Image: &runtimeapi.ImageSpec{Image: c.Image}, ImageRef: c.ImageID,
		Metadata: &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: uint32(c.RestartCount)},
		Labels: map[string]string{
			"io.kubernetes.container.name": c.Name, "io.kubernetes.pod.name": pod.Name,
			"io.kubernetes.pod.namespace": pod.Namespace, "io.kubernetes.pod.uid": string(pod.UID),
		},
		Annotations: map[string]string{
			"io.kubernetes.container.hash":         c.Hash,
			"io.kubernetes.container.restartCount": fmt.Sprint(c.RestartCount),
		},
	}
	if r := c.Resources; r != nil {
		status.Resources = &runtimeapi.ContainerResources{Linux: &runtimeapi.LinuxContainerResources{
			CpuShares: r.CPUShares, CpuQuota: r.CPUQuota, CpuPeriod: r.CPUPeriod, MemoryLimitInBytes: r.MemoryLimit,
		}}
	}
	if u := c.User; u != nil {
		status.User = &runtimeapi.ContainerUser{Linux: &runtimeapi.LinuxContainerUser{
			Uid: u.UID, Gid: u.GID, SupplementalGroups: u.SupplementalGroups,
		}}
	}
	return status
}

// OracleProbes are standing results of probes, by container id: "success", "failure" or "unknown".
type OracleProbes struct {
	Liveness  map[string]string `json:"liveness"`
	Readiness map[string]string `json:"readiness"`
	Startup   map[string]string `json:"startup"`
}

// OracleResults is a results manager that holds what a case says, and tells nobody of changes.
type OracleResults map[string]proberesults.Result

// OracleResultsOf reads the results of one kind of probe.
func OracleResultsOf(words map[string]string) OracleResults {
	results := OracleResults{}
	for id, word := range words {
		result, known := map[string]proberesults.Result{
			"success": proberesults.Success, "failure": proberesults.Failure, "unknown": proberesults.Unknown,
		}[word]
		if !known {
			panic("no such result of a probe: " + word)
		}
		results[id] = result
	}
	return results
}

// Get is part of proberesults.Manager.
func (r OracleResults) Get(id kubecontainer.ContainerID) (proberesults.Result, bool) {
	result, found := r[id.ID]
	return result, found
}

// Set is part of proberesults.Manager.
func (r OracleResults) Set(id kubecontainer.ContainerID, result proberesults.Result, _ *v1.Pod) {
	r[id.ID] = result
}

// Remove is part of proberesults.Manager.
func (r OracleResults) Remove(id kubecontainer.ContainerID) { delete(r, id.ID) }

// Updates is part of proberesults.Manager.
func (r OracleResults) Updates() <-chan proberesults.Update { return nil }

// OracleUID is the UID of a pod that names none.
const OracleUID = types.UID("oracle")
