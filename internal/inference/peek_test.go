package inference

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/inflight"
)

// answer is a provider's answer with status 200.
func answer(media string, body io.Reader) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {media}}, Body: io.NopCloser(body)}
}

// More is what follows an answer's beginning and need not be read to judge it.
type more struct {
	text string
	read bool
}

func (m *more) Read(p []byte) (int, error) {
	m.read = true
	n := copy(p, m.text)
	if m.text = m.text[n:]; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func event(data string) string { return "data: " + data + "\n\n" }

func delta(members string) string {
	return event(`{"id":"c","choices":[{"index":0,"delta":{` + members + `},"finish_reason":null}]}`)
}

// What comes before output and is none: the call is not committed by it.
var preambleEvents = map[string]string{
	"nothing":                            "",
	"blank lines":                        "\n\n\r\n",
	"a comment":                          ": OPENROUTER PROCESSING\n\n",
	"a comment with data in it":          `: data: {"choices":[{"delta":{"content":"x"}}]}` + "\n\n",
	"other fields":                       "event: ping\nid: 1\nretry: 1000\n\n",
	"empty data":                         "data:\n\ndata: \n\n",
	"[DONE]":                             event("[DONE]"),
	"[DONE] without a space":             "data:[DONE]\n\n",
	"a role":                             delta(`"role":"assistant"`),
	"a role and empty content":           delta(`"role":"assistant","content":""`),
	"a role and nulls":                   delta(`"role":"assistant","content":null,"refusal":null,"tool_calls":null`),
	"a role and no tool calls":           delta(`"role":"assistant","content":"","tool_calls":[]`),
	"an empty delta":                     delta(``),
	"no choices":                         event(`{"id":"c","choices":[],"usage":null}`),
	"filter results before the first":    event(`{"choices":[],"prompt_filter_results":[{"prompt_index":0}]}`),
	"usage alone":                        event(`{"id":"c","choices":[],"usage":{"prompt_tokens":3}}`),
	"empty text":                         event(`{"choices":[{"index":0,"text":"","finish_reason":null}]}`),
	"an error that is null":              event(`{"error":null,"choices":[{"index":0,"delta":{"role":"assistant"}}]}`),
	"a malformed line":                   "data: {half\n\n",
	"a line that is not JSON":            event("hello"),
	"the beginnings of a response":       "event: response.created\n" + event(`{"type":"response.created","response":{"error":null,"status":"in_progress"}}`) + event(`{"type":"response.in_progress"}`) + event(`{"type":"response.queued"}`),
	"an item and a part of a response":   event(`{"type":"response.output_item.added","item":{}}`) + event(`{"type":"response.content_part.added","part":{"text":""}}`),
	"the beginnings of a message":        "event: message_start\n" + event(`{"type":"message_start","message":{"role":"assistant"}}`) + event(`{"type":"content_block_start","content_block":{"type":"text","text":""}}`),
	"a ping":                             "event: ping\n" + event(`{"type":"ping"}`),
	"everything with other ends of line": ": hi\r\n\r\n" + strings.ReplaceAll(delta(`"role":"assistant"`), "\n", "\r\n"),
}

var outputEvents = map[string]string{
	"content":                              delta(`"content":"Hel"`),
	"content with a role":                  delta(`"role":"assistant","content":"x"`),
	"content that is a space":              delta(`"content":" "`),
	"content without a space":              `data:{"choices":[{"delta":{"content":"x"}}]}` + "\n\n",
	"content in the second choice":         event(`{"choices":[{"index":0,"delta":{"role":"assistant"}},{"index":1,"delta":{"content":"x"}}]}`),
	"a tool call":                          delta(`"role":"assistant","tool_calls":[{"index":0,"id":"t","function":{"name":"f","arguments":""}}]`),
	"a refusal":                            delta(`"refusal":"No"`),
	"reasoning":                            delta(`"reasoning_content":"hm"`),
	"a finish without content":             event(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`),
	"text":                                 event(`{"choices":[{"index":0,"text":"x","finish_reason":null}]}`),
	"a delta of a response":                "event: response.output_text.delta\n" + event(`{"type":"response.output_text.delta","delta":"x"}`),
	"a response that is complete":          event(`{"type":"response.completed","response":{"error":null}}`),
	"a delta of a message":                 event(`{"type":"content_block_delta","delta":{"type":"text_delta","text":"x"}}`),
	"an event of an API that is not known": event(`{"audio":"AAAA"}`),
	"content that speaks of an error":      delta(`"content":"{\"error\":{}}"`),
}

var failureEvents = map[string]string{
	"an error":                         event(`{"error":{"message":"overloaded","type":"server_error"}}`),
	"an error without a space":         `data:{"error":{"message":"overloaded"}}` + "\n\n",
	"an error with other ends of line": `data: {"error":{"message":"overloaded"}}` + "\r\n\r\n",
	"an error that is a text":          event(`{"error":"overloaded"}`),
	"an error with empty choices":      event(`{"choices":[],"error":{"message":"overloaded","code":502}}`),
	"an error with a finished choice":  event(`{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}],"error":{"message":"overloaded","code":502}}`),
	"an error of Anthropic's":          "event: error\n" + event(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
	"an error of a response":           "event: error\n" + event(`{"type":"error","code":"server_error","message":"m","param":null}`),
	"a response that failed":           "event: response.failed\n" + event(`{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error"}}}`),
}

// A reader puts an answer's bytes in portions.
var portions = map[string]func(io.Reader) io.Reader{
	"at once": func(r io.Reader) io.Reader { return r }, "one by one": iotest.OneByteReader, "by halves": iotest.HalfReader, "EOF with the last bytes": iotest.DataErrReader,
}

func TestOutputIsWhatCommitsACall(t *testing.T) {
	t.Parallel()
	for in, portion := range portions {
		for before, preamble := range preambleEvents {
			for name, output := range outputEvents {
				rest := &more{text: "never read: " + doneEvent}
				res := answer("text/event-stream; charset=utf-8", io.MultiReader(portion(strings.NewReader(preamble+output)), rest))
				if why := checkBeginning(new(exchange.Call), res, true, nil); why != nil {
					t.Errorf("%s after %s, %s: %s", name, before, in, why)
				}
				if rest.read {
					t.Errorf("%s after %s, %s: read on after output", name, before, in)
				}
				if got, err := io.ReadAll(res.Body); err != nil || string(got) != preamble+output+"never read: "+doneEvent {
					t.Errorf("%s after %s, %s: the client gets %q, %v", name, before, in, got, err)
				}
			}
		}
	}
}

func TestAStreamThatBeginsWithAnErrorIsAFailure(t *testing.T) {
	t.Parallel()
	for in, portion := range portions {
		for before, preamble := range preambleEvents {
			for name, failure := range failureEvents {
				rest := &more{text: doneEvent}
				res := answer("text/event-stream", io.MultiReader(portion(strings.NewReader(preamble+failure)), rest))
				if why := checkBeginning(new(exchange.Call), res, true, nil); why == nil || rest.read {
					t.Errorf("%s after %s, %s: got %q, read on: %v", name, before, in, why, rest.read)
				}
				if got, err := io.ReadAll(res.Body); err != nil || string(got) != preamble+failure+doneEvent {
					t.Errorf("%s after %s, %s: the client gets %q, %v", name, before, in, got, err)
				}
			}
		}
	}
}

// An error after output is too late: it belongs to the client.
func TestAnErrorAfterOutputIsTheClients(t *testing.T) {
	t.Parallel()
	for name, failure := range failureEvents {
		text := outputEvents["content"] + failure
		res := answer("text/event-stream", strings.NewReader(text))
		if why := checkBeginning(new(exchange.Call), res, true, nil); why != nil {
			t.Errorf("%s: %s", name, why)
		}
		if got, err := io.ReadAll(res.Body); err != nil || string(got) != text {
			t.Errorf("%s: the client gets %q, %v", name, got, err)
		}
	}
}

func TestAStreamWithoutOutputIsAFailure(t *testing.T) {
	t.Parallel()
	reset := errors.New("reset")
	for in, portion := range portions {
		for name, preamble := range preambleEvents {
			for ending, with := range map[string]error{"ends": nil, "breaks off": reset} {
				body := portion(strings.NewReader(preamble))
				if with != nil {
					body = io.MultiReader(body, iotest.ErrReader(with))
				}
				res := answer("text/event-stream", body)
				if why := checkBeginning(new(exchange.Call), res, true, nil); why == nil || with != nil && !strings.Contains(fmt.Sprint(why), "reset") {
					t.Errorf("%s, %s, %s: got %q", name, in, ending, why)
				}
				if got, err := io.ReadAll(res.Body); string(got) != preamble || !errors.Is(err, with) {
					t.Errorf("%s, %s, %s: the client gets %q, %v", name, in, ending, got, err)
				}
			}
		}
	}
}

func TestAStreamOfNothingButCommentsIsTakenInTheEnd(t *testing.T) {
	t.Parallel()
	rest := &more{text: outputEvents["content"]}
	comments := strings.Repeat(": wait\n\n", 2*maxPeeked/8)
	res := answer("text/event-stream", io.MultiReader(strings.NewReader(comments), rest))
	if why := checkBeginning(new(exchange.Call), res, true, nil); why != nil || rest.read {
		t.Errorf("got %q, read on: %v", why, rest.read)
	}
	if got, err := io.ReadAll(res.Body); err != nil || string(got) != comments+outputEvents["content"] {
		t.Errorf("the client gets %d bytes, %v", len(got), err)
	}
}

func TestAJSONAnswerThatIsAnErrorIsAFailure(t *testing.T) {
	t.Parallel()
	big := strings.Repeat(" ", maxPeeked)
	for name, c := range map[string]struct {
		media, body string
		failed      bool
	}{
		"an error":                          {"application/json", `{"error":{"message":"overloaded"}}`, true},
		"an error with a charset":           {"application/json; charset=utf-8", `{"error":{"message":"overloaded"}}`, true},
		"an error with space around it":     {"application/json", " \n" + `{ "error" : { "message" : "overloaded" } } ` + "\n", true},
		"an error of Anthropic's":           {"application/json", `{"type":"error","error":{"type":"overloaded_error"}}`, true},
		"an error that is a text":           {"application/json", `{"error":"overloaded"}`, true},
		"an error with other members":       {"application/json", `{"error":{"message":"m"},"provider":"p"}`, true},
		"a completion":                      {"application/json", `{"choices":[{"message":{"content":"x"}}]}`, false},
		"a completion and an error":         {"application/json", `{"choices":[],"error":{"message":"m"}}`, false},
		"an error that is null":             {"application/json", `{"id":"r","error":null,"status":"completed"}`, false},
		"an error further in":               {"application/json", `{"data":[{"error":{"message":"m"}}]}`, false},
		"a text that speaks of one":         {"application/json", `{"text":"\"error\":{}"}`, false},
		"an object":                         {"application/json", `{}`, false},
		"a list":                            {"application/json", `[{"error":{}}]`, false},
		"no body":                           {"application/json", ``, false},
		"no JSON":                           {"application/json", `{"error":`, false},
		"an error behind what is looked at": {"application/json", `{"a":"` + big + `","error":{"message":"m"}}`, false},
		"an error of another media type":    {"text/plain", `{"error":{"message":"m"}}`, false},
		"an error of no media type":         {"", `{"error":{"message":"m"}}`, false},
		"audio":                             {"audio/mpeg", "\xff\xfb\x90", false},
	} {
		for in, portion := range portions {
			res := answer(c.media, portion(strings.NewReader(c.body)))
			if why := checkBeginning(new(exchange.Call), res, true, nil); (why != nil) != c.failed {
				t.Errorf("%s, %s: got %q", name, in, why)
			}
			if got, err := io.ReadAll(res.Body); err != nil || string(got) != c.body {
				t.Errorf("%s, %s: the client gets %q, %v", name, in, got, err)
			}
		}
	}
	reset := errors.New("reset")
	res := answer("application/json", io.MultiReader(strings.NewReader(`{"choices":[`), iotest.ErrReader(reset)))
	if why := checkBeginning(new(exchange.Call), res, true, nil); !strings.Contains(fmt.Sprint(why), "reset") {
		t.Errorf("an answer that breaks off: got %q", why)
	}
	if got, err := io.ReadAll(res.Body); string(got) != `{"choices":[` || !errors.Is(err, reset) {
		t.Errorf("an answer that breaks off: the client gets %q, %v", got, err)
	}
}

// Audio and the like are not looked at: a byte of them is output.
func TestAnswersOfOtherMediaAreNotRead(t *testing.T) {
	t.Parallel()
	for _, media := range []string{"audio/mpeg", "application/octet-stream", "text/plain", "image/png", "", "nonsense;"} {
		body := &more{text: "x"}
		if why := checkBeginning(new(exchange.Call), answer(media, body), true, nil); why != nil || body.read {
			t.Errorf("%s: got %q, read: %v", media, why, body.read)
		}
	}
}

// However an answer comes, the client gets each byte of it, once.
func TestNothingOfAnAnswerIsLost(t *testing.T) {
	t.Parallel()
	lines := []string{"\n", "\r\n", "data: ", "data:", "event: x\n", ": c\n", `{"choices":[{"delta":{"content":"x"}}]}`, `{"error":{}}`, "[DONE]", "\xff", "é", strings.Repeat("x", 5000)}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(lines), 0, 30).Draw(t, "stream"), "")
		media := rapid.SampledFrom([]string{"text/event-stream", "application/json", "audio/mpeg"}).Draw(t, "media")
		var body io.Reader = strings.NewReader(text)
		broken := rapid.Bool().Draw(t, "broken")
		reset := errors.New("reset")
		if broken {
			body = io.MultiReader(body, iotest.ErrReader(reset))
		}
		res := answer(media, rapid.SampledFrom([]func(io.Reader) io.Reader{iotest.HalfReader, iotest.OneByteReader, iotest.DataErrReader}).Draw(t, "portions")(body))
		checkBeginning(new(exchange.Call), res, true, nil)
		if got, err := io.ReadAll(res.Body); string(got) != text || errors.Is(err, reset) != broken {
			t.Fatalf("%q became %q, %v", text, got, err)
		}
	})
}

