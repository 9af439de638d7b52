package gatewaytest

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// tempDir returns a directory for one test. It is in memory if that has room, since stores
// wait for the disk at each write otherwise.
func tempDir(t testing.TB) string {
	t.Helper()
	const memory, room = "/dev/shm", 4 << 30
	var fs unix.Statfs_t
	if err := unix.Statfs(memory, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < room {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "gateway-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
