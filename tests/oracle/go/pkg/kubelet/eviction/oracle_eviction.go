package eviction

import (
	"context"
	"sort"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
	"k8s.io/kubernetes/pkg/oracle"
	testingclock "k8s.io/utils/clock/testing"
)

func init() {
	oracle.Register("ParseThresholdConfig", oracle.Of(oracleParse))
	for _, name := range []string{"rankMemoryPressure", "rankDiskPressureFunc", "rankPIDPressure"} {
		oracle.Register(name, oracle.Of(oracleRank))
	}
	oracle.Register("evictionMessage", oracle.Of(oracleMessage))
	oracle.Register("synchronize", oracle.Of(oracleSynchronize))
}

type oracleThresholds struct {
	Enforced []string          `json:"enforced"`
	Hard     map[string]string `json:"hard"`
	Soft     map[string]string `json:"soft"`
	Graces   map[string]string `json:"graces"`
	Reclaims map[string]string `json:"reclaims"`
	Capacity int64             `json:"capacity"`
}

func (c oracleThresholds) parse() ([]evictionapi.Threshold, error) {
	return ParseThresholdConfig(c.Enforced, c.Hard, c.Soft, c.Graces, c.Reclaims)
}

type oracleThreshold struct {
	Signal  string `json:"signal"`
	Value   string `json:"value"`
	Grace   int64  `json:"grace"`
	Reclaim string `json:"reclaim"`
}

// The order of the thresholds is that of maps, so they are sorted. Of a refusal only that there is one is compared: which of
// several mistakes is named depends on the order of maps.
func oracleParse(c oracleThresholds) any {
	thresholds, err := c.parse()
	if err != nil {
		return map[string]any{"refused": true}
	}
	capacity := resource.NewQuantity(c.Capacity, resource.BinarySI)
	all := []oracleThreshold{}
	for _, t := range thresholds {
		one := oracleThreshold{Signal: string(t.Signal), Grace: int64(t.GracePeriod)}
		one.Value = evictionapi.GetThresholdQuantity(t.Value, capacity).String()
		if t.MinReclaim != nil {
			one.Reclaim = evictionapi.GetThresholdQuantity(*t.MinReclaim, capacity).String()
		}
		all = append(all, one)
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := all[i], all[j]
		if a.Signal != b.Signal {
			return a.Signal < b.Signal
		}
		if a.Grace != b.Grace {
			return a.Grace < b.Grace
		}
		return a.Value < b.Value || (a.Value == b.Value && a.Reclaim < b.Reclaim)
	})
	return map[string]any{"thresholds": all}
}

type oracleFs struct {
	Bytes  *uint64 `json:"bytes"`
	Inodes *uint64 `json:"inodes"`
}

func (f *oracleFs) stats() *statsapi.FsStats {
	if f == nil {
		return nil
	}
	return &statsapi.FsStats{UsedBytes: f.Bytes, InodesUsed: f.Inodes}
}

type oracleContainer struct {
	Name   string    `json:"name"`
	Memory *uint64   `json:"memory"`
	Layer  *oracleFs `json:"layer"`
	Logs   *oracleFs `json:"logs"`
}

type oracleVolume struct {
	Name   string  `json:"name"`
	Bytes  *uint64 `json:"bytes"`
	Inodes *uint64 `json:"inodes"`
}

type oraclePodStats struct {
	Memory     *uint64           `json:"memory"`
	Processes  *uint64           `json:"processes"`
	Containers []oracleContainer `json:"containers"`
	Volumes    []oracleVolume    `json:"volumes"`
	Ephemeral  *uint64           `json:"ephemeral"`
}