// Where nothing may follow, a stream begins with its first event that is not an error.
func TestAStreamGoesToTheClientWithItsFirstEvent(t *testing.T) {
	t.Parallel()
	const ping = "event: ping\ndata: {\"type\": \"ping\"}\n\n"
	first := delta(`"role":"assistant"`)
	for name, c := range map[string]struct {
		portions []string
		why      string // "": it goes to the client
		left     int    // portions that are not read
	}{
		"an event":                       {[]string{first, "more"}, "", 1},
		"an event in parts":              {[]string{first[:20], first[20:], "more"}, "", 1},
		"an event behind comments":       {[]string{": hi\n\n", ": hi\n\n", ping, first, "more"}, "", 1},
		"output":                         {[]string{outputEvents["content"], "more"}, "", 1},
		"an error":                       {[]string{failureEvents["an error"], "more"}, "began with an error", 1},
		"an error behind comments":       {[]string{": hi\n\n", ping, failureEvents["an error"]}, "began with an error", 0},
		"an error that came with others": {[]string{first + failureEvents["an error"]}, "began with an error", 0},
		"an error that came later":       {[]string{first, failureEvents["an error"]}, "", 1},
		"an error behind output":         {[]string{outputEvents["content"] + failureEvents["an error"]}, "", 0},
		"an error without its end":       {[]string{strings.TrimSuffix(failureEvents["an error"], "\n\n")}, "began with an error", 0},
		"nothing":                        {nil, "ended before any output", 0},
		"comments alone":                 {[]string{": hi\n\n"}, "ended before any output", 0},
		"[DONE] alone":                   {[]string{doneEvent}, "ended before any output", 0},
		"half an event":                  {[]string{first[:20]}, "ended before any output", 0},
	} {
		u := &provider{err: io.EOF}
		for _, p := range c.portions {
			u.portions = append(u.portions, []byte(p))
		}
		res := answer("text/event-stream", u)
		why := checkBeginning(new(exchange.Call), res, false, nil)
		if (why == nil) != (c.why == "") || !strings.Contains(fmt.Sprint(why), c.why) || len(u.portions) != c.left {
			t.Errorf("%s: got %v, %d portions left", name, why, len(u.portions))
		}
		if got, err := io.ReadAll(res.Body); err != nil || string(got) != strings.Join(c.portions, "") {
			t.Errorf("%s: the client gets %q, %v", name, got, err)
		}
	}
	body := &more{text: "{}"}
	if why := checkBeginning(new(exchange.Call), answer("application/json", body), false, nil); why != nil || body.read {
		t.Errorf("JSON: %v, read %v", why, body.read)
	}
}

