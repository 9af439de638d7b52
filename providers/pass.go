package providers

import (
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/responses"
)

// pass returns the request of a call that is passed on. Its body is the call's, unless the
// provider would refuse that: because of what the gateway added to earlier answers of other
// providers, or because of the provider's limits. Its answer is only changed if tools were
// renamed.
func (p *Provider) pass(c *Call) *Request {
	mayHave := func(names []string) bool { return c.MayHave == nil || slices.ContainsFunc(names, c.MayHave) }
	r := new(Request)
	var names map[string]chat.Literal
	switch {
	case c.Endpoint == ChatComplete && c.Body != nil && (p.StringContent || p.NoSchemas || mayHave(chat.PassMembers)):
		r.Body, names = chat.Pass(c.Body, chat.Foreign{
			// Google's OpenAI-compatible endpoint creates these signatures itself.
			Signatures:      c.Base == nil || !strings.HasSuffix(c.Base.Hostname(), ".googleapis.com"),
			Reasoning:       p.Closed,
			ReturnReasoning: p.ReturnReasoning,
			OfCalls:         p.Closed,
			OfMessages:      p.Closed || p.PlainMessages,
			StringContent:   p.StringContent,
			Schemas:         p.NoSchemas,
		}, p.limits())
	case c.Endpoint == CreateResponse && c.Body != nil && mayHave(responses.PassMembers):
		r.Body, names = responses.Pass(c.Body, p.limits())
	}
	r.Answer = WithNames(nil, names)
	return r
}

// limits returns the restrictions of the provider on requests.
func (p *Provider) limits() chat.Limits {
	if p.Limits != nil {
		return *p.Limits
	}
	return CompatibleLimits
}

// WithNames returns an answer in which renamed tools have their original names, which are
// values of names. answer, which is changed before that, may be nil: the provider's is passed
// on. If no tool was renamed, answer itself is returned.
func WithNames(answer *Answer, names map[string]chat.Literal) *Answer {
	if len(names) == 0 {
		return answer
	}
	var named Answer
	if answer != nil {
		named = *answer
	}
	stream := &renamedStream{Stream: named.Stream, restorer: newRestorer(names)}
	if before := named.Body; before != nil {
		named.Body = func(dst, body []byte, h http.Header) ([]byte, error) {
			out, err := before(nil, body, h)
			if err != nil {
				return dst, err
			}
			return newRestorer(names).whole(dst, out), nil
		}
	} else {
		named.Body = func(dst, body []byte, _ http.Header) ([]byte, error) {
			return newRestorer(names).whole(dst, body), nil
		}
	}
	named.Stream = stream
	return &named
}

// A renamedStream is a stream with the original names of tools.
type renamedStream struct {
	Stream // nil: the provider's is passed on
	*restorer
	out []byte
}

// Translate appends the next bytes. The beginning of what may be a name is kept until more comes.
func (s *renamedStream) Translate(dst, src []byte) (_ []byte, err error) {
	if s.Stream != nil {
		s.out, err = s.Stream.Translate(s.out[:0], src)
		src = s.out
	}
	return s.append(dst, src), err
}

// End appends what was kept, and what follows the end of the provider's stream.
func (s *renamedStream) End(dst []byte) (_ []byte, err error) {
	if s.Stream != nil {
		s.out, err = s.Stream.End(s.out[:0])
		dst = s.append(dst, s.out)
	}
	return s.end(dst), err
}

// Buffered returns the size in bytes of the buffers.
func (s *renamedStream) Buffered() int {
	n := cap(s.out) + cap(s.held)
	if b, ok := s.Stream.(interface{ Buffered() int }); ok {
		n += b.Buffered()
	}
	return n
}

// Skips returns the number of messages that were dropped.
func (s *renamedStream) Skips() int {
	if b, ok := s.Stream.(interface{ Skips() int }); ok {
		return b.Skips()
	}
	return 0
}

// A restorer replaces strings of JSON that are the new names of tools by the original ones.
// Those names end with a digest, so no other string is like them. They have no characters that
// are escaped, so a name inside another string, such as the arguments of a call, is not
// taken for one: its quotes are escaped.
type restorer struct {
	names   map[string]chat.Literal
	longest int
	held    []byte // a quote, and what may be the beginning of a name
	escape  bool   // the last byte was a backslash that escapes the next one
}

func newRestorer(names map[string]chat.Literal) *restorer {
	r := &restorer{names: names}
	for name := range names {
		r.longest = max(r.longest, len(name))
	}
	return r
}

func (r *restorer) whole(dst, src []byte) []byte { return r.end(r.append(dst, src)) }

// end appends what is held.
func (r *restorer) end(dst []byte) []byte {
	dst = append(dst, r.held...)
	r.held = r.held[:0]
	return dst
}

// append appends src, which may be cut anywhere.
func (r *restorer) append(dst, src []byte) []byte {
	for i := 0; i < len(src); i++ {
		c := src[i]
		if len(r.held) == 0 {
			if c == '"' && !r.escape {
				r.held = append(r.held, c)
				continue
			}
			r.escape = c == '\\' && !r.escape
			dst = append(dst, c)
			continue
		}
		if len(r.held) <= r.longest && chat.PlainName(c) {
			r.held = append(r.held, c)
			continue
		}
		if name, ok := r.names[string(r.held[1:])]; ok && c == '"' {
			dst, r.held = append(dst, name...), r.held[:0]
			continue
		}
		dst = r.end(dst)
		i-- // c may begin another string, or escape the next byte
	}
	return dst
}
