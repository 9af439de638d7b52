package command_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A terminal runs commands with a gateway, which runs or does not.
type terminal struct {
	t     *testing.T
	flags []string
}

// run returns what a command prints.
func (c *terminal) run(args ...string) (out, diagnostics string, err error) {
	c.t.Helper()
	root := &cobra.Command{Use: "gw", SilenceErrors: true, SilenceUsage: true}
	caddycmd.Commands()["gw"].CobraFunc(root)
	if args[0] != "restore" {
		args = append(args, c.flags...)
	}
	root.SetArgs(args)
	var stdout, stderr bytes.Buffer
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	err = root.ExecuteContext(c.t.Context())
	return strings.TrimSpace(stdout.String()), stderr.String(), err
}

func (c *terminal) ok(args ...string) string {
	c.t.Helper()
	out, diagnostics, err := c.run(args...)
	if err != nil {
		c.t.Fatalf("%q: %v\n%s%s", args, err, out, diagnostics)
	}
	return out
}

func (c *terminal) fails(message string, args ...string) {
	c.t.Helper()
	if out, _, err := c.run(args...); err == nil || !strings.Contains(err.Error(), message) {
		c.t.Errorf("%q: %v\n%s\nwant %s", args, err, out, message)
	}
}

// gateways runs a test with a server that runs, and with the store of one that does not.
func gateways(t *testing.T, test func(t *testing.T, g *gatewaytest.Gateway, c *terminal)) {
	t.Run("running", func(t *testing.T) {
		g := gatewaytest.New(t, "")
		g.AdminAt = gatewaytest.FreeAddress(t)
		g.Load()
		test(t, g, &terminal{t, []string{"--address", g.AdminAt}})
	})
	t.Run("stopped", func(t *testing.T) {
		g := gatewaytest.Start(t, "")
		g.Stop()
		file := filepath.Join(t.TempDir(), "Caddyfile")
		if err := os.WriteFile(file, []byte(g.Caddyfile()), 0o600); err != nil {
			t.Fatal(err)
		}
		test(t, g, &terminal{t, []string{"--config", file}})
	})
}

func TestKeysAndWorkspacesAreManaged(t *testing.T) {
	gateways(t, func(t *testing.T, g *gatewaytest.Gateway, c *terminal) {
		id := c.ok("workspace", "create", "Team", "--slug", "team")
		if list := c.ok("workspace", "list"); !strings.Contains(list, id) || !strings.Contains(list, "team") || !strings.HasPrefix(list, "ID ") {
			t.Errorf("%s", list)
		}
		if w := gjson.Parse(c.ok("workspace", "get", "team")); w.Get("id").Str != id {
			t.Errorf("%s", w.Raw)
		}
		key := c.ok("key", "create", "checkout", "--workspace", "team", "--scope", "completions.write,logs.view", "--expires", "720h", "--rotate", "monthly")
		if !strings.HasPrefix(key, "gw-") || strings.ContainsAny(key, " \n") {
			t.Errorf("the key is %q", key)
		}
		keys := gjson.Parse(c.ok("key", "list", "--workspace", "team", "--json"))
		first := keys.Get("0")
		if len(keys.Array()) != 1 || first.Get("name").Str != "checkout" || first.Get("workspace_id").Str != id || first.Get("rotation_policy.rotation_period").Str != "monthly" || first.Get("expires_at").Str == "" {
			t.Errorf("%s", keys.Raw)
		}
		next := gjson.Parse(c.ok("key", "rotate", first.Get("id").Str, "--transition", "1h", "--json"))
		if next.Get("key").Str == "" || next.Get("key").Str == key {
			t.Errorf("%s", next.Raw)
		}
		c.fails("(409)", "key", "rotate", first.Get("id").Str)
		c.ok("key", "revoke", first.Get("id").Str)
		if list := c.ok("key", "list"); strings.Contains(list, "checkout") {
			t.Errorf("%s", list)
		}
		c.fails("scopes[0]", "key", "create", "x", "--scope", "nope")
		c.fails("--expires", "key", "create", "x", "--scope", "logs.view", "--expires", "soon")
		c.fails("--scope: missing; call it as: gw key create <name> --scope <scopes...>", "key", "create", "x")
		c.fails("was not found", "workspace", "get", "nope")
		c.fails("name", "workspace", "delete", "team", "--name", "Other")
		c.ok("workspace", "delete", "team", "--name", "Team")

		// All of it is in the audit trail, which is as it was written.
		if out := c.ok("audit", "verify"); !strings.Contains(out, " rows, up to number ") {
			t.Errorf("%s", out)
		}
		rows := gjson.Parse(c.ok("audit", "verify", "--json"))
		if rows.Get("rows").Int() < 5 || len(rows.Get("faults").Array()) != 0 {
			t.Errorf("%s", rows.Raw)
		}
	})
}

