//go:build tools

package tools

import (
	_ "sigs.k8s.io/metrics-server/cmd/metrics-server"
)
