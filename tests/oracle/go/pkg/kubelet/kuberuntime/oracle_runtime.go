package kuberuntime

import (
	"context"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// oracleRuntime is a runtime that writes down what is removed. A call that no decision should make has no implementation,
// and shows as a panic in the answer.
type oracleRuntime struct {
	internalapi.RuntimeService
	removed map[string]bool
}

func (r *oracleRuntime) RemoveContainer(_ context.Context, id string) error {
	r.removed[id] = true
	return nil
}

func (r *oracleRuntime) ContainerStatus(_ context.Context, id string, _ bool) (*runtimeapi.ContainerStatusResponse, error) {
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{Id: id}}, nil
}
