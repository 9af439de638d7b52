package badger

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-gw/gateway/storage"
)

func TestUnmarshalCaddyfile(t *testing.T) {
	tests := []struct{ input, dir, err string }{
		{"badger", "", ""},
		{"badger /var/lib/gw", "/var/lib/gw", ""},
		{"badger {env.GW_DIR}", "{env.GW_DIR}", ""},
		{"badger {\n}", "", ""},
		{`badger ""`, "", "is empty"},
		{"badger /a /b", "", "wrong argument count"},
		{"badger {\n\tdir /a\n}", "", `unrecognized subdirective "dir"`},
	}
	for _, test := range tests {
		var b Badger
		err := b.UnmarshalCaddyfile(caddyfile.NewTestDispenser(test.input))
		switch {
		case test.err == "" && (err != nil || b.Dir != test.dir):
			t.Errorf("%q: dir %q, %v", test.input, b.Dir, err)
		case test.err != "" && (err == nil || !strings.Contains(strings.ToLower(err.Error()), test.err)):
			t.Errorf("%q: %v, want %q", test.input, err, test.err)
		}
	}
}

func TestProvision(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_DATA_HOME", home)
	t.Setenv("GW_DIR", filepath.Join(home, "from the environment"))
	if err := os.Mkdir(filepath.Join(home, "real"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(home, "link")); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		"":                                  filepath.Join(home, "caddy", "gw"),
		"{env.GW_DIR}":                      filepath.Join(home, "from the environment"),
		filepath.Join(home, "link/x/../gw"): filepath.Join(home, "real", "gw"),
	} {
		b := Badger{Dir: dir}
		if err := b.Provision(caddy.Context{}); err != nil || b.CanonicalDir() != want {
			t.Errorf("dir %q: %q, %v; want %q", dir, b.CanonicalDir(), err, want)
		}
		if _, err := os.Stat(want); err == nil {
			t.Errorf("dir %q: Provision created it", dir)
		}
	}
	b := Badger{Dir: "{env.GW_NOT_SET}"}
	if err := b.Provision(caddy.Context{}); err == nil {
		t.Error("Provision took a placeholder without a value")
	}
}

func TestModuleOpens(t *testing.T) {
	module, err := caddy.GetModule("gw.storage.badger")
	if err != nil {
		t.Fatal(err)
	}
	b := module.New().(*Badger)
	b.Dir = filepath.Join(t.TempDir(), "a", "b")
	if err := b.Provision(caddy.Context{}); err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.DebugLevel)
	s, err := b.Open(zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), func(tx storage.Tx) error { return tx.Set([]byte("k"), nil) }); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(b.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info.Mode(), err)
	}
	if logs.Len() == 0 {
		t.Error("the library's messages do not arrive")
	}
	for _, entry := range logs.All() {
		if entry.Level > zap.DebugLevel || strings.HasSuffix(entry.Message, "\n") {
			t.Errorf("logged %s %q", entry.Level, entry.Message)
		}
	}
}
