//go:build tools

// Package tools pins the Gitea that the tests build and start.
package tools

import _ "code.gitea.io/gitea"
