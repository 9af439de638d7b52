package inference

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A line of a script is what a provider sends after a time.
type line struct {
	after time.Duration
	text  string
}

// playing is a provider's stream that comes as the script says, and then ends with err.
func playing(script []line, err error) io.ReadCloser {
	src, provider := io.Pipe()
	go func() {
		for _, l := range script {
			time.Sleep(l.after) // of the test's own time
			if _, err := io.WriteString(provider, l.text); err != nil {
				return
			}
		}
		_ = provider.CloseWithError(err)
	}()
	return src
}

// letters is a translation that changes nothing.
type letters struct{}

func (letters) Translate(out, in []byte) ([]byte, error) { return append(out, in...), nil }
func (letters) End(out []byte) ([]byte, error)           { return out, nil }

// Through each kind of body a stream waits as long, and loses nothing.
var bodiesOfStreams = map[string]func(io.ReadCloser) io.ReadCloser{
	"as it came": func(src io.ReadCloser) io.ReadCloser { return src },
	"translated": func(src io.ReadCloser) io.ReadCloser {
		return &translated{src: src, stream: letters{}, to: watchingChat()}
	},
	"masked": func(src io.ReadCloser) io.ReadCloser {
		m := new(credentials.Mask)
		m.Add(credentials.NewSecret("data: a credential that does not occur"))
		return &masked{src: src, mask: m}
	},
	"guarded": func(src io.ReadCloser) io.ReadCloser {
		timer := time.NewTimer(time.Hour)
		timer.Stop()
		return &stallGuard{ReadCloser: src, after: time.Hour, timer: timer}
	},
}

// While nothing was said, an error that follows soon is an HTTP error, and nothing else waits.
func TestAPreambleWaitsForTheNextEvent(t *testing.T) {
	role, text, fault := delta(`"role":"assistant","content":""`), outputEvents["content"], failureEvents["an error of Anthropic's"]
	created := event(`{"type":"response.created","response":{"error":null}}`)
	for name, c := range map[string]struct {
		script []line
		took   time.Duration // until it goes to the client, or not
		why    string        // "": it goes to the client
	}{
		"an error soon":                   {[]line{{0, role}, {100 * time.Millisecond, fault}}, 100 * time.Millisecond, "began with an error"},
		"an error that takes longer":      {[]line{{0, role}, {1900 * time.Millisecond, fault}}, 1900 * time.Millisecond, "began with an error"},
		"an error after several":          {[]line{{0, created}, {90 * time.Millisecond, created}, {90 * time.Millisecond, fault}}, 180 * time.Millisecond, "began with an error"},
		"an error behind a ping":          {[]line{{0, role}, {50 * time.Millisecond, "event: ping\n" + event(`{"type":"ping"}`)}, {50 * time.Millisecond, fault}}, 100 * time.Millisecond, "began with an error"},
		"an end":                          {[]line{{0, role}, {100 * time.Millisecond, ": bye\n\n"}}, 100 * time.Millisecond, "ended before any output"},
		"output at once":                  {[]line{{0, text}, {time.Minute, fault}}, 0, ""},
		"output soon":                     {[]line{{0, role}, {100 * time.Millisecond, text}, {time.Minute, text}}, 100 * time.Millisecond, ""},
		"output late":                     {[]line{{0, role}, {time.Minute, text}}, preambleWait, ""},
		"an error late":                   {[]line{{0, role}, {time.Minute, fault}}, preambleWait, ""},
		"the wait begins with the first":  {[]line{{0, created}, {preambleWait * 3 / 4, created}, {preambleWait / 2, fault}}, preambleWait, ""},
		"and not with what is no event":   {[]line{{0, ": hi\n\n"}, {time.Second, role}, {200 * time.Millisecond, fault}}, 1200 * time.Millisecond, "began with an error"},
		"half an event does not end it":   {[]line{{0, role}, {100 * time.Millisecond, fault[:20]}, {100 * time.Millisecond, fault[20:]}}, 200 * time.Millisecond, "began with an error"},
		"more than is read at once":       {[]line{{0, role}, {10 * time.Millisecond, strings.Repeat(created, 2000)}, {10 * time.Millisecond, fault}}, 10 * time.Millisecond, ""},
		"more than a read and not so far": {[]line{{0, role}, {10 * time.Millisecond, strings.Repeat(created, 200)}, {10 * time.Millisecond, fault}}, 20 * time.Millisecond, "began with an error"},
	} {
		for through, body := range bodiesOfStreams {
			t.Run(name+", "+through, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					end := io.ErrUnexpectedEOF
					if c.why == "ended before any output" {
						end = io.EOF
					}
					limited := &timeoutBody{ReadCloser: playing(c.script, end)}
					res, began := answer("text/event-stream", nil), time.Now()
					res.Body = body(limited)
					why := checkBeginning(new(exchange.Call), res, false, limited)
					if took := time.Since(began); took != c.took || (why == nil) != (c.why == "") || !strings.Contains(fmt.Sprint(why), c.why) {
						t.Errorf("%v after %v", why, took)
					}
					var all strings.Builder
					for _, l := range c.script {
						all.WriteString(l.text)
					}
					got, err := io.ReadAll(res.Body)
					if string(got) != all.String() || (err != nil) != (c.why != "ended before any output") || errors.Is(err, errReadTimeout) {
						t.Errorf("the client gets %q, %v", got, err)
					}
					_ = res.Body.Close()
				})
			})
		}
	}
}

