// Package tools names etcd's program, so that go.mod and go.sum hold what it is built from.
//
//go:build tools

package tools

import _ "go.etcd.io/etcd/server/v3"