func TestAMissingEndIsFoundByTheLog(t *testing.T) {
	gateways(t, func(t *testing.T, g *gatewaytest.Gateway, c *terminal) {
		log := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(log, []byte(`{"msg":"audit trail checkpoint","audit_row":1000000,"audit_seal":"ab"}`+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c.fails("not as it was written", "audit", "verify", "--log", log)
		out, _, _ := c.run("audit", "verify", "--log", log)
		if !strings.Contains(out, "the log has row 1000000") {
			t.Errorf("%s", out)
		}
		c.fails("no such file", "audit", "verify", "--log", log+"x")
	})
}

func TestABackupIsRestored(t *testing.T) {
	gateways(t, func(t *testing.T, g *gatewaytest.Gateway, c *terminal) {
		id := c.ok("workspace", "create", "Team")
		dir := t.TempDir()
		file, to := filepath.Join(dir, "backup"), filepath.Join(dir, "gw")
		if out := c.ok("backup", file); !strings.Contains(out, "which was verified") {
			t.Errorf("%s", out)
		}
		c.fails("file exists", "backup", file)
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		c.ok("restore", file, "--to", to)
		c.fails("is not empty", "restore", file, "--to", to)
		config := filepath.Join(dir, "Caddyfile")
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		restored := &terminal{t, []string{"--config", config}}
		other := strings.Replace(g.Caddyfile(), g.Dir+"\n", to+"\n", 1)
		if write(other); strings.Contains(other, "admin off\n") == (c.flags[0] == "--address") {
			t.Fatalf("%s", other)
		}
		if c.flags[0] == "--address" {
			restored.fails("has another store than the configuration", "audit", "verify")
			write(g.Caddyfile())
			restored.ok("audit", "verify")
		}
		write(strings.ReplaceAll(other, "admin "+g.AdminAt+"\n", "admin off\n"))
		restored.fails(to+".encryption-key does not", "audit", "verify")
		for _, name := range []string{".encryption-key", ".audit-key"} {
			raw, err := os.ReadFile(g.Dir + name)
			if err == nil {
				err = os.WriteFile(to+name, raw, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if name == ".encryption-key" {
				restored.fails("there is no "+to+".audit-key", "audit", "verify")
			}
		}
		if list := restored.ok("workspace", "list"); !strings.Contains(list, id) {
			t.Errorf("%s", list)
		}
		if out := restored.ok("audit", "verify"); !strings.Contains(out, " rows") {
			t.Errorf("%s", out)
		}
		// A file that is not whole is refused, and nothing is left.
		raw, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file+".cut", raw[:len(raw)-1], 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		c.fails("not a whole backup", "restore", file+".cut", "--to", to+"2")
		if _, err := os.Stat(to + "2"); err == nil {
			t.Error("a part of the backup was restored")
		}
	})
}

// Rows that were sealed with a key are not followed by those of another that Caddy makes because the key is not where it looks for it.
func TestAStoreGetsNoOtherAuditKeyUnasked(t *testing.T) {
	g := gatewaytest.Start(t, "")
	g.Admin("POST", "/v1/admin/workspaces", json.RawMessage(`{"name":"Team"}`))
	load := func() error {
		config, err := gatewaytest.Adapt(g.Caddyfile())
		if err != nil {
			t.Fatal(err)
		}
		return caddy.Load(config, true)
	}
	path := g.Dir + ".audit-key"
	raw := read(t, path)
	for _, running := range []bool{true, false} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if !running {
			g.Stop()
		}
		if err := load(); err == nil || !strings.Contains(err.Error(), "there is no "+path+": put the key") {
			t.Errorf("running %v: %v", running, err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("running %v: another key was made", running)
		}
		if err := os.WriteFile(path, []byte(raw), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g.Load()
	if a := g.Admin("GET", "/v1/audit-logs?resource_type=audit_logs", nil); a.Get("total").Int() != 0 {
		t.Errorf("the key that was there before is another one: %s", a.Body)
	}
	g.Stop()
	if err := os.WriteFile(path, []byte(strings.Repeat("another ", 8)), 0o600); err != nil { // on purpose
		t.Fatal(err)
	}
	g.Load()
	g.Admin("POST", "/v1/admin/workspaces", json.RawMessage(`{"name":"Other"}`))
	if a := g.Admin("GET", "/v1/audit-logs?resource_type=audit_logs", nil); a.Get("total").Int() != 1 {
		t.Errorf("the trail does not tell of the other key: %s", a.Body)
	}
}

func TestAServerThatIsNotThereIsSaid(t *testing.T) {
	c := &terminal{t, []string{"--address", gatewaytest.FreeAddress(t)}}
	c.fails("no process listens", "key", "list")
	file := filepath.Join(t.TempDir(), "Caddyfile")
	if err := os.WriteFile(file, []byte("{\nadmin off\ngw {\nstorage badger "+filepath.Join(t.TempDir(), "none")+"\n}\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.flags = []string{"--config", file}
	c.fails("there is no store in", "key", "list")
	if err := os.WriteFile(file, []byte(":0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.fails("no gw app", "key", "list")
	admin := gatewaytest.FreeAddress(t)
	if err := caddy.Load([]byte(`{"admin":{"listen":"`+admin+`"}}`), true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = caddy.Stop() })
	c.flags = []string{"--address", admin}
	c.fails("runs no gateway", "key", "list")
}
