//go:build !linux

package gatewaytest

import "testing"

func tempDir(t testing.TB) string { return t.TempDir() }