// What is held of an answer while its beginning is waited for counts as memory of the call, at most what was
// read of it later, and nothing when the call is over.
func TestAHeldBeginningIsMemoryOfTheCall(t *testing.T) {
	t.Parallel()
	preambles := strings.Repeat(delta(`"role":"assistant"`), 400) // more than 16 KiB
	whole := answerOf(strings.Repeat("x", 20<<10))
	for name, c := range map[string]struct {
		media, begins, ends string
		held                int64 // at least, while the end is waited for
	}{
		"a stream": {"text/event-stream", preambles, delta(`"content":"Hel"`) + doneEvent, 64 << 10},
		"an event": {"text/event-stream", ": hi\n\n", delta(`"content":"Hel"`) + doneEvent, 4 << 10},
		"JSON":     {"application/json", whole[:18<<10], whole[18<<10:], 64 << 10},
	} {
		for _, full := range []bool{false, true} {
			b := newBench(t)
			b.gateway.InFlight = inflight.New(1 << 20)
			var held int64
			b.answers["one"] = func() *http.Response {
				before := b.gateway.InFlight.InUse()
				if full {
					b.gateway.InFlight.Resize(before)
				}
				body := io.MultiReader(strings.NewReader(c.begins), readerFunc(func([]byte) (int, error) {
					held = b.gateway.InFlight.InUse() - before
					return 0, io.EOF
				}), strings.NewReader(c.ends))
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {c.media}}, Body: io.NopCloser(body), ContentLength: -1}
			}
			w, _ := b.call(t, `{"model":"m","stream":`+strconv.FormatBool(c.media != "application/json")+`,"messages":[{"role":"user","content":"hi"}]}`, nil, "X-Gw-Config", twoTargets)
			if full != (w.Code == http.StatusServiceUnavailable) || !full && (w.Code != http.StatusOK || held < c.held) {
				t.Errorf("%s, full %v: status %d, %d bytes are held: %s", name, full, w.Code, held, w.Body)
			}
			if left := b.gateway.InFlight.InUse(); left != 0 {
				t.Errorf("%s, full %v: %d bytes are left", name, full, left)
			}
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// Comments keep a client waiting, and reach it if they go on.
func TestAStreamOfCommentsReachesTheClientInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, provider := io.Pipe()
		go func() {
			for range 10 {
				time.Sleep(5 * time.Second)
				if _, err := io.WriteString(provider, ": wait\n\n"); err != nil {
					return
				}
			}
		}()
		res, began := answer("text/event-stream", src), time.Now()
		if why := checkBeginning(new(exchange.Call), res, false, nil); why != nil || time.Since(began) > 2*maxQuiet {
			t.Errorf("%v after %v", why, time.Since(began))
		}
		_ = src.Close()
		time.Sleep(time.Minute) // until the provider has seen that
	})
}