func (s oraclePodStats) stats(uid string) statsapi.PodStats {
	pod := statsapi.PodStats{PodRef: statsapi.PodReference{UID: uid}}
	memory := func(set *uint64) *statsapi.MemoryStats {
		if set == nil {
			return nil
		}
		return &statsapi.MemoryStats{WorkingSetBytes: set}
	}
	pod.Memory = memory(s.Memory)
	if s.Processes != nil {
		pod.ProcessStats = &statsapi.ProcessStats{ProcessCount: s.Processes}
	}
	if s.Ephemeral != nil {
		pod.EphemeralStorage = &statsapi.FsStats{UsedBytes: s.Ephemeral}
	}
	for _, c := range s.Containers {
		pod.Containers = append(pod.Containers, statsapi.ContainerStats{
			Name: c.Name, Memory: memory(c.Memory), Rootfs: c.Layer.stats(), Logs: c.Logs.stats(),
		})
	}
	for _, v := range s.Volumes {
		fs := oracleFs{Bytes: v.Bytes, Inodes: v.Inodes}
		pod.VolumeStats = append(pod.VolumeStats, statsapi.VolumeStats{Name: v.Name, FsStats: *fs.stats()})
	}
	return pod
}

type oracleWeighed struct {
	Pod   *v1.Pod         `json:"pod"`
	Stats *oraclePodStats `json:"stats"`
}

func oracleUsage(list []oracleWeighed) ([]*v1.Pod, []statsapi.PodStats) {
	pods, stats := []*v1.Pod{}, []statsapi.PodStats{}
	for _, one := range list {
		pods = append(pods, one.Pod)
		if one.Stats != nil {
			stats = append(stats, one.Stats.stats(string(one.Pod.UID)))
		}
	}
	return pods, stats
}

func oracleLayout(layout string) (images, split bool) {
	return layout != "one", layout == "splitLayers"
}

type oracleRankCase struct {
	Signal string          `json:"signal"`
	Layout string          `json:"layout"`
	Pods   []oracleWeighed `json:"pods"`
	Gates  oracle.Gates    `json:"gates"`
}

// The order of pods that are equal is any, so those are sorted by UID: each pod is moved before the neighbours that the same
// ranking puts neither before nor after it.
func oracleRank(c oracleRankCase) any {
	c.Gates.Set()
	images, split := oracleLayout(c.Layout)
	rank := buildSignalToRankFunc(images, split)[evictionapi.Signal(c.Signal)]
	pods, list := oracleUsage(c.Pods)
	stats := cachedStatsFunc(list)
	rank(pods, stats)
	equal := func(a, b *v1.Pod) bool {
		one, two := []*v1.Pod{a, b}, []*v1.Pod{b, a}
		rank(one, stats)
		rank(two, stats)
		return one[0] != two[0]
	}
	for i := 1; i < len(pods); i++ {
		for j := i; j > 0 && pods[j].UID < pods[j-1].UID && equal(pods[j], pods[j-1]); j-- {
			pods[j], pods[j-1] = pods[j-1], pods[j]
		}
	}
	names := []string{}
	for _, pod := range pods {
		names = append(names, string(pod.UID))
	}
	return names
}

type oracleMessageCase struct {
	Signal    string        `json:"signal"`
	Value     string        `json:"value"`
	Available int64         `json:"available"`
	Capacity  int64         `json:"capacity"`
	Weighed   oracleWeighed `json:"weighed"`
	Gates     oracle.Gates  `json:"gates"`
}

func oracleMessage(c oracleMessageCase) any {
	c.Gates.Set()
	signal := evictionapi.Signal(c.Signal)
	thresholds, err := ParseThresholdConfig(nil, map[string]string{c.Signal: c.Value}, nil, nil, nil)
	if err != nil {
		panic(err)
	}
	pods, list := oracleUsage([]oracleWeighed{c.Weighed})
	seen := signalObservations{signal: oracleObservation(signal, c.Available, c.Capacity, time.Unix(1, 0))}
	message, annotations := evictionMessage(signalToResource[signal], pods[0], cachedStatsFunc(list), thresholds, seen)
	return map[string]any{"message": message, "annotations": annotations}
}

func oracleObservation(signal evictionapi.Signal, available, capacity int64, at time.Time) signalObservation {
	format := resource.BinarySI
	if r := signalToResource[signal]; r == resourceInodes || r == resourcePids {
		format = resource.DecimalSI
	}
	return signalObservation{
		available: resource.NewQuantity(available, format), capacity: resource.NewQuantity(capacity, format),
		time: metav1.NewTime(at),
	}
}

