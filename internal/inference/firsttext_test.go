package inference

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// A tapped proxy shows what the client gets.
type tappedProxy struct {
	passing
	got func(b []byte)
}

func (p tappedProxy) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	res, err := p.transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	w.WriteHeader(res.StatusCode)
	_, err = io.Copy(w, io.TeeReader(res.Body, writerFunc(p.got)))
	return err
}

type writerFunc func(b []byte)

func (f writerFunc) Write(b []byte) (int, error) {
	f(b)
	return len(b), nil
}

// How much of an answer the provider has sent when the client gets its first text: with each mode, that is the delay
// that docs/guardrails.md states, whatever time a chunk takes.
func TestTheFirstTextOfEachStreamMode(t *testing.T) {
	t.Parallel()
	const chunks, word = 200, "a word" // of 6 bytes
	for name, c := range map[string]struct {
		config      string
		least, most int // chunks
	}{
		"without hooks": {`{"provider":"@one"}`, 1, 2},
		"after":         {`{"provider":"@one","output_guardrails":[{"wordCount":{},"stream_mode":"after"}]}`, 1, 2},
		"window":        {`{"provider":"@one","output_guardrails":[{"contains":{"words":["bad"],"operator":"none"},"deny":true,"stream_mode":"window"}]}`, 320 / len(word), 320/len(word) + 2},
		"small window":  {`{"provider":"@one","output_guardrails":[{"contains":{"words":["bad"],"operator":"none"},"deny":true,"stream_mode":"window","window_bytes":16,"overlap_bytes":16}]}`, 32 / len(word), 32/len(word) + 2},
		"buffer":        {`{"provider":"@one","output_guardrails":[{"contains":{"words":["bad"],"operator":"none"},"deny":true,"stream_mode":"buffer"}]}`, chunks, chunks},
	} {
		b := newGuardBench(t)
		pieces := make([]string, chunks)
		for i := range pieces {
			pieces[i] = word
		}
		body := &pieced{strings.SplitAfter(streams["chatComplete"].of(pieces), "\n\n")}
		total, first := len(body.pieces), 0
		b.answers["one"] = func() *http.Response {
			res := answering(200, "text/event-stream", "")
			res.Body, res.ContentLength = body, -1
			return res
		}
		b.proxy = tappedProxy{b.proxy.(passing), func(got []byte) {
			if first == 0 && strings.Contains(string(got), `"content":"a`) {
				first = min(total-len(body.pieces)-1, chunks) // the first event has no text
			}
		}}
		w, _ := b.call(t, `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`, nil, "X-Gw-Config", c.config)
		if got, _, _ := received(w.Body.String(), streams["chatComplete"].text); w.Code != 200 || got != strings.Repeat(word, chunks) {
			t.Fatalf("%s: %d %s", name, w.Code, w.Body)
		}
		if first < c.least || first > c.most {
			t.Errorf("%s: the client has text after %d chunks, expected %d to %d", name, first, c.least, c.most)
		}
	}
}
