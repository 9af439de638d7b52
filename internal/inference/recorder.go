package inference

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/providers"
)

// A recorder keeps an answer as it passes, for the cache.
type recorder struct {
	call   *exchange.Call // that pays for the memory of b
	src    io.ReadCloser
	media  string
	stream bool
	b      []byte
	full   bool          // there was no room for the rest
	whole  bool          // the answer came to its end
	flight *cache.Flight // of calls that wait for the answer; nil: none do
}

// record records an answer with status 200. It returns nil for other answers, and for those that
// are compressed.
func record(call *exchange.Call, flight *cache.Flight, res *http.Response) *recorder {
	if res.StatusCode != http.StatusOK || res.Body == nil || res.Header.Get("Content-Encoding") != "" {
		return nil
	}
	r := &recorder{call: call, src: res.Body, media: res.Header.Get("Content-Type"), flight: flight}
	media := mediaTypeOf(r.media)
	r.stream = media == "text/event-stream"
	res.Body = r
	return r
}

func (r *recorder) Read(p []byte) (int, error) {
	if r.flight != nil {
		r.flight.WriteDone()
		defer r.flight.WriteStarted()
	}
	n, err := r.src.Read(p)
	if !r.full && !r.keep(p[:n]) {
		r.call.Memory.Free(cap(r.b))
		r.full, r.b = true, nil
		if r.flight != nil {
			r.flight.Fail()
		}
	}
	r.whole = r.whole || errors.Is(err, io.EOF)
	return n, err
}

// keep keeps a part of the answer, and reports whether there is room for it.
func (r *recorder) keep(p []byte) bool {
	need := len(r.b) + len(p)
	if need > cap(r.b) {
		size := max(need, min(2*cap(r.b), cache.MaxEntry))
		if need > cache.MaxEntry || r.call.Memory.Reserve(size-cap(r.b)) != nil {
			return false
		}
		r.b = append(make([]byte, 0, size), r.b...)
	}
	r.b = append(r.b, p...)
	return true
}

func (r *recorder) Close() error { return r.src.Close() }

// entry is what the cache keeps of an endpoint's answer; nil: nothing, because the answer is not
// complete, or an error, or has credentials in it: in those of a caller, or in the events of a
// stream together, they are not hidden.
func (r *recorder) entry(endpoint string, out *exchange.Outcome, mask *credentials.Mask) *cache.Entry {
	switch {
	case r == nil, r.full, !r.whole, out.Status != http.StatusOK, out.Failure != "", out.Malformed > 0:
		return nil
	case r.stream && !cache.Streams(endpoint):
		return nil
	}
	if !r.stream && (!gjson.ValidBytes(r.b) || membersOf(r.b).onlyError()) {
		return nil
	}
	entry := &cache.Entry{Stream: r.stream, Type: r.media, Body: r.b}
	// A stream has to be convertible to one piece, which is what is checked.
	if whole, err := entry.As(endpoint, false); err != nil || !finished(endpoint, gjson.ParseBytes(whole)) || mask.In(whole) {
		return nil
	}
	return entry
}

// complete are the finish reasons, in lower case, by which providers say that an answer is
// complete. What other reasons mean is not known.
var complete = map[string]bool{
	"stop": true, "tool_calls": true, "function_call": true, "eos": true, "eos_token": true, "complete": true,
	"end_turn": true, "stop_sequence": true, "tool_use": true,
}

// finished reports whether an answer says that it is complete, in the caller's dialect. If the
// dialect has no finish reason, any answer that is not empty is.
func finished(endpoint string, answer gjson.Result) bool {
	is := func(reason gjson.Result) bool { return complete[strings.ToLower(reason.Str)] }
	if isError(answer) && endpoint != exchange.CreateResponse {
		return false
	}
	switch endpoint {
	case "chatComplete", "complete":
		choices := answer.Get("choices").Array()
		return len(choices) > 0 && !slices.ContainsFunc(choices, func(c gjson.Result) bool { return !is(c.Get("finish_reason")) })
	case providers.Messages:
		return is(answer.Get("stop_reason"))
	case exchange.CreateResponse: // one that goes on in the background is not complete
		return answer.Get("status").Str == "completed"
	}
	says := false
	answer.ForEach(func(_, _ gjson.Result) bool {
		says = true
		return false
	})
	return says
}