type oracleSignal struct {
	Available uint64 `json:"available"`
	Capacity  uint64 `json:"capacity"`
}

type oracleRound struct {
	// Seconds since the round before.
	After   int64                   `json:"after"`
	Signals map[string]oracleSignal `json:"signals"`
	Pods    []oracleWeighed         `json:"pods"`
}

type oracleSynchronizeCase struct {
	Thresholds oracleThresholds `json:"thresholds"`
	Layout     string           `json:"layout"`
	Transition int64            `json:"transition"`
	MaxGrace   int64            `json:"maxGrace"`
	Isolation  bool             `json:"isolation"`
	Rounds     []oracleRound    `json:"rounds"`
	Gates      oracle.Gates     `json:"gates"`
}

type oracleEnd struct {
	Pod       string `json:"pod"`
	Grace     int64  `json:"grace"`
	Phase     string `json:"phase"`
	Reason    string `json:"reason"`
	Message   string `json:"message"`
	Disrupted string `json:"disrupted"`
}

type oracleRoundAnswer struct {
	Conditions []string          `json:"conditions"`
	Reclaimed  []string          `json:"reclaimed"`
	NodeEvents []string          `json:"nodeEvents"`
	Ended      []oracleEnd       `json:"ended"`
	Events     []oracleAnnotated `json:"events"`
}

type oracleAnnotated struct {
	Pod         string            `json:"pod"`
	Reason      string            `json:"reason"`
	Message     string            `json:"message"`
	Annotations map[string]string `json:"annotations"`
}

// oracleWorld is all that the manager talks to.
type oracleWorld struct {
	layout  string
	summary *statsapi.Summary
	answer  *oracleRoundAnswer
}

func (w *oracleWorld) HasDedicatedImageFs(context.Context) (bool, error) {
	images, _ := oracleLayout(w.layout)
	return images, nil
}

func (w *oracleWorld) HasDedicatedContainerFs(context.Context) (bool, error) {
	_, split := oracleLayout(w.layout)
	return split, nil
}

func (w *oracleWorld) Get(context.Context, bool) (*statsapi.Summary, error) { return w.summary, nil }
func (w *oracleWorld) GetCPUAndMemoryStats(context.Context) (*statsapi.Summary, error) {
	return w.summary, nil
}

func (w *oracleWorld) DeleteUnusedImages(context.Context) error {
	w.answer.Reclaimed = append(w.answer.Reclaimed, "images")
	return nil
}

func (w *oracleWorld) DeleteAllUnusedContainers(context.Context) error {
	w.answer.Reclaimed = append(w.answer.Reclaimed, "containers")
	return nil
}

func (w *oracleWorld) kill(pod *v1.Pod, _ bool, grace *int64, status func(*v1.PodStatus)) error {
	end := oracleEnd{Pod: string(pod.UID), Grace: *grace}
	var now v1.PodStatus
	status(&now)
	end.Phase, end.Reason, end.Message = string(now.Phase), now.Reason, now.Message
	for _, c := range now.Conditions {
		end.Disrupted = string(c.Type) + " " + string(c.Status) + " " + c.Reason + " " + c.Message
	}
	w.answer.Ended = append(w.answer.Ended, end)
	return nil
}

func (w *oracleWorld) Event(runtime.Object, string, string, string) {}
func (w *oracleWorld) Eventf(_ runtime.Object, kind, reason, format string, args ...interface{}) {
	name, _ := args[0].(v1.ResourceName)
	w.answer.NodeEvents = append(w.answer.NodeEvents, kind+" "+reason+" "+format+" "+string(name))
}

func (w *oracleWorld) AnnotatedEventf(object runtime.Object, annotations map[string]string, kind, reason, _ string, args ...interface{}) {
	pod, _ := object.(*v1.Pod)
	message, _ := args[0].(string)
	if annotations == nil {
		annotations = map[string]string{}
	}
	w.answer.Events = append(w.answer.Events, oracleAnnotated{string(pod.UID), kind + " " + reason, message, annotations})
}

