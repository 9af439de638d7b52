package credentials

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/alloctest"
)

func maskOf(words ...string) *Mask {
	m := new(Mask)
	for _, w := range words {
		m.Add(NewSecret(w))
	}
	return m
}

func TestCredentialsAreHidden(t *testing.T) {
	const aws, pem = `wJalr/XUtnFEMI+K7MDENG=`, "-----BEGIN KEY-----\nMIIE\\x\"é\n-----END KEY-----\n"
	m := maskOf("sk-abcdefghijkl", "sk-abcde", "short", "", "sk-abcde", aws, pem, "/starts/with/a/slash")
	for in, want := range map[string]string{
		`{"a":"sk-abcdefghijkl"}`:    `{"a":"sk**********jkl"}`,
		`sk-abcde! short sk-abcd`:    `********! short sk-abcd`,
		`sk-sk-abcdefghijk`:          `sk-********fghijk`,
		`sk-abcdefghijklsk-abc`:      `sk**********jklsk-abc`,
		aws:                          `wJ******************NG=`,
		`"wJalr\/XUtnFEMI+K7MDENG="`: `"************************"`,
		`"wJalr\u002fXUtnFEMI\u002BK7MDENG\u003d"`: `"**************************************"`,
		`"{\"a\":\"wJalr\\/XUtnFEMI+K7MDENG=\"}"`:  `"{\"a\":\"*************************\"}"`,
		`wJalr\\\\\\\/XUtnFEMI+K7MDENG=`:           `******************************`,
		`wJalr\\\\\\\\\/XUtnFEMI+K7MDENG=`:         `wJalr\\\\\\\\\/XUtnFEMI+K7MDENG=`,
		`wJalr\u002XUtnFEMI+K7MDENG=`:              `wJalr\u002XUtnFEMI+K7MDENG=`,
		`\/starts\/with\/a\/slash`:                 strings.Repeat("*", 24),
		`a/starts/with/a/slash`:                    `a/s***************ash`,
		pem:                                        strings.Repeat("*", len(pem)),
		`"-----BEGIN KEY-----\nMIIE\\x\"\u00e9\n-----END KEY-----\n"`: `"` + strings.Repeat("*", 57) + `"`,
	} {
		b := []byte(in)
		if found := m.Hide(b); string(b) != want || found != (in != want) {
			t.Errorf("%s: got %s, %v, want %s", in, b, found, want)
		}
		if m.In([]byte(in)) != (in != want) {
			t.Errorf("%s: In says otherwise", in)
		}
		if got := m.Text(in); got != want {
			t.Errorf("%s as a text: got %s", in, got)
		}
		if json.Valid([]byte(in)) && !json.Valid(b) {
			t.Errorf("%s became %s, which is no JSON", in, b)
		}
	}
}

func TestCredentialsInHeaders(t *testing.T) {
	h := http.Header{
		"Authorization": {"Bearer token-12"}, "X-Api-Key": {"key-4567"}, "X-Extra": {"sixteen-or-longer", "staging-eu", "13 or longer"},
		"Http-Referer": {"https://example.com/page"}, "X-Note": {"not a scheme with three"}, "X-Session": {"tiny"},
	}
	m := new(Mask)
	m.AddHeader(h)
	for text, hidden := range map[string]bool{
		"token-12": true, "key-4567": true, "sixteen-or-longer": true, "staging-eu": false, "13 or longer": true, "https://example.com/page": false,
		"not a scheme with three": true, "tiny": false, "Bearer": false,
	} {
		if m.In([]byte(text)) != hidden {
			t.Errorf("%q is hidden: %v, want %v", text, !hidden, hidden)
		}
	}
	h = http.Header{"X-Seen": {"a", "is token-12"}, "X-Other": {"b"}}
	m.Header(h)
	if h["X-Seen"][1] != "is ********" || h["X-Seen"][0] != "a" || h["X-Other"][0] != "b" {
		t.Errorf("got %v", h)
	}
}

