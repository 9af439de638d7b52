package app

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// reusing listens as Caddy does.
func reusing(t *testing.T, address string) (net.Listener, uint16) {
	t.Helper()
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if failed := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		}); failed != nil {
			return failed
		}
		return err
	}}
	l, err := config.Listen(context.Background(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, uint16(l.Addr().(*net.TCPAddr).Port)
}

func TestAPortThatAnotherProcessListensOnIsSeen(t *testing.T) {
	if address := os.Getenv("GW_TEST_LISTEN"); address != "" { // the other process
		reusing(t, address)
		_, _ = os.Stdout.WriteString("listening\n")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	l, port := reusing(t, "127.0.0.1:0")
	if sharedWith(port) {
		t.Error("a port of this process alone is shared")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "GW_TEST_LISTEN=127.0.0.1:"+strconv.Itoa(int(port)))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("listening\n"))); err != nil {
		t.Fatal(err)
	}
	if !sharedWith(port) {
		t.Error("a port of two processes is not")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if !sharedWith(port) {
		t.Error("a port of another process is not")
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if sharedWith(port) {
		t.Error("a port of nobody is shared")
	}
}
