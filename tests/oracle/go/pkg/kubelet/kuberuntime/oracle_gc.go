package kuberuntime

import (
	"context"
	"fmt"
	"sort"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	containertest "k8s.io/kubernetes/pkg/kubelet/container/testing"
	"k8s.io/kubernetes/pkg/kubelet/logs"
	"k8s.io/kubernetes/pkg/oracle"
)

func init() { oracle.Register("evictContainers", oracle.Of(oracleGC)) }

// Ages are in seconds: upstream compares with the real clock.
type oracleGCCase struct {
	Pods            []oracleGCPod `json:"pods"`
	MinAge          int64         `json:"minAge"`
	PerContainer    int           `json:"perContainer"`
	Total           int           `json:"total"`
	AllSourcesReady bool          `json:"allSourcesReady"`
	RemoveEnded     bool          `json:"removeEnded"`
}

type oracleGCPod struct {
	UID        string              `json:"uid"`
	Fate       string              `json:"fate"`
	Sandboxes  []oracleGCSandbox   `json:"sandboxes"`
	Containers []oracleGCContainer `json:"containers"`
}

type oracleGCSandbox struct {
	ID    string `json:"id"`
	Ready bool   `json:"ready"`
	Age   int64  `json:"age"`
}

type oracleGCContainer struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Sandbox string `json:"sandbox"`
	State   string `json:"state"`
	Age     int64  `json:"age"`
}

type oracleGCAnswer struct {
	Containers []string `json:"containers"`
	Stopped    []string `json:"stopped"`
	Sandboxes  []string `json:"sandboxes"`
}

func oracleGC(c oracleGCCase) any {
	now := time.Now()
	runtime := &oracleGCRuntime{containers: map[string]*runtimeapi.Container{}, sandboxes: map[string]*runtimeapi.PodSandbox{}}
	fates := oracleFates{}
	for _, pod := range c.Pods {
		fates[types.UID(pod.UID)] = pod.Fate
		runtime.add(pod, now)
	}
	m := &kubeGenericRuntimeManager{
		runtimeService: runtime, osInterface: &containertest.FakeOS{}, logManager: logs.NewStubContainerLogManager(),
		internalLifecycle: cm.NewFakeInternalContainerLifecycle(), recorder: &record.FakeRecorder{},
		runtimeName: OracleRuntimeName,
	}
	gc := newContainerGC(runtime, fates, m, nil)
	policy := kubecontainer.GCPolicy{
		MinAge: time.Duration(c.MinAge) * time.Second, MaxPerPodContainer: c.PerContainer, MaxContainers: c.Total,
	}
	for _, step := range []error{
		gc.evictContainers(context.Background(), policy, c.AllSourcesReady, c.RemoveEnded),
		gc.evictSandboxes(context.Background(), c.RemoveEnded),
	} {
		if step != nil {
			panic(step)
		}
	}
	// Maps decide upstream's order, so there is none.
	for _, list := range []*[]string{&runtime.removed, &runtime.stopped, &runtime.removedSandboxes} {
		sort.Strings(*list)
		if *list == nil {
			*list = []string{}
		}
	}
	return oracleGCAnswer{runtime.removed, runtime.stopped, runtime.removedSandboxes}
}

// oracleFates answers what the pod workers know: mayRun, ended or unneeded.
type oracleFates map[types.UID]string

func (f oracleFates) IsPodTerminationRequested(uid types.UID) bool { return f[uid] == "unneeded" }
func (f oracleFates) ShouldPodContentBeRemoved(uid types.UID) bool { return f[uid] == "unneeded" }
func (f oracleFates) ShouldPodRuntimeBeRemoved(uid types.UID) bool {
	return f[uid] == "unneeded" || f[uid] == "ended"
}

// oracleGCRuntime is a runtime whose containers and sandboxes can be removed.
type oracleGCRuntime struct {
	internalapi.RuntimeService
	containers                         map[string]*runtimeapi.Container
	sandboxes                          map[string]*runtimeapi.PodSandbox
	removed, stopped, removedSandboxes []string
}

func (r *oracleGCRuntime) add(pod oracleGCPod, now time.Time) {
	at := func(age int64) int64 { return now.Add(-time.Duration(age) * time.Second).UnixNano() }
	for _, s := range pod.Sandboxes {
		state := runtimeapi.PodSandboxState_SANDBOX_NOTREADY
		if s.Ready {
			state = runtimeapi.PodSandboxState_SANDBOX_READY
		}
		r.sandboxes[s.ID] = &runtimeapi.PodSandbox{
			Id: s.ID, State: state, CreatedAt: at(s.Age), Metadata: &runtimeapi.PodSandboxMetadata{Uid: pod.UID},
		}
	}
	for _, c := range pod.Containers {
		r.containers[c.ID] = &runtimeapi.Container{
			Id: c.ID, PodSandboxId: c.Sandbox, State: oracleStates[c.State], CreatedAt: at(c.Age),
			Metadata: &runtimeapi.ContainerMetadata{Name: c.Name},
			Labels:   map[string]string{"io.kubernetes.pod.uid": pod.UID, "io.kubernetes.container.name": c.Name},
		}
	}
}

func (r *oracleGCRuntime) ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	list := []*runtimeapi.Container{}
	for _, c := range r.containers {
		list = append(list, c)
	}
	return list, nil
}

func (r *oracleGCRuntime) ListPodSandbox(context.Context, *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	list := []*runtimeapi.PodSandbox{}
	for _, s := range r.sandboxes {
		list = append(list, s)
	}
	return list, nil
}

func (r *oracleGCRuntime) ContainerStatus(_ context.Context, id string, _ bool) (*runtimeapi.ContainerStatusResponse, error) {
	c, found := r.containers[id]
	if !found {
		return nil, fmt.Errorf("no container %s", id)
	}
	status := &runtimeapi.ContainerStatus{Id: id, State: c.State, Labels: c.Labels, Metadata: c.Metadata}
	return &runtimeapi.ContainerStatusResponse{Status: status}, nil
}

func (r *oracleGCRuntime) StopContainer(_ context.Context, id string, _ int64) error {
	r.stopped = append(r.stopped, id)
	return nil
}

func (r *oracleGCRuntime) RemoveContainer(_ context.Context, id string) error {
	delete(r.containers, id)
	r.removed = append(r.removed, id)
	return nil
}

func (r *oracleGCRuntime) StopPodSandbox(context.Context, string) error { return nil }

func (r *oracleGCRuntime) RemovePodSandbox(_ context.Context, id string) error {
	delete(r.sandboxes, id)
	r.removedSandboxes = append(r.removedSandboxes, id)
	return nil
}
