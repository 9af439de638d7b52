package providers

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/messages"
	"github.com/caddy-gw/gateway/providers/responses"
)

// A caller is a dialect in which callers hold conversations.
type caller struct {
	prefix string // of the ids of its answers
	parse  func(c *Call) (*chat.Request, error)
	whole  func(chat.Style) wholeWriter
	chunks func(chat.Style) chat.StreamWriter
	echo   func(body []byte) []byte // what an answer repeats of its request; nil: nothing
}

// A wholeWriter collects the events of an answer and writes it in one piece.
type wholeWriter interface {
	chat.Sink
	// Failed is the error that the answer is, or nil.
	Failed() *chat.Event
	Append(dst []byte) []byte
}

var callers = map[string]caller{
	ChatComplete: {
		"chatcmpl-", func(c *Call) (*chat.Request, error) { return chat.Parse(c.Body) },
		func(s chat.Style) wholeWriter { return &chat.Completion{Style: s} },
		func(s chat.Style) chat.StreamWriter { return &chat.Chunks{Style: s} },
		nil,
	},
	Messages: {
		"msg_", func(c *Call) (*chat.Request, error) { return messages.Parse(c.Body, c.Provider.Name) },
		func(s chat.Style) wholeWriter { return &messages.Message{Style: s} },
		func(s chat.Style) chat.StreamWriter { return &messages.Events{Style: s} },
		nil,
	},
	CreateResponse: {
		"resp_", func(c *Call) (*chat.Request, error) {
			return responses.Parse(c.Body, responses.Options{Provider: c.Provider.Name, History: c.History, Shorten: c.Shorten})
		},
		func(s chat.Style) wholeWriter { return &responses.Response{Style: s} },
		func(s chat.Style) chat.StreamWriter { return &responses.Events{Response: responses.Response{Style: s}} },
		responses.Echo,
	},
}

// Prepare makes the upstream request of a call, its credential included. An error of type
// *Refusal is the caller's fault.
func (p *Provider) Prepare(c *Call) (*Request, error) {
	c.Provider = p
	r, err := p.request(c)
	if err != nil {
		return nil, err
	}
	return r, p.finish(c, r)
}

// finish completes a request: where it goes, and its credential.
func (p *Provider) finish(c *Call, r *Request) (err error) {
	if r.URL == nil {
		if r.URL, err = c.URL(c.Path); err != nil {
			return err
		}
	}
	if r.Header == nil {
		r.Header = make(http.Header, 2)
	}
	for setting, name := range p.Headers {
		if v := c.Setting(setting); v != "" {
			r.Header[name] = []string{v}
		}
	}
	if r.Answer != nil && r.Answer.Then != nil {
		r.Answer.Then = p.following(c, r.Answer.Then)
	}
	sign := p.Sign
	if r.Sign != nil {
		sign = r.Sign
	}
	if sign != nil {
		if r.Method == "" {
			r.Method = c.Method
		}
		return sign(c, r)
	}
	if p.Auth != nil {
		return p.Auth(c, r.Header)
	}
	return Bearer(c, r.Header)
}

// following completes the requests that follow another.
func (p *Provider) following(c *Call, then func(time.Time, []byte, http.Header) (*Request, error)) func(time.Time, []byte, http.Header) (*Request, error) {
	return func(now time.Time, body []byte, h http.Header) (*Request, error) {
		c.Now, c.Body = now, nil
		r, err := then(now, body, h)
		if r == nil || err != nil {
			return nil, refusal(err)
		}
		return r, p.finish(c, r)
	}
}

func (p *Provider) request(c *Call) (*Request, error) {
	if list := p.Endpoints[ListModels]; list != nil && c.Endpoint == RetrieveModel {
		return p.oneOf(c, list)
	}
	if own := p.Endpoints[c.Endpoint]; own != nil {
		if r, err := own(c); r != nil || err != nil {
			return r, refusal(err)
		}
	}
	if p.has(c.Endpoint) && (p.Words == nil || c.Endpoint != ChatComplete) {
		body := p.unmarked(c)
		if p.oldStreams(c) {
			if body == nil {
				body = c.Body
			}
			var err error
			if body, err = sjson.DeleteBytes(bytes.Clone(body), "stream_options"); err != nil {
				return nil, err
			}
		}
		return &Request{Body: body}, nil
	}
	if from, ok := callers[c.Endpoint]; ok && c.Body != nil {
		return p.converse(c, from)
	}
	return nil, &Refusal{"x-gw-provider", "endpoint_not_supported", "Provider " + p.Name + " does not serve " + c.Method + " /v1" + c.Path}
}

