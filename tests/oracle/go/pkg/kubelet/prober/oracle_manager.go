package prober

import (
	"time"

	v1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/kubelet/prober/results"
)

// OracleManager is a manager with the results of a case and a worker for every probe that upstream would have one for. It
// has run since before the first container of any case.
func OracleManager(pod *v1.Pod, readinessResults, startupResults results.Manager) Manager {
	m := &manager{
		workers:          map[probeKey]*worker{},
		readinessManager: readinessResults,
		startupManager:   startupResults,
		start:            time.Unix(0, 0),
	}
	add := func(c *v1.Container) {
		for kind, probe := range map[probeType]*v1.Probe{readiness: c.ReadinessProbe, startup: c.StartupProbe} {
			if probe != nil {
				m.workers[probeKey{pod.UID, c.Name, kind}] = &worker{manualTriggerCh: make(chan struct{}, 1), probeType: kind}
			}
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		if podutil.IsRestartableInitContainer(&pod.Spec.InitContainers[i]) {
			add(&pod.Spec.InitContainers[i])
		}
	}
	return m
}
