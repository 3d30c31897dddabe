//go:build tools

// Package tools pins the etcd server that the tests build and start.
package tools

import _ "go.etcd.io/etcd/server/v3"