func oracleSummary(round oracleRound, at time.Time) *statsapi.Summary {
	now := metav1.NewTime(at)
	_, list := oracleUsage(round.Pods)
	summary := &statsapi.Summary{Pods: list}
	memory := func(signal evictionapi.Signal) *statsapi.MemoryStats {
		seen, found := round.Signals[string(signal)]
		if !found {
			return nil
		}
		used := seen.Capacity - seen.Available
		return &statsapi.MemoryStats{Time: now, AvailableBytes: &seen.Available, WorkingSetBytes: &used}
	}
	fs := func(space, inodes evictionapi.Signal) *statsapi.FsStats {
		stats := &statsapi.FsStats{Time: now}
		if seen, found := round.Signals[string(space)]; found {
			stats.AvailableBytes, stats.CapacityBytes = &seen.Available, &seen.Capacity
		}
		if seen, found := round.Signals[string(inodes)]; found {
			stats.InodesFree, stats.Inodes = &seen.Available, &seen.Capacity
		}
		return stats
	}
	summary.Node.Memory = memory(evictionapi.SignalMemoryAvailable)
	pods := statsapi.ContainerStats{Name: statsapi.SystemContainerPods, Memory: memory(evictionapi.SignalAllocatableMemoryAvailable)}
	summary.Node.SystemContainers = []statsapi.ContainerStats{pods}
	summary.Node.Fs = fs(evictionapi.SignalNodeFsAvailable, evictionapi.SignalNodeFsInodesFree)
	summary.Node.Runtime = &statsapi.RuntimeStats{
		ImageFs:     fs(evictionapi.SignalImageFsAvailable, evictionapi.SignalImageFsInodesFree),
		ContainerFs: fs(evictionapi.SignalContainerFsAvailable, evictionapi.SignalContainerFsInodesFree),
	}
	if seen, found := round.Signals[string(evictionapi.SignalPIDAvailable)]; found {
		most, running := int64(seen.Capacity), int64(seen.Capacity-seen.Available)
		summary.Node.Rlimit = &statsapi.RlimitStats{Time: now, MaxPID: &most, NumOfRunningProcesses: &running}
	}
	return summary
}

// The manager itself, round after round, in a world of our own.
func oracleSynchronize(c oracleSynchronizeCase) any {
	c.Gates.Set()
	thresholds, err := c.Thresholds.parse()
	if err != nil {
		panic(err)
	}
	world := &oracleWorld{layout: c.Layout}
	now := testingclock.NewFakeClock(time.Unix(1_700_000_000, 0))
	config := Config{
		PressureTransitionPeriod: time.Duration(c.Transition) * time.Second,
		MaxPodGracePeriodSeconds: c.MaxGrace,
		Thresholds:               thresholds,
	}
	manager, _ := NewManager(world, config, world.kill, world, world, world, &v1.ObjectReference{}, now, c.Isolation)
	m := manager.(*managerImpl)
	// Upstream's first round leaves out the thresholds that it derives for writable layers: a round before any observation
	// takes that away.
	world.answer = &oracleRoundAnswer{}
	world.summary = oracleSummary(oracleRound{}, now.Now())
	if _, err := m.synchronize(context.Background(), world, func() []*v1.Pod { return nil }); err != nil {
		panic(err)
	}
	answers := []*oracleRoundAnswer{}
	for _, round := range c.Rounds {
		now.Step(time.Duration(round.After) * time.Second)
		world.answer = &oracleRoundAnswer{
			Conditions: []string{}, Reclaimed: []string{}, NodeEvents: []string{}, Ended: []oracleEnd{}, Events: []oracleAnnotated{},
		}
		world.summary = oracleSummary(round, now.Now())
		pods, _ := oracleUsage(round.Pods)
		if _, err := m.synchronize(context.Background(), world, func() []*v1.Pod { return pods }); err != nil {
			panic(err)
		}
		for _, condition := range m.nodeConditions {
			world.answer.Conditions = append(world.answer.Conditions, string(condition))
		}
		sort.Strings(world.answer.Conditions)
		answers = append(answers, world.answer)
	}
	return answers
}
