package inference

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// finish decides what follows the last whole line.
func (s *stream) finish(err error) {
	out := s.to.out
	ended := errors.Is(err, io.EOF)
	if ended {
		s.lastLine()
	}
	if s.end += s.waiting; s.waiting > 0 {
		s.open = true
	}
	if errors.Is(err, context.Canceled) { // the client left
		s.err = err
		if out.Complete = s.done; !s.done {
			out.Failure = whyClientStopped(s.to.x)
		}
		return
	}
	out.Complete = true // the client has the end of it, or was told of the error
	half := s.buf[s.end:]
	if s.spare { // it waited for the line after it
		half = nil
	}
	s.err = io.EOF
	switch {
	case s.done, ended && s.errored && len(half) == 0, ended && !s.to.x.Endpoint.Done && len(half) == 0 && (s.closed || !s.closes()):
		s.tail(nil)
	case ended && s.finished && len(half) == 0:
		s.tail([]byte("data: [DONE]\n\n"))
	default:
		if ended {
			err = io.ErrUnexpectedEOF
		}
		what, why := "broke off before its end", errorCode{"stream_error", "stream_interrupted"}
		out.Failure = "the provider's stream broke off: " + s.to.plain(err)
		if own := new(cut); errors.As(err, &own) {
			because := s.to.attempt.Mask.Text(own.why)
			what = "was ended by the gateway, because it " + because
			out.Failure, out.Cut = "the gateway ended the provider's stream, because it "+because, own.kind
			if own.kind == kindHooksFailed {
				why = errorCode{kindHooksFailed, codeDenied}
			}
		}
		s.tail(errorEvent(s.to.x.Endpoint.Name, "The stream of provider "+s.to.attempt.Route.Provider+" "+what, s.events, why))
	}
}

// lastLine takes the last line of a stream that forgot to end it, if it is whole: it is data, and
// JSON or [DONE].
func (s *stream) lastLine() {
	half := s.buf[s.end:]
	last := half[bytes.LastIndexByte(half, '\n')+1:]
	data, isData := bytes.CutPrefix(bytes.TrimRight(last, "\r"), []byte("data:"))
	if data = bytes.TrimSpace(data); !isData || len(data) == 0 || !isDone(data) && !wellFormed(data) {
		return
	}
	s.buf = append(s.buf[:len(s.buf)-len(last)+len(bytes.TrimRight(last, "\r"))], "\n\n"...)
	s.end = s.watch(s.end, 0, len(s.buf))
}

// A cut is why the gateway itself ends a stream.
type cut struct {
	kind string // in one word
	why  string // what the stream did

	cause error // nil: there is no other
}

func (c *cut) Error() string { return "it " + c.why }

func (c *cut) Unwrap() error { return c.cause }

// outOfMemory is the end of a stream for which the memory does not suffice; err is of package
// inflight.
func outOfMemory(err error) *cut {
	return &cut{kind: "gateway_overloaded", why: "needs more memory than the gateway has for it: " + err.Error(), cause: err}
}

// tail ends the last event, and replaces what is left of a line by another event, if there is one.
func (s *stream) tail(event []byte) {
	s.buf = s.buf[:s.end]
	if s.open {
		s.buf = append(s.buf, '\n')
	}
	s.buf = append(s.buf, event...)
	s.end = len(s.buf)
}

// An errorCode is the type and the code of an error event.
type errorCode struct{ kind, code string }

// codeDenied is the code of the error event by which a guardrail ends a stream.
const codeDenied = "guardrail_denied"

// errorEvent is an error event in the shape of an endpoint, the event with a number of its stream.
func errorEvent(endpoint, message string, number int64, why errorCode) []byte {
	var b jsonscan.Builder
	switch endpoint {
	case providers.Messages:
		b = append(b, "event: error\ndata: "...)
		b.Open('{')
		b.Key("type").Text("error")
		b.Key("error").Open('{')
		b.Key("type").Text("api_error")
		b.Key("message").Text(message)
		b.Key("code").Text(why.code)
		b.Close('}')
	case exchange.CreateResponse:
		b = append(b, "event: error\ndata: "...)
		b.Open('{')
		b.Key("type").Text("error")
		b.Key("code").Text(why.code)
		b.Key("message").Text(message)
		b.Key("param").Raw([]byte("null"))
		b.Key("sequence_number").Int(number)
	default:
		b = append(b, "data: "...)
		b.Open('{')
		b.Key("error").Open('{')
		b.Key("message").Text(message)
		b.Key("type").Text(why.kind)
		b.Key("param").Raw([]byte("null"))
		b.Key("code").Text(why.code)
		b.Close('}')
	}
	b.Close('}')
	return append(b, "\n\n"...)
}