// What is passed on in portions has no credential in it, and is otherwise what came. What is held
// back is bounded.
func TestWhatIsHiddenDependsOnNoPortions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[ab/\\]{8,14}`), 1, 3).Draw(t, "credentials")
		m := maskOf(words...)
		encoded := func(v string) string {
			b, _ := json.Marshal(v)
			return strings.Trim(string(b), `"`)
		}
		word := rapid.SampledFrom(words)
		text := strings.Join(rapid.SliceOfN(rapid.OneOf(
			rapid.StringMatching(`[abc/\\]{1,20}`), word,
			rapid.Map(word, encoded), rapid.Map(word, func(w string) string { return strings.ReplaceAll(encoded(w), "/", `\u002F`) }),
		), 0, 20).Draw(t, "text"), "")
		longest := 0
		for _, w := range words {
			longest = max(longest, (maxBackslashes+5)*len(w))
		}
		var got, held []byte
		for left := text; left != ""; {
			n := rapid.IntRange(1, min(64, len(left))).Draw(t, "portion")
			held, left = append(held, left[:n]...), left[n:]
			done := m.Pass(held)
			got, held = append(got, held[:done]...), held[done:]
			if len(held) > longest {
				t.Fatalf("%d bytes are held back", len(held))
			}
		}
		m.Hide(held)
		got = append(got, held...)
		if len(got) != len(text) {
			t.Fatalf("%d of %d bytes", len(got), len(text))
		}
		covered := make([]bool, len(text)) // what is part of a credential
		for i := range m.words {
			for at := 0; at < len(text); at++ {
				if n := m.words[i].match([]byte(text[at:])); n > 0 {
					for k := range n {
						covered[at+k] = true
					}
				}
			}
		}
		for i := range got {
			if got[i] != text[i] && !covered[i] {
				t.Fatalf("%s became %s: byte %d is of no credential", text, got, i)
			}
		}
		for _, w := range words {
			if bytes.Contains(got, []byte(w)) || bytes.Contains(got, []byte(encoded(w))) {
				t.Fatalf("%s became %s, which has %s", text, got, w)
			}
		}
	})
}

func TestLookingForCredentialsAllocatesNothing(t *testing.T) {
	m := maskOf("sk-abcdefghijkl", strings.Repeat("wJalr/XUtnFEMI+K7MDENG", 10))
	event := []byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":" sk-abc"}}]}` + "\n\n")
	h := http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}, "X-Long": {strings.Repeat("sk-abc", 100)}}
	text := string(event)
	alloctest.AtMost(t, 0, 100, func() {
		m.Header(h)
		if m.Pass(event) != len(event) || m.Text(text) != text {
			t.Error("something is hidden")
		}
	})
}

func BenchmarkMaskEvent(b *testing.B) {
	m := maskOf("sk-proj-abcdefghijklmnopqrstuvwxyz0123456789", "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
	event := []byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4o-mini","choices":[{"index":0,"delta":{"content":" asks"},"finish_reason":null}]}` + "\n\n")
	b.SetBytes(int64(len(event)))
	b.ReportAllocs()
	for b.Loop() {
		m.Pass(event)
	}
}

func FuzzMask(f *testing.F) {
	f.Add("sk-abcdefghijkl", `{"a":"sk-abcdefghijkl"}`)
	f.Add(`a/b\c"d+e`, `{"a":"a\/b\\c\"d\u002be"}`)
	f.Fuzz(func(t *testing.T, secret, text string) {
		m := maskOf(secret)
		b := []byte(text)
		m.Hide(b)
		if len(b) != len(text) || len(secret) >= MinMasked && strings.Contains(string(b), secret) && !strings.Contains(secret, "*") {
			t.Fatalf("%q became %q", text, b)
		}
		if done := m.Pass([]byte(text)); done < 0 || done > len(text) {
			t.Fatalf("%d of %d bytes are done", done, len(text))
		}
	})
}
