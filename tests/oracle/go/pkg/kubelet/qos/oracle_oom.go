package qos

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/oracle"
)

func init() { oracle.Register("GetContainerOOMScoreAdjust", oracle.Of(oracleOOM)) }

type oracleOOMCase struct {
	Pod    *v1.Pod `json:"pod"`
	Memory int64   `json:"memory"`
}

// The score of every container, by name.
func oracleOOM(c oracleOOMCase) any {
	scores := map[string]int{}
	for _, list := range [][]v1.Container{c.Pod.Spec.InitContainers, c.Pod.Spec.Containers} {
		for i := range list {
			scores[list[i].Name] = GetContainerOOMScoreAdjust(c.Pod, &list[i], c.Memory)
		}
	}
	return scores
}
