package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-gw/gateway/secrets"
)

func TestTheEnvironmentGivesAwayWhatIsListed(t *testing.T) {
	t.Setenv("TEAM_KEY", "sk-1")
	t.Setenv("ONE", "sk-2")
	t.Setenv("OTHER", "not to be read")
	e := &Environment{Names: []string{"TEAM_*", "ONE"}}
	if err := e.Provision(caddy.Context{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"TEAM_KEY": "sk-1", "ONE": "sk-2", "OTHER": "", "ONE2": "", "TEAM_NONE": "", "": ""} {
		r := &secrets.Reference{Path: name}
		got, err := e.Fetch(t.Context(), r, nil)
		if got.Reveal() != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v", name, got.Reveal(), err)
		}
		if listed := want != "" || name == "TEAM_NONE"; (e.Check(r, nil) == nil) != listed {
			t.Errorf("%s: %v", name, e.Check(r, nil))
		}
	}
	for _, names := range [][]string{nil, {"*"}, {"A*B"}, {""}} {
		if (&Environment{Names: names}).Provision(caddy.Context{}) == nil {
			t.Errorf("%q is accepted", names)
		}
	}
}

func TestFilesAreReadBelowTheirRoot(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "secrets")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(root, "..data"), 0o700))
	must(os.WriteFile(filepath.Join(dir, "outside"), []byte("not to be read"), 0o600))
	must(os.WriteFile(filepath.Join(root, "..data", "key"), []byte("sk-1\r\n"), 0o600))
	must(os.WriteFile(filepath.Join(root, "large"), make([]byte, secrets.MaxValue+1), 0o600))
	must(os.Symlink(filepath.Join("..data", "key"), filepath.Join(root, "key"))) // as Kubernetes mounts them
	must(os.Symlink(filepath.Join("..", "outside"), filepath.Join(root, "link")))
	f := &File{Root: root}
	must(f.Provision(caddy.Context{}))
	for path, want := range map[string]string{"key": "sk-1", "..data/key": "sk-1", "link": "", "../outside": "", "large": "", "none": "", "..data": ""} {
		got, err := f.Fetch(t.Context(), &secrets.Reference{Path: path}, nil)
		if got.Reveal() != want || (err == nil) != (want != "") || err != nil && strings.Contains(err.Error(), dir) {
			t.Errorf("%s: got %q, %v", path, got.Reveal(), err)
		}
	}
	must(os.WriteFile(filepath.Join(root, "..data", "key"), []byte("sk-2"), 0o600))
	if got, err := f.Fetch(t.Context(), &secrets.Reference{Path: "key"}, nil); err != nil || got.Reveal() != "sk-2" {
		t.Errorf("rotated: got %q, %v", got.Reveal(), err)
	}
	for path, ok := range map[string]bool{"key": true, "a/b": true, "../x": false, "/etc/passwd": false, "a//b": false, ".": false, "a\x00b": false} {
		if err := f.Check(&secrets.Reference{Path: path}, nil); (err == nil) != ok {
			t.Errorf("%q: %v", path, err)
		}
	}
	if (&File{Root: "relative"}).Provision(caddy.Context{}) == nil {
		t.Error("a relative root is accepted")
	}
}

func TestTheCaddyfilesOfLocalSecrets(t *testing.T) {
	e, f := new(Environment), new(File)
	if err := e.UnmarshalCaddyfile(caddyfile.NewTestDispenser("environment {\nnames A B_*\n}")); err != nil || len(e.Names) != 2 {
		t.Errorf("%+v, %v", e, err)
	}
	if err := f.UnmarshalCaddyfile(caddyfile.NewTestDispenser("file {\nroot /run/secrets\n}")); err != nil || f.Root != "/run/secrets" {
		t.Errorf("%+v, %v", f, err)
	}
	for _, text := range []string{"x {\nnames\n}", "x {\nroot\n}", "x {\nnope\n}"} {
		if new(Environment).UnmarshalCaddyfile(caddyfile.NewTestDispenser(text)) == nil || new(File).UnmarshalCaddyfile(caddyfile.NewTestDispenser(text)) == nil {
			t.Errorf("%s: no error", text)
		}
	}
}
