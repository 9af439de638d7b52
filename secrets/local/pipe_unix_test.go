//go:build unix

package local

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/caddy-gw/gateway/secrets"
)

// Opening a pipe that nobody writes to would wait for ever.
func TestAPipeIsNoSecret(t *testing.T) {
	root := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (&File{Root: root}).Fetch(t.Context(), &secrets.Reference{Path: "pipe"}, nil); err == nil {
		t.Error("no error")
	}
}
