package hooks

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/race"
)

// tenChecks are checks in process of every kind: searches, counts, rules, lists and what the call says of
// itself.
const tenChecks = `[{"deny":true,"checks":[
	{"id":"default.contains","parameters":{"words":["forbidden","confidential"],"operator":"none"}},
	{"id":"default.regexMatch","parameters":{"rule":"ticket-[0-9]{6}","not":true}},
	{"id":"default.regexReplace","parameters":{"rule":"order [A-Z]{3}[0-9]+"}},
	{"id":"default.wordCount","parameters":{"maxWords":100000}},
	{"id":"default.jsonKeys","parameters":{"keys":["password"],"operator":"none"},"is_enabled":true},
	{"id":"gw.pii","parameters":{"categories":["EMAIL_ADDRESS","PHONE_NUMBER","CREDIT_CARD","SSN","IP_ADDRESS"]}},
	{"id":"gw.secrets","parameters":{}},
	{"id":"default.modelWhitelist","parameters":{"models":["m"]}},
	{"id":"default.requiredMetadataKeys","parameters":{"metadataKeys":["team"]}},
	{"id":"default.endsWith","parameters":{"suffix":"please"}}]}]`

const prose = "The quick brown fox jumps over the lazy dog, and then it goes home to read a book about the history of small towns. "

// tenChecksOf are the hook, and a chat with a message of some size that it lets pass.
func tenChecksOf(tb testing.TB, size int) ([]*Hook, guardrails.Subject) {
	tb.Helper()
	list := Parse(BeforeRequest, "hooks", []byte(tenChecks), Options{Broken: true}, func(path, message string) { tb.Fatalf("%s: %s", path, message) })
	content, err := json.Marshal(`{"a":1} ` + strings.Repeat(prose, size/len(prose)) + "please")
	if err != nil {
		tb.Fatal(err)
	}
	return list, guardrails.Subject{
		Type: "chatComplete", Model: "m", Metadata: json.RawMessage(`{"team":"t"}`),
		Request: json.RawMessage(`{"model":"m","messages":[{"role":"user","content":` + string(content) + `}]}`),
	}
}

// Ten checks take eight times as long of eight times the text, and not sixty-four times.
func TestTenChecksTakeLinearTime(t *testing.T) {
	if race.Enabled {
		t.Skip("times under the race detector are those of others, and checks have limits of time")
	}
	took := func(size int) time.Duration {
		list, s := tenChecksOf(t, size)
		begun := time.Now()
		if out := Run(t.Context(), list, s, false, time.Now); out.Denied != nil || out.Failed || out.Errored != 0 {
			t.Fatalf("%+v", out.Results[0].Checks)
		}
		return time.Since(begun)
	}
	var small, large time.Duration
	for range 10 { // on a busy machine, one of them may be held up
		if small, large = took(25<<10), took(200<<10); large <= 24*small {
			return
		}
	}
	t.Errorf("25 KiB took %v, and 200 KiB %v", small, large)
}

// BenchmarkTenChecks is what ten checks in process take of a chat with a message of some size.
func BenchmarkTenChecks(b *testing.B) {
	for _, size := range []int{2 << 10, 20 << 10, 200 << 10} {
		list, s := tenChecksOf(b, size)
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if out := Run(b.Context(), list, s, false, time.Now); out.Denied != nil || out.Failed || out.Errored != 0 {
					b.Fatalf("%+v", out.Results[0].Checks)
				}
			}
		})
	}
}

// BenchmarkEachCheck is what each of them takes of 2 KB.
func BenchmarkEachCheck(b *testing.B) {
	list, s := tenChecksOf(b, 2<<10)
	s.Texts = values(s.Request, Texts(s.Type, s.Phase, s.Request, Scope{}).Spans)
	for _, u := range list[0].Checks {
		b.Run(u.ID, func(b *testing.B) {
			for b.Loop() {
				if r, err := u.Check.Judge(b.Context(), &s); err != nil || !r.Verdict {
					b.Fatal(r, err)
				}
			}
		})
	}
}

// BenchmarkWindow is what the windows of a hook add to a chunk of a stream.
func BenchmarkWindow(b *testing.B) {
	for name, raw := range map[string]string{
		"words":   `[{"contains":{"words":["forbidden","confidential"],"operator":"none"},"deny":true}]`,
		"pii":     `[{"gw.pii":{"categories":["EMAIL_ADDRESS","PHONE_NUMBER","CREDIT_CARD","SSN","IP_ADDRESS"],"redact":true}}]`,
		"secrets": `[{"gw.secrets":{},"deny":true}]`,
		"regex":   `[{"regexReplace":{"rule":"order [A-Z]{3}[0-9]+"}}]`,
	} {
		list := Parse(OutputGuardrails, "hooks", []byte(raw), Options{Broken: true}, func(path, message string) { b.Fatalf("%s: %s", path, message) })
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			w, at, content := NewWindows("chatComplete", list, time.Now), 0, Track{Kind: "content"}
			for b.Loop() {
				w.Push(content, prose[at:at+6])
				if at += 6; at+6 > len(prose) {
					at = 0
				}
				if w.Denied != nil {
					b.Fatal("refused")
				}
			}
		})
	}
}
