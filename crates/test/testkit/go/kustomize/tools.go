//go:build tools

// Package tools pins the kustomize command that the tests build and run.
package tools

import _ "sigs.k8s.io/kustomize/kustomize/v5"
