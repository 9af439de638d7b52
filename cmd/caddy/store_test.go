package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestAStoreIsBackedUpAndSaved follows the steps of docs/operations.md literally, from
// a backup to salvaging a damaged store.
func TestAStoreIsBackedUpAndSaved(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the steps are a shell's")
	}
	var backup, salvage string
	for _, b := range blocks(t) {
		switch {
		case b.info != "sh":
		case strings.Contains(b.text, "caddy gw verify"):
			backup = b.text
		case strings.Contains(b.text, "caddy gw salvage"):
			salvage = b.text
		}
	}
	if backup == "" || salvage == "" {
		t.Fatalf("the documents have %q and %q", backup, salvage)
	}
	p := newProcess(t)
	data, kept, bin := filepath.Join(p.home, "caddy"), t.TempDir(), t.TempDir()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, filepath.Join(bin, "caddy")); err != nil {
		t.Fatal(err)
	}
	shell := func(script string) (string, error) {
		cmd := exec.Command("sh", "-euc", strings.NewReplacer("/var/lib/caddy", data, "/backup", kept).Replace(script))
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+p.home, "XDG_DATA_HOME="+p.home, "XDG_CONFIG_HOME="+p.home)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}

	p.start()
	key := p.key()
	status, made := p.do("POST", "/v1/api-keys/workspace/service", key, `{"name":"kept","scopes":["completions.write"]}`)
	if status/100 != 2 {
		t.Fatalf("%d %s", status, made)
	}
	p.stop()
	if out, err := shell(backup); err != nil || !strings.Contains(out, "is sound") {
		t.Fatalf("%v\n%s", err, out)
	}

	// Nothing is lost from an undamaged store.
	if out, err := shell(salvage); err != nil || strings.Contains(out, "Lost: ") {
		t.Fatalf("%v\n%s", err, out)
	}
	p.start()
	if status, list := p.do("GET", "/v1/api-keys", key, ""); status != 200 || !strings.Contains(list, `"kept"`) {
		t.Errorf("after salvage: %d %s", status, list)
	}
	p.stop()
	if err := os.RemoveAll(filepath.Join(data, "gw.damaged")); err != nil {
		t.Fatal(err)
	}

	tables, err := filepath.Glob(filepath.Join(data, "gw", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("%v %v", tables, err)
	}
	table, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	table[10] ^= 1
	if err := os.WriteFile(tables[0], table, 0o600); err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(tables[0])
	if out, err := shell("caddy gw verify --dir /var/lib/caddy/gw"); err == nil || !strings.Contains(out, name) {
		t.Errorf("verify of a damaged store: %v\n%s", err, out)
	}
	if out, err := shell("caddy gw verify --json --dir /var/lib/caddy/gw"); err == nil || !strings.Contains(out, `"sound":false`) || !strings.Contains(out, name) {
		t.Errorf("verify --json of a damaged store: %v\n%s", err, out)
	}
	started := make(chan string, 1)
	run := p.command("run", "--config", p.file)
	go func() {
		out, _ := run.CombinedOutput()
		started <- string(out)
	}()
	select {
	case out := <-started:
		if !strings.Contains(out, name) || strings.Contains(out, "goroutine ") {
			t.Errorf("a start with a damaged store said\n%s", out)
		}
	case <-time.After(30 * time.Second):
		_ = run.Process.Kill()
		t.Fatal("it starts with a damaged store")
	}

	if out, err := shell(salvage); err != nil || !strings.Contains(out, "Lost: ") || !strings.Contains(out, "rows are in the new store") {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := shell("caddy gw verify --json --dir /var/lib/caddy/gw"); err != nil || !strings.Contains(out, `"faults":[]`) || !strings.Contains(out, `"sound":true`) {
		t.Errorf("verify of the saved store: %v\n%s", err, out)
	}
	if err := os.RemoveAll(filepath.Join(data, "gw")); err != nil {
		t.Fatal(err)
	}
	if out, err := shell("cp -a /backup/gw /backup/gw.encryption-key /var/lib/caddy/"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p.start()
	if status, list := p.do("GET", "/v1/api-keys", key, ""); status != 200 || !strings.Contains(list, `"kept"`) {
		t.Errorf("after the restore: %d %s", status, list)
	}
}
