package preemption

import (
	"context"
	"sort"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/oracle"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

func init() { oracle.Register("predicateAdmitHandler", oracle.Of(oracleAdmit)) }

type oracleAdmitCase struct {
	Node   *v1.Node     `json:"node"`
	Pod    *v1.Pod      `json:"pod"`
	Others []*v1.Pod    `json:"others"`
	Gates  oracle.Gates `json:"gates"`
}

// The check of the predicates, with upstream's own preemption behind it. The pods that make room are answered by name.
func oracleAdmit(c oracleAdmitCase) any {
	c.Gates.Set()
	victims := []string{}
	kill := func(pod *v1.Pod, _ bool, _ *int64, _ func(*v1.PodStatus)) error {
		victims = append(victims, pod.Name)
		return nil
	}
	preempt := NewCriticalPodAdmissionHandler(func() []*v1.Pod { return c.Others }, kill, &record.FakeRecorder{})
	node := func(context.Context, bool) (*v1.Node, error) { return c.Node, nil }
	plugins := func(*schedulerframework.NodeInfo, *lifecycle.PodAdmitAttributes) error { return nil }
	handler := lifecycle.NewPredicateAdmitHandler(node, preempt, plugins)
	result := handler.Admit(&lifecycle.PodAdmitAttributes{Pod: c.Pod, OtherPods: c.Others})
	sort.Strings(victims)
	return map[string]any{"admit": result.Admit, "reason": result.Reason, "message": result.Message, "victims": victims}
}
