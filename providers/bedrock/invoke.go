package bedrock

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
	"github.com/caddy-gw/gateway/providers/messages"
)

// version is the version of Anthropic's API on Bedrock if the body has none.
const version = "bedrock-2023-05-31"

// invoke sends a Messages request to one of Anthropic's models. The body is unchanged
// except for what Bedrock expects elsewhere, and so is the answer. Other models are called
// through Converse.
func invoke(c *providers.Call) (*providers.Request, error) {
	if !isAnthropic(foundation(c)) {
		return nil, nil
	}
	asked, names := messages.Pass(c.Body)
	if !messages.ModelOf(foundation(c)).OnBedrock().Schemas() {
		if hasFormat(asked) { // Converse is given a tool instead
			return nil, nil
		}
		asked = withoutStrictTools(asked)
	}
	body, stream, err := invokeBody(c, asked, false)
	if err != nil {
		return nil, err
	}
	operation, accept := "invoke", mediaJSON
	if stream {
		operation, accept = "invoke-with-response-stream", mediaStream
	}
	r, err := call(c, c.Model, operation, accept, body)
	if err != nil {
		return nil, err
	}
	r.Answer = providers.WithNames(&providers.Answer{
		Body:    message,
		Stream:  new(events),
		Failure: readFailure,
	}, names)
	return r, nil
}

// hasFormat reports whether a Messages request has a schema of the answer.
func hasFormat(body []byte) (has bool) {
	r := jsonscan.NewReader(body)
	r.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("output_format"):
			has = has || r.Value() != nil
		case key.Is("output_config"):
			r.Object(func(key jsonscan.Key) { has = has || key.Is("format") && r.Value() != nil })
		}
	})
	return has
}

// withoutStrictTools returns a Messages request whose tools are not strict.
func withoutStrictTools(body []byte) []byte {
	var p chat.Patch
	p.Start(body)
	p.Members(func(key jsonscan.Key) bool {
		if key.Is("tools") {
			p.Elements(func() bool {
				p.Members(func(key jsonscan.Key) bool { return !key.Is("strict") })
				return true
			})
		}
		return true
	})
	if edited := p.Edited(); edited != nil {
		return edited
	}
	return body
}

// message passes a complete answer on unchanged, after checking that it is one.
func message(dst, body []byte, _ http.Header) ([]byte, error) {
	var m messages.Message
	if err := new(messages.Decoder).Body(body, &m); err != nil {
		return dst, err
	}
	if e := m.Failed(); e != nil {
		return dst, &providers.Failure{Message: e.Text.Text(), Type: e.Name.Text(), Code: e.Name.Text()}
	}
	return append(dst, body...), nil
}

// invokeBody returns the body of a Messages request without the model and stream, which are
// in the URL, and with the version and the betas, which would otherwise be headers. A
// request that only counts tokens has no max_tokens, which Bedrock requires.
func invokeBody(c *providers.Call, asked []byte, counts bool) (body []byte, stream bool, err error) {
	b := jsonscan.Builder(make([]byte, 0, len(asked)+96))
	b.Open('{')
	var beta, thinking chat.Raw
	versioned, bounded := false, false
	err = jsonscan.Members(asked, func(m jsonscan.Member) error {
		v := chat.Raw(asked[m.Start:m.End])
		switch string(m.Key.Bytes()) {
		case "model":
			return nil
		case "stream":
			stream = string(v) == "true"
			return nil
		case "anthropic_beta":
			beta = v
			return nil
		case "anthropic_version":
			versioned = true
		case "max_tokens":
			bounded = true
		case "thinking":
			thinking = v
		}
		b.Raw(jsonscan.AppendQuoted(nil, m.Key.Bytes()))
		b = append(append(b, ':'), v...)
		return nil
	})
	if err != nil {
		return nil, false, &providers.RequestError{Code: "invalid_json", Message: "Invalid request body: " + err.Error()}
	}
	if !versioned {
		b.Key("anthropic_version").Text(version)
	}
	if counts && !bounded {
		bound := int64(1)
		if thinking != nil { // its budget must be smaller than max_tokens
			bound += chat.Int(member(jsonscan.NewReader(thinking), "budget_tokens"))
		}
		b.Key("max_tokens").Int(bound)
	}
	b.Member("anthropic_beta", betaList(beta, betas(c)))
	b.Close('}')
	return b, stream, nil
}

// events converts the stream of InvokeModelWithResponseStream to a Messages stream. Each
// chunk holds one event.
type events struct {
	framer  Framer
	out     []byte
	chunk   []byte
	skipped int
	ended   bool
}

// Translate appends the events that are complete.
func (s *events) Translate(dst, src []byte) ([]byte, error) {
	s.out = dst
	err := s.framer.Push(src, s.message)
	return s.out, err
}

// Buffered returns the size in bytes of the buffers for incomplete messages.
func (s *events) Buffered() int { return s.framer.Buffered() + cap(s.chunk) }

// End returns an error if the stream is incomplete.
func (s *events) End(dst []byte) ([]byte, error) {
	if err := s.framer.Rest(nil); err != nil {
		return dst, err
	}
	if !s.ended {
		return dst, chat.ErrCut
	}
	return dst, nil
}

// Skips returns the number of messages that were not JSON and were dropped.
func (s *events) Skips() int { return s.skipped }

func (s *events) message(name string, data []byte) error {
	switch {
	case strings.HasPrefix(name, failed):
		if !s.ended {
			s.failure(strings.TrimPrefix(name, failed), data)
		}
		s.ended = true
	case name == "chunk":
		var piece chat.Literal
		r := jsonscan.NewReader(data)
		r.Object(func(key jsonscan.Key) {
			if key.Is("bytes") {
				piece = r.String()
			}
		})
		var err error
		if s.chunk, err = base64.StdEncoding.AppendDecode(s.chunk[:0], encoded(piece)); err != nil || !s.event(s.chunk) {
			s.skipped++
		}
	}
	return nil
}

// event writes an event, if data is one.
func (s *events) event(data []byte) bool {
	r := jsonscan.NewReader(data)
	kind := chat.Literal(nil)
	ok := r.Object(func(key jsonscan.Key) {
		if key.Is("type") {
			kind = r.String()
		}
	})
	if !ok || r.Err() != nil {
		return false
	}
	if name := jsonscan.Inside(kind); plain(name) {
		s.out = append(append(append(s.out, "event: "...), name...), '\n')
	}
	s.ended = s.ended || kind.Is("message_stop") || kind.Is("error")
	for i, c := range data {
		if c == '\n' || c == '\r' { // newlines can only occur between values here, so any space will do
			data[i] = ' '
		}
	}
	s.out = append(append(append(s.out, "data: "...), data...), "\n\n"...)
	return true
}

// plain reports whether s can be used as the name of an event.
func plain(s []byte) bool {
	for _, c := range s {
		if !letterOrDigit(c) && c != '_' {
			return false
		}
	}
	return len(s) > 0
}

func (s *events) failure(exception string, data []byte) {
	e := failureEvent(exception, data)
	b := jsonscan.Builder(append(s.out, "event: error\ndata: "...))
	b.Open('{')
	b.Key("type").Text("error")
	b.Key("error").Open('{')
	b.Key("type").Raw(e.Name)
	b.Key("message").Raw(e.Text)
	b.Close('}')
	b.Close('}')
	b = append(b, "\n\n"...)
	s.out = b
}

// Interface guards
var _ providers.Stream = (*events)(nil)
