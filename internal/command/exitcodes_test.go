package command_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/command"
	"github.com/caddy-gw/gateway/internal/gatewaytest"
	"github.com/caddy-gw/gateway/storage"
	"github.com/caddy-gw/gateway/storage/badger"
)

// asCaddy is set for processes that are Caddy, run by a test to see what they exit with.
const asCaddy = "GW_COMMAND_TEST_AS_CADDY"

func TestMain(m *testing.M) {
	if os.Getenv(asCaddy) != "" {
		caddycmd.Main()
		return
	}
	os.Exit(m.Run())
}

// exits runs a command in a process of its own, and returns its exit code and what it printed.
func exits(t *testing.T, args ...string) (code int, printed string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Args = append([]string{"caddy", "gw"}, args...)
	cmd.Env = append(os.Environ(), asCaddy+"=1")
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// An ending is a command that ends in one of the ways of [command.Outcomes].
type ending struct {
	outcome string
	args    string // separated by spaces
	prints  string // a part of it
}

// Each command exits as the table says that the reference prints: in each way that it can end.
func TestExitCodes(t *testing.T) {
	if testing.Short() {
		t.Skip("each command is a process of its own, and shares nothing with others")
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g := gatewaytest.New(t, "")
	g.AdminAt = gatewaytest.FreeAddress(t)
	g.Load()
	c := &terminal{t, []string{"--address", g.AdminAt}}
	c.ok("workspace", "create", "Team", "--slug", "team")
	c.ok("key", "create", "one", "--workspace", "team", "--scope", "logs.view", "--expires", "24h") // which doctor warns of
	c.ok("key", "create", "old", "--workspace", "team", "--scope", "logs.view")
	ids := gjson.Parse(c.ok("key", "list", "--workspace", "team", "--json"))
	const unknown = "00000000-0000-7000-8000-000000000000"
	write("passphrase", "a passphrase of some length")
	write("log", `{"msg":"audit trail checkpoint","audit_row":1000000,"audit_seal":"ab"}`+"\n")
	write("text", "no document: [")
	write("Caddyfile", "{\n\tadmin off\n\tgw {\n\t\tstorage badger "+in("none")+"\n\t}\n}\n")
	for _, name := range []string{"sound", "damaged"} {
		store, err := badger.Open(in(name), badger.Options{})
		if err == nil {
			err = errors.Join(store.Update(t.Context(), func(tx storage.Tx) error { return tx.Set([]byte("key"), bytes.Repeat([]byte("value"), 100)) }), store.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	damage(t, in("damaged"))
	// A gateway that does not run, whose provider does not listen.
	c.ok("backup", in("before"))
	c.ok("restore", in("before"), "--to", in("stopped"))
	for _, name := range []string{".encryption-key", ".audit-key"} {
		if raw, err := os.ReadFile(g.Dir + name); err == nil {
			write("stopped"+name, string(raw))
		}
	}
	broken := gatewaytest.New(t, "provider one {\n\ttype openai\n\tbase_url http://"+gatewaytest.RefusingAddress(t)+"/v1\n\tapi_key k\n}\n")
	broken.Dir = in("stopped")
	write("Broken", broken.Caddyfile())

	server := " --address " + g.AdminAt
	nobody := " --address " + gatewaytest.RefusingAddress(t)
	pass := " --passphrase-file " + in("passphrase")
	endings := map[string][]ending{
		"gw":  {{"done", "", "Available Commands"}, {"usage", "nope", `no command "nope"`}, {"usage", "nope" + server, `no command "nope"`}, {"usage", server + " nope --json", `no command "nope"`}, {"usage", "--nope", "--nope: a command is missing"}, {"done", "--help", "Available Commands"}},
		"key": {{"done", "key", "create"}, {"done", "key -h", "create"}, {"usage", "key nope", `no command "nope"`}, {"usage", "key nope" + server, `no command "nope"`}},
		"key create": {
			{"done", "key create two --workspace team --scope logs.view" + server, "gw-"},
			{"usage", "key create two" + server, "--scope: missing; call it as: caddy gw key create <name> --scope"},
			{"usage", "key create --scope logs.view" + server, "<name>: missing; call it as: caddy gw key create <name> --scope"},
			{"usage", "key create two --scope logs.view --expires soon" + server, "--expires"},
			{"unreachable", "key create two --scope logs.view" + nobody, "no process listens"},
			{"not found", "key create two --workspace nope --scope logs.view" + server, "nope"},
			{"refused", "key create two --scope nope" + server, "scopes[0]"},
		},
		"key list": {
			{"done", "key list" + server, "NAME"},
			{"usage", "key list extra" + server, "extra"},
			{"unreachable", "key list --config " + in("Caddyfile"), "there is no store"},
			{"not found", "key list --workspace nope" + server, "nope"},
		},
		"key rotate": {
			{"done", "key rotate " + ids.Get("0.id").Str + server, "gw-"},
			{"usage", "key rotate" + server, ": missing; call it as: caddy gw "},
			{"unreachable", "key rotate " + unknown + nobody, "no process listens"},
			{"not found", "key rotate " + unknown + server, "was not found"},
			{"refused", "key rotate " + ids.Get("0.id").Str + server, "(409)"}, // as the secret before still works
		},
		"key revoke": {
			{"usage", "key revoke" + server, ": missing; call it as: caddy gw "},
			{"unreachable", "key revoke " + unknown + nobody, "no process listens"},
			{"not found", "key revoke " + unknown + server, "was not found"},
			{"done", "key revoke " + ids.Get("1.id").Str + server, ""},
		},
		"workspace": {{"done", "workspace", "create"}, {"usage", "workspace nope", `no command "nope"`}},
		"workspace create": {
			{"done", "workspace create Other --slug other" + server, "-"},
			{"usage", "workspace create" + server, ": missing; call it as: caddy gw "},
			{"unreachable", "workspace create Other" + nobody, "no process listens"},
			{"refused", "workspace create Other --slug team" + server, "(409)"},
		},
		"workspace list": {
			{"done", "workspace list" + server, "Team"},
			{"usage", "workspace list --nope" + server, "unknown flag: --nope; call it as: caddy gw workspace list"},
			{"unreachable", "workspace list" + nobody, "no process listens"},
		},
		"workspace get": {
			{"done", "workspace get team" + server, `"Team"`},
			{"usage", "workspace get" + server, ": missing; call it as: caddy gw "},
			{"unreachable", "workspace get team" + nobody, "no process listens"},
			{"not found", "workspace get nope" + server, "was not found"},
		},
		"workspace delete": {
			{"done", "workspace delete other --name Other" + server, ""},
			{"usage", "workspace delete team" + server, "--name: missing; call it as: caddy gw workspace delete <id or slug> --name"},
			{"unreachable", "workspace delete team --name Team" + nobody, "no process listens"},
			{"not found", "workspace delete nope --name Team" + server, "was not found"},
			{"refused", "workspace delete team --name Other" + server, "(400)"},
		},
		"audit": {{"done", "audit", "verify"}, {"usage", "audit nope", `no command "nope"`}},
		"audit verify": {
			{"done", "audit verify" + server, "rows"},
			{"usage", "audit verify extra" + server, "extra"},
			{"unreachable", "audit verify" + nobody, "no process listens"},
			{"refused", "audit verify --log " + in("nope") + server, "no such file"},
			{"found", "audit verify --log " + in("log") + server, "the log has row 1000000"},
		},
		"backup": {
			{"done", "backup " + in("backup") + server, "was verified"},
			{"usage", "backup" + server, ": missing; call it as: caddy gw "},
			{"unreachable", "backup " + in("backup2") + nobody, "no process listens"},
			{"refused", "backup " + in("backup") + server, "file exists"},
		},
		"restore": {
			{"done", "restore " + in("before") + " --to " + in("restored"), "was compared"},
			{"usage", "restore " + in("before"), "--to: missing; call it as: caddy gw restore <file> --to"},
			{"refused", "restore " + in("before") + " --to " + in("restored"), "is not empty"},
			{"refused", "restore " + in("text") + " --to " + in("restored2"), "backup"},
		},
		"export": {
			{"done", "export --output " + in("document") + pass + server, ""},
			{"usage", "export extra" + server, "extra"},
			{"unreachable", "export" + pass + nobody, "no process listens"},
			{"refused", "export --passphrase-file " + in("nope") + server, "no such file"},
		},
		"import": {
			{"done", "import " + in("document") + pass + server, ""},
			{"told", "import --dry-run " + in("document") + pass + server, ""},
			{"usage", "import" + server, ": missing; call it as: caddy gw "},
			{"unreachable", "import " + in("document") + pass + nobody, "no process listens"},
			{"refused", "import " + in("text") + pass + server, ""},
		},
		"doctor": {
			{"told", "doctor" + server, "warning"},
			{"usage", "doctor extra" + server, "extra"},
			{"unreachable", "doctor" + nobody, "no process listens"},
			{"found", "doctor --config " + in("Broken") + " --adapter caddyfile", "cannot be reached"},
		},
		"verify": {
			{"done", "verify --dir " + in("sound"), "is sound"},
			{"usage", "verify extra", "extra"},
			{"not found", "verify --dir " + in("nope"), "nope"},
			{"found", "verify --dir " + in("damaged"), "damaged"},
		},
		"salvage": {
			{"done", "salvage --dir " + in("sound") + " --to " + in("whole"), "rows are in the new store"},
			{"told", "salvage --dir " + in("damaged") + " --to " + in("saved"), "Lost"},
			{"usage", "salvage --dir " + in("sound"), "--to: missing; call it as: caddy gw salvage --to"},
			{"not found", "salvage --dir " + in("nope") + " --to " + in("whole2"), "nope"},
			{"refused", "salvage --dir " + in("sound") + " --to " + in("whole"), "whole"},
		},
	}

	var paths []string
	root := &cobra.Command{Use: "gw"}
	caddycmd.Commands()["gw"].CobraFunc(root)
	var visit func(cmd *cobra.Command, path string)
	visit = func(cmd *cobra.Command, path string) {
		paths = append(paths, path)
		for _, sub := range cmd.Commands() {
			visit(sub, strings.TrimPrefix(path+" "+sub.Name(), "gw "))
		}
		if cmd.Flags().Lookup("address") != nil && !slices.ContainsFunc(endings[path], func(e ending) bool { return e.outcome == "unreachable" }) {
			t.Errorf("%s uses a server, and was not run without one", path)
		}
	}
	visit(root, "gw")
	if tested := slices.Sorted(maps.Keys(endings)); !slices.Equal(tested, slices.Sorted(slices.Values(paths))) {
		t.Fatalf("the commands are %q, and tested are %q", paths, tested)
	}
	seen := make(map[string]bool)
	for _, path := range paths {
		if !slices.ContainsFunc(endings[path], func(e ending) bool { return e.outcome == "usage" }) {
			t.Errorf("%s was not used wrongly", path)
		}
		if code, printed := exits(t, append(strings.Fields(strings.TrimPrefix(path, "gw")), "--help")...); code != 0 || !strings.Contains(printed, "Usage:") {
			t.Errorf("%s --help exits with %d\n%s", path, code, printed)
		}
		for _, e := range endings[path] {
			i := slices.IndexFunc(command.Outcomes, func(o command.Outcome) bool { return o.Name == e.outcome })
			if i < 0 {
				t.Fatalf("%s: there is no outcome %s", path, e.outcome)
			}
			seen[e.outcome] = true
			if code, printed := exits(t, strings.Fields(e.args)...); code != command.Outcomes[i].Code || !strings.Contains(printed, e.prints) {
				t.Errorf("caddy gw %s (%s) exits with %d, want %d, and prints %q\n%s", e.args, e.outcome, code, command.Outcomes[i].Code, e.prints, printed)
			}
		}
	}
	for _, o := range command.Outcomes {
		if !seen[o.Name] {
			t.Errorf("no command was seen to end so: %s", o.When)
		}
	}
	if err := caddy.Stop(); err != nil {
		t.Error(err)
	}
}

// damage inverts a bit in a table of a store.
func damage(t *testing.T, dir string) {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("%q, %v", tables, err)
	}
	raw, err := os.ReadFile(tables[0])
	if err == nil {
		raw[10] ^= 8
		err = os.WriteFile(tables[0], raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