// oldStreams reports whether a call must not have stream_options.
func (p *Provider) oldStreams(c *Call) bool {
	return p.OldStreams != nil && c.Body != nil && (c.Endpoint == ChatComplete || c.Endpoint == Complete) && p.OldStreams(c)
}

// converse holds a conversation in the provider's dialect.
func (p *Provider) converse(c *Call, from caller) (*Request, error) {
	asked, err := from.parse(c)
	if err != nil {
		if unsupported := new(chat.Unsupported); errors.As(err, &unsupported) {
			return nil, refusal(err)
		}
		return nil, &Refusal{"", "invalid_json", "Invalid request body: " + err.Error()}
	}
	if c.Model != "" {
		asked.Model = chat.Quote(c.Model)
	}
	limits := &OpenAILimits
	if p.Limits != nil {
		limits = p.Limits
	}
	names := asked.Arrange(*limits)
	d := p.dialect()
	r, err := d.Request(c, asked)
	if err != nil {
		return nil, refusal(err)
	}
	r.Answer, r.Turns = d.answer(c, from, asked.Functions, names), responses.Turns(asked.Messages)
	return r, nil
}

// refusal makes what a provider has no words for the caller's fault.
func refusal(err error) error {
	var unsupported *chat.Unsupported
	if errors.As(err, &unsupported) {
		return &Refusal{unsupported.Param, or(unsupported.Code, "unsupported_parameter"), unsupported.Message}
	}
	return err
}

// Adapts reports whether the provider serves an endpoint of callers by holding a
// conversation, and does not have it itself.
func (p *Provider) Adapts(endpoint string) bool {
	_, ok := callers[endpoint]
	return ok && endpoint != ChatComplete && p.Endpoints[endpoint] == nil && !p.has(endpoint)
}

// ShownAs is the name of the provider in answers: that of the x-gw-provider header.
func (c *Call) ShownAs() string { return or(c.Name, c.Provider.Name) }

// URL is where a path of OpenAI's goes.
func (c *Call) URL(path string) (*url.URL, error) {
	if c.Provider.Address != nil {
		return c.Provider.Address(c, path)
	}
	return URL(c.Base, path, c.Query), nil
}

func (p *Provider) dialect() *Dialect {
	if p.Dialect != nil {
		return p.Dialect
	}
	return openAI
}

// openAI is the dialect of who speaks like OpenAI, for callers who do not.
var openAI = &Dialect{
	Request: func(c *Call, r *chat.Request) (*Request, error) {
		words := c.Provider.spoken(c, r)
		u, err := c.URL("/chat/completions")
		return &Request{URL: u, Body: words.Append(make([]byte, 0, r.Room(len(c.Body))), r)}, err
	},
	Decoder: func(c *Call) chat.Decoder { return &chat.OpenAI{NewID: c.NewID} },
}

func (d *Dialect) answer(c *Call, from caller, functions bool, names map[string]chat.Literal) *Answer {
	style := chat.Style{
		ID: from.prefix + c.NewID(), Created: c.Now.Unix(), Model: c.Model, Provider: c.ShownAs(), Dialect: c.Provider.Name,
		Strict: c.Strict, Keep: c.Keep, Functions: functions,
	}
	if from.echo != nil {
		style.Echo = from.echo(c.Body)
	}
	framer := chat.Framer(new(chat.SSE))
	if d.Framer != nil {
		framer = d.Framer()
	}
	stream := &chat.Stream{Framer: framer, Decoder: chat.Renamed(d.Decoder(c), names), Writer: from.chunks(style)}
	return &Answer{
		Begin: func(h http.Header) {
			// A response has an id of the gateway's own, by which it and its items are found.
			if id := h.Get(d.IDHeader); id != "" && c.Endpoint != CreateResponse {
				style.ID = id
				stream.Writer = from.chunks(style)
			}
		},
		Whole: func(dst, body []byte, _ http.Header) ([]byte, error) {
			w := from.whole(style)
			if err := chat.Renamed(d.Decoder(c), names).Whole(body, w); err != nil {
				return dst, err
			}
			if e := w.Failed(); e != nil {
				f := Failure{Message: e.Text.Text(), Type: e.Name.Text(), Code: e.Name.Text()}
				return dst, &f
			}
			out := w.Append(dst)
			if c.Keep != nil {
				if err := c.Keep(out[len(dst):]); err != nil {
					return dst, err
				}
			}
			return out, nil
		},
		Stream:  stream,
		Failure: d.Failure,
	}
}

// Error makes a failure that came with status 200 an error.
func (f *Failure) Error() string { return f.Message }

// Escape is a name as one segment of a path, escaped once.
func Escape(segment string) string { return url.PathEscape(segment) }
