//go:build tools

// Package tools pins the Kubernetes servers that the tests build and start.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
)
