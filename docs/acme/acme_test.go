package acme

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The example is a module of its own for this test, as a provider of others is: Go then refuses
// whatever is not for others to import.
func TestTheExampleCompilesAsAnotherModule(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	copied := func(from, to string, change func(string) string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), []byte(change(string(text))), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	same := func(s string) string { return s }
	copied("acme.go", "acme.go", same)
	copied(filepath.Join(root, "go.sum"), "go.sum", same)
	copied(filepath.Join(root, "go.mod"), "go.mod", func(s string) string {
		const gateway = "github.com/caddy-gw/gateway"
		s = strings.Replace(s, "module "+gateway+"\n", "module acme.example/gateway\n", 1)
		return s + "\nrequire " + gateway + " v0.0.0\n\nreplace " + gateway + " => " + root + "\n"
	})
	build := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", ".")
	build.Dir = dir
	// With the flags of the test, for which the dependencies are compiled already.
	build.Env = append(os.Environ(), "GOWORK=off", "GOPROXY=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
