package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// An error says of each target why it failed, and shows neither a credential nor the host of an
// operator's provider.
func TestAnErrorNamesEveryTargetThatFailed(t *testing.T) {
	l := newLab(t, gatewaytest.UnreachableProvider(t, "closed"), "")
	host := strings.TrimPrefix(l.bad.URL, "http://")
	l.on("fails", respond(500, overloaded))
	l.on("tells", func(w http.ResponseWriter, r *http.Request) {
		respond(401, `{"error":{"message":"`+r.Header.Get("Authorization")+` is refused by http://`+host+`/v1","type":"auth"}}`)(w, r)
	})
	l.on("long", respond(500, `{"error":{"message":"`+strings.Repeat("ä", 10_000)+`"}}`))
	l.on("streams an error", stream("data: "+overloaded+"\n\n"))
	l.on("breaks", cut)
	const (
		bad     = `{"provider":"@bad"}`
		retried = `{"provider":"@bad","retry":{"attempts":1,"on_status_codes":[500]}}`
		nobody  = `{"provider":"@nobody"}`
	)
	for name, c := range map[string]struct {
		cue     string
		targets []string
		status  int
		errors  []string // what each of them holds
		not     string
	}{
		"a provider's answer is the last": {
			"fails",
			[]string{`{"provider":"@closed"}`, retried},
			500,
			[]string{"config.targets[0]: Provider closed could not be reached", "config.targets[1]: Provider bad answered 500 Internal Server Error (overloaded); it was tried 2 times"},
			"",
		},
		"an error of the gateway's is the last": {
			"fails",
			[]string{bad, nobody},
			400,
			[]string{"config.targets[0]: Provider bad answered 500 Internal Server Error (overloaded)", "nobody"},
			"",
		},
		"a stream that failed at once": {
			"streams an error",
			[]string{bad, bad},
			502,
			[]string{"config.targets[0]: Provider bad answered 502 Bad Gateway (overloaded)", "config.targets[1]: Provider bad answered 502"},
			"",
		},
		"a connection that broke": {
			"breaks",
			[]string{bad, bad},
			502,
			[]string{"config.targets[0]: Provider bad closed the connection", "config.targets[1]: Provider bad closed the connection"},
			"",
		},
		"credentials and hosts are masked": {"tells", []string{bad, bad}, 401, []string{"is refused by http://[host]/v1", "is refused by http://[host]/v1"}, "sk-of-the-file-bad"},
		"long messages are clipped":        {"long", []string{bad, bad}, 500, []string{"ä…)", "ä…)"}, strings.Repeat("ä", 300) + "…"},
		"one target speaks for itself":     {"fails", []string{bad}, 500, nil, ""},
	} {
		body := gatewaytest.Chat
		if c.cue == "streams an error" {
			body = streamedChat
		}
		a := l.chat(body, `{"strategy":{"mode":"fallback","on_status_codes":[400,401,500,502,503]},"targets":[`+strings.Join(c.targets, ",")+`]}`, cue+c.cue)
		errs := a.Get("errors").Array()
		if a.Status != c.status || a.Get("error.message").Str == "" || len(errs) != len(c.errors) {
			t.Errorf("%s: got %d %s, want %d and %d errors", name, a.Status, a.Body, c.status, len(c.errors))
			continue
		}
		for i, want := range c.errors {
			if !strings.Contains(errs[i].Str, want) || c.not != "" && strings.Contains(errs[i].Str, c.not) {
				t.Errorf("%s: error %d: %q, want %q in it", name, i, errs[i].Str, want)
			}
			if len(errs[i].Str) > 1<<10 {
				t.Errorf("%s: error %d has %d bytes", name, i, len(errs[i].Str))
			}
		}
	}
}