// A stream that is closed while it is being read ends the read.
func TestAClosedStreamIsNotReadOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited := &timeoutBody{ReadCloser: playing([]line{{0, delta(`"role":"assistant"`)}, {time.Hour, "x"}}, io.EOF)}
		res := answer("text/event-stream", nil)
		res.Body = limited
		if why := checkBeginning(new(exchange.Call), res, false, limited); why != nil {
			t.Fatal(why)
		}
		_ = res.Body.Close()
		time.Sleep(2 * time.Hour) // a goroutine that is left over then is a deadlock of the test
	})
}

// Clients of OpenAI's API try again by the status alone: with one target, too, an error behind the
// events by which each stream begins is that of the call.
func TestAnErrorBehindThePreambleIsTheStatusOfTheCall(t *testing.T) {
	for name, c := range map[string]struct {
		path, body, preamble, fault string
		status                      int
	}{
		"chat":      {"/chat/completions", plainChat, delta(`"role":"assistant","content":""`), event(`{"error":{"message":"m","type":"rate_limit_error","code":"rate_limit_exceeded"}}`), 429},
		"responses": {"/responses", `{"model":"m","input":"hi"}`, event(`{"type":"response.created","response":{"id":"r","error":null}}`), event(`{"type":"error","code":"server_error","message":"m","sequence_number":1}`), 502},
		"failed":    {"/responses", `{"model":"m","input":"hi"}`, event(`{"type":"response.created","response":{"id":"r","error":null}}`), event(`{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"rate_limit_exceeded","message":"m"}}}`), 429},
		"nothing":   {"/chat/completions", plainChat, delta(`"role":"assistant","content":""`), "", 502},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			var body jsonscan.Builder
			body = append(append(body, c.body[:len(c.body)-1]...), `,"stream":true}`...)
			b.serve = func(*http.Request) *http.Response {
				res := answering(200, "text/event-stream", "")
				res.Body, res.ContentLength = playing([]line{{0, c.preamble}, {0, c.fault}}, io.EOF), -1
				return res
			}
			w, x := b.request(t, http.MethodPost, c.path, string(body), nil, "X-Gw-Provider", "one")
			if w.Code != c.status || x.Status != c.status || w.Header().Get("Content-Type") != "application/json" || !strings.Contains(w.Body.String(), `"error":{`) {
				t.Errorf("%d, %s: %s", w.Code, w.Header().Get("Content-Type"), w.Body)
			}
		})
	}
}
