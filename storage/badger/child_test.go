package badger

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Some tests need a process that is killed or crashes. They run this test binary again
// as one of the children.

const childVariable = "GW_BADGER_TEST_CHILD"

// children run in the directory and exit. They print messages for the parent, and an
// error fails the parent's test.
var children = map[string]func(dir string) error{
	"write until killed":  writeUntilKilled,
	"hold the lock":       holdLock,
	"open damaged stores": openDamagedStores,
}

func TestMain(m *testing.M) {
	name, dir, ok := strings.Cut(os.Getenv(childVariable), ":")
	if !ok {
		os.Exit(m.Run())
	}
	if err := children[name](dir); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

// A child is a process started by a test.
type child struct {
	*exec.Cmd
	out *bufio.Scanner // its standard output
	in  io.WriteCloser
}

func startChild(t *testing.T, name, dir string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{Cmd: exec.Command(exe)}
	c.Env = append(os.Environ(), childVariable+"="+name+":"+dir)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	if c.in, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return c
}

// expect reads lines until it finds the expected one.
func (c *child) expect(t *testing.T, line string) {
	t.Helper()
	for c.out.Scan() {
		if c.out.Text() == line {
			return
		}
		t.Log("child:", c.out.Text())
	}
	t.Fatalf("the child ended without saying %q: %v", line, c.Wait())
}
