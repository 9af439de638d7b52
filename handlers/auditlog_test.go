package handlers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// The log writer gets rows through reloads, and when Caddy stops, the log has a checkpoint.
func TestAuditRowsReachALogWriter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	g := gatewaytest.New(t, "audit_log {\noutput file "+file+" {\nroll_disabled\n}\nretention 30d\n}")
	g.Load()
	g.Key("first")
	g.Load()
	g.Key("second")
	row := func(n int) (r gjson.Result) {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(string(raw), "\n")
		if n < len(lines) && strings.HasSuffix(lines[n], "\n") {
			r = gjson.Parse(lines[n])
		}
		return r
	}
	eventually(t, "the writer has two rows", func() bool { return row(1).Exists() })
	for n, name := range []string{"first", "second"} {
		if r := row(n); r.Get("resource_name").Str != name || r.Get("scope").Str != "workspace_service_api_keys.create" || r.Get("ip").Str == "" {
			t.Errorf("%s", r.Raw)
		}
	}
	if info, err := os.Stat(g.Dir + ".audit-key"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	g.Stop()
	raw, err := os.ReadFile(g.LogFile)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if r := gjson.Parse(line); r.Get("logger").Str == "gw.audit" && r.Get("audit_row").Int() == row(1).Get("number").Int() && len(r.Get("audit_seal").Str) == 64 {
			return
		}
	}
	t.Error("the log has no checkpoint of the last row")
}
