package command_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

func TestTheDoctorSaysWhatIsWrong(t *testing.T) {
	late := false
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("a credential was sent")
		}
		if late {
			w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer up.Close()
	refusing := "http://" + gatewaytest.RefusingAddress(t) + "/v1"
	providers := func(url string) string {
		return "provider one {\ntype openai\nbase_url " + url + "\napi_key secret-of-the-provider\n}\n"
	}
	of := func(out, check string) gjson.Result {
		return gjson.Get(out, `findings.#(check=="`+check+`")`)
	}
	g := gatewaytest.New(t, providers(up.URL+"/v1"))
	g.AdminAt = gatewaytest.FreeAddress(t)
	g.Load()
	c := &terminal{t, []string{"--address", g.AdminAt}}
	out := c.ok("doctor", "--json")
	for _, check := range []string{"store", "keys", "credentials", "provider", "clock"} {
		if f := of(out, check); f.Get("status").Str != "ok" {
			t.Errorf("%s: %s", check, out)
		}
	}
	c.ok("key", "create", "soon", "--scope", "logs.view", "--expires", "24h")
	text := c.ok("doctor")
	if !strings.Contains(text, "API key soon (") || !strings.Contains(text, "Set another expires_at") || strings.Contains(text, "secret-of-the-provider") {
		t.Errorf("%s", text)
	}
	late = true
	c.fails("something is wrong", "doctor")
	if out, _, _ := c.run("doctor", "--json"); of(out, "clock").Get("status").Str != "error" || of(out, "clock").Get("advice").Str == "" {
		t.Errorf("%s", out)
	}
	// Of a gateway that does not run, the store is opened, and the report is the same.
	g.Stop()
	file := filepath.Join(t.TempDir(), "Caddyfile")
	if err := os.WriteFile(file, []byte(strings.NewReplacer(up.URL+"/v1", refusing, "admin "+g.AdminAt+"\n", "admin off\n").Replace(g.Caddyfile())), 0o600); err != nil {
		t.Fatal(err)
	}
	c.flags = []string{"--config", file}
	c.fails("something is wrong", "doctor")
	if out, _, _ := c.run("doctor", "--json"); of(out, "provider").Get("status").Str != "error" || !strings.Contains(of(out, "provider").Get("message").Str, "cannot be reached") || of(out, "store").Get("status").Str != "ok" {
		t.Errorf("%s", out)
	}
}
