package dialecttest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/dialecttest"
	"github.com/caddy-gw/gateway/internal/gatewaytest"
	"github.com/caddy-gw/gateway/providers"
)

// conversations are the paths of the endpoints for conversations.
var conversations = map[string]string{providers.ChatComplete: "/v1/chat/completions", providers.Messages: "/v1/messages", providers.CreateResponse: "/v1/responses"}

// A dialectCase is a case in which a client asks for a conversation with nothing but its
// credential, and the provider answers.
type dialectCase struct {
	name         string
	call         *dialecttest.Case
	upstream     string // what the provider gets
	answer, out  []byte
	media        string
	address, url string // of the provider's API, and of the request to it
}

func dialectCases(t *testing.T, folder, provider string) (all []dialectCase) {
	t.Helper()
	p, ok := providers.Lookup(provider)
	if !ok {
		t.Fatalf("no provider %s", provider)
	}
	base, err := p.Base(func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range dialecttest.ArchivesIn(t, "../../providers/"+folder+"/testdata") {
		c := a.Case(t)
		upstream := string(a.Read("upstream.txt"))
		request, _, sent := strings.Cut(upstream, "\n\n")
		if conversations[c.Endpoint] == "" || c.Path != "" || c.Provider != "" || c.Settings != nil || c.Token != "" || !sent {
			continue
		}
		line, _, _ := strings.Cut(request, "\n")
		d := dialectCase{name: a.Name, call: c, upstream: upstream, address: base.String()}
		_, d.url, _ = strings.Cut(line, " ")
		switch answer, stream := a.Read("answer.json"), a.Read("answer.sse"); {
		case answer != nil:
			d.answer, d.out, d.media = answer, a.Read("out.json"), "application/json"
		case stream != nil:
			d.answer, d.out, d.media = stream, a.Read("out.sse"), "text/event-stream"
		}
		// An error is answered with a status of its own while nothing was sent.
		failed := regexp.MustCompile(`^"|"error": ?\{|broken: `)
		if len(d.out) > 0 && !failed.Match(d.out) {
			all = append(all, d)
		}
	}
	return all
}

// The cases of the dialects pass through a running gateway as they do through the dialect alone,
// whether the answer comes at once, byte by byte, or in pieces of seven bytes.
func TestCasesOfDialectsThroughTheGateway(t *testing.T) {
	var answered atomic.Pointer[dialectCase]
	var piece atomic.Int64
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		d := answered.Load()
		w.Header().Set("Content-Type", d.media)
		size := int(piece.Load())
		if size == 0 {
			size = len(d.answer)
		}
		for part := range slices.Chunk(d.answer, size) {
			_, _ = w.Write(part)
			_ = http.NewResponseController(w).Flush()
		}
	})
	g := gatewaytest.Start(t, "block_inline_config off\ntrusted_custom_hosts 127.0.0.1\n")
	key, _ := g.Key("k")
	for _, dialect := range []struct {
		folder, provider string
		cases            int // at least
	}{{"anthropic", "anthropic", 40}, {"cohere", "cohere", 20}, {"gemini", "google", 35}, {"mistral", "mistral-ai", 20}} {
		cases := dialectCases(t, dialect.folder, dialect.provider)
		if len(cases) < dialect.cases {
			t.Errorf("%s: %d cases", dialect.folder, len(cases))
		}
		for i := range cases {
			d := &cases[i]
			t.Run(dialect.folder+"/"+d.name, func(t *testing.T) {
				answered.Store(d)
				base, err := url.Parse(d.address)
				if err != nil {
					t.Fatal(err)
				}
				for _, size := range []int64{0, 1, 7} {
					piece.Store(size)
					before := len(up.Calls())
					a := g.Do(http.MethodPost, conversations[d.call.Endpoint], string(d.call.Body), "x-gw-api-key: "+key, "x-gw-provider: "+dialect.provider,
						"x-gw-custom-host: "+up.URL+base.Path, "authorization: Bearer "+d.call.Key, fmt.Sprintf("x-gw-strict-open-ai-compliance: %t", d.call.Strict))
					if a.Status != http.StatusOK || len(up.Calls()) != before+1 {
						t.Fatalf("%d %s", a.Status, a.Body)
					}
					d.checkRequest(t, up.Last(t))
					if got, want := withoutIDs(t, d.media, a.Body), withoutIDs(t, d.media, d.expected()); got != want {
						t.Fatalf("in pieces of %d: got\n%s\nwant\n%s", size, got, want)
					}
				}
			})
		}
	}
}

// expected is what the client gets. The usage of a stream, for which the gateway asks the provider
// itself, is not sent to a client that has not asked for it.
func (d *dialectCase) expected() string {
	if d.call.Endpoint != providers.ChatComplete || d.media != "text/event-stream" || gjson.GetBytes(d.call.Body, "stream_options.include_usage").Bool() {
		return string(d.out)
	}
	return usageEvent.ReplaceAllString(string(d.out), "")
}

// checkRequest checks that the provider got the request of the case: its path, its header and its
// body.
func (d *dialectCase) checkRequest(t *testing.T, got gatewaytest.Call) {
	t.Helper()
	u, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	if got.Path != u.Path || got.Query != u.RawQuery {
		t.Errorf("sent to %s?%s, want %s", got.Path, got.Query, d.url)
	}
	head, body, _ := strings.Cut(d.upstream, "\n\n")
	for _, line := range strings.Split(head, "\n")[1:] {
		name, value, _ := strings.Cut(line, ": ")
		if sent := strings.Join(got.Header[name], ", "); sent != value {
			t.Errorf("%s: %q, want %q", name, sent, value)
		}
	}
	if sent, want := withoutIDs(t, "application/json", got.Body), withoutIDs(t, "application/json", body); sent != want {
		t.Errorf("sent\n%s\nwant\n%s", sent, want)
	}
}

var (
	madeIDs    = regexp.MustCompile(`[0-9a-f]{32,34}|\bid\d+\b|_id\d+\b`)
	usageEvent = regexp.MustCompile(`data: \{[^\n]*"choices":\[\],"usage":[^\n]*\n\n`)
	madeTime   = regexp.MustCompile(`("created(?:_at)?": ?)\d+`)
)

// withoutIDs returns a body without ids and times that are made for each call.
func withoutIDs(t *testing.T, media, body string) string {
	t.Helper()
	if media == "application/json" {
		var b bytes.Buffer
		if err := json.Indent(&b, []byte(strings.TrimSpace(body)), "", " "); err != nil {
			t.Fatalf("no JSON: %v\n%s", err, body)
		}
		body = b.String()
	}
	body = strings.TrimSpace(body)
	body = madeIDs.ReplaceAllStringFunc(body, func(id string) string {
		if id[0] == '_' {
			return "_ID"
		}
		return "ID"
	})
	return madeTime.ReplaceAllString(body, "${1}0")
}
