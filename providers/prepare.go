package providers

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/messages"
	"github.com/caddy-gw/gateway/providers/responses"
)

// A clientDialect is a dialect in which clients hold conversations.
type clientDialect struct {
	prefix string // of the ids of its answers
	parse  func(c *Call) (*chat.Request, error)
	whole  func(chat.Style) wholeWriter
	chunks func(chat.Style) chat.StreamWriter
	echo   func(body []byte) []byte // the members of the request that an answer repeats; nil: none
}

// A wholeWriter collects the events of an answer and writes it in one piece.
type wholeWriter interface {
	chat.Sink
	// Failed returns the error that the provider answered with, or nil.
	Failed() *chat.Event
	Append(dst []byte) []byte
}

var clientDialects = map[string]clientDialect{
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
			return responses.Parse(c.Body, responses.Options{Provider: c.Provider.Name, History: c.History, Tools: c.HistoryTools, Shorten: c.Shorten})
		},
		func(s chat.Style) wholeWriter { return &responses.Response{Style: s} },
		func(s chat.Style) chat.StreamWriter { return &responses.Events{Response: responses.Response{Style: s}} },
		responses.Echo,
	},
}

// Prepare returns the upstream request of a call, including its credential. An error of
// type *RequestError is the client's fault.
func (p *Provider) Prepare(c *Call) (*Request, error) {
	c.Provider = p
	r, err := p.request(c)
	if err != nil {
		return nil, err
	}
	return r, p.finish(c, r)
}

// finish completes a request with its URL and credential.
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

// following completes the requests that follow another one.
func (p *Provider) following(c *Call, then func(time.Time, []byte, http.Header) (*Request, error)) func(time.Time, []byte, http.Header) (*Request, error) {
	return func(now time.Time, body []byte, h http.Header) (*Request, error) {
		c.Now, c.Body = now, nil
		r, err := then(now, body, h)
		if r == nil || err != nil {
			return nil, requestError(err)
		}
		return r, p.finish(c, r)
	}
}

func (p *Provider) request(c *Call) (*Request, error) {
	if p.closed(c.Endpoint) {
		return nil, p.NotServed(c)
	}
	if list := p.Endpoints[ListModels]; list != nil && c.Endpoint == RetrieveModel {
		if r, err := p.modelFromList(c, list); r != nil || err != nil {
			return r, err
		}
	}
	if own := p.Endpoints[c.Endpoint]; own != nil {
		if r, err := own(c); r != nil || err != nil {
			return r, requestError(err)
		}
	}
	if p.has(c.Endpoint) && (p.Encoder == nil || c.Endpoint != ChatComplete) {
		r := p.pass(c)
		if p.oldStreams(c) {
			body := r.Body
			if body == nil {
				body = c.Body
			}
			var err error
			if r.Body, err = sjson.DeleteBytes(bytes.Clone(body), "stream_options"); err != nil {
				return nil, err
			}
		}
		return r, nil
	}
	if from, ok := clientDialects[c.Endpoint]; ok && c.Body != nil {
		return p.converse(c, from)
	}
	if c.Endpoint == CountTokens && c.Body != nil {
		return estimate(c)
	}
	return nil, p.NotServed(c)
}

// oldStreams reports whether a call must not have stream_options.
func (p *Provider) oldStreams(c *Call) bool {
	return p.OldStreams != nil && c.Body != nil && (c.Endpoint == ChatComplete || c.Endpoint == Complete) && p.OldStreams(c)
}

// converse writes a conversation in the provider's dialect.
func (p *Provider) converse(c *Call, from clientDialect) (*Request, error) {
	asked, err := from.parse(c)
	if err != nil {
		if unsupported := new(chat.Unsupported); errors.As(err, &unsupported) {
			return nil, requestError(err)
		}
		return nil, &RequestError{"", "invalid_json", "Invalid request body: " + err.Error()}
	}
	if c.Model != "" {
		asked.Model = chat.Quote(c.Model)
	}
	if c.Endpoint == Messages {
		c.Query = withoutBeta(c.Query)
	}
	forms, names := asked.Forms(), asked.Arrange(p.limits())
	d := p.dialect()
	left, err := asked.OwnTools(func(tool chat.Raw) chat.Raw {
		if d.Tool == nil {
			return nil
		}
		return d.Tool(c, tool)
	})
	if err != nil {
		return nil, requestError(err)
	}
	r, err := d.Request(c, asked)
	if err != nil {
		return nil, requestError(err)
	}
	r.Answer, r.Turns = d.answer(c, from, chat.Style{Functions: asked.Functions, Forms: forms}, names), responses.Turns(asked.Messages)
	for _, kind := range left {
		asked.Warn("the tool " + kind + " was left out: " + p.Name + " has none for this model")
	}
	r.Warnings = append(r.Warnings, asked.Warnings...)
	return r, nil
}

// withoutBeta returns a query without beta=true, which Anthropic's clients send to its API.
func withoutBeta(query string) string {
	kept := slices.DeleteFunc(strings.Split(query, "&"), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return name == "beta"
	})
	return strings.Join(kept, "&")
}

// requestError converts a *chat.Unsupported to a *RequestError.
func requestError(err error) error {
	var unsupported *chat.Unsupported
	if errors.As(err, &unsupported) {
		return &RequestError{unsupported.Param, or(unsupported.Code, "unsupported_parameter"), unsupported.Message}
	}
	return err
}

// Adapts reports whether the provider serves an endpoint only by translating it to a
// conversation.
func (p *Provider) Adapts(endpoint string) bool {
	_, ok := clientDialects[endpoint]
	return ok && !p.PassOnly && endpoint != ChatComplete && p.Endpoints[endpoint] == nil && !p.has(endpoint)
}

// DisplayName returns the name of the provider in answers, which is that of the
// x-gw-provider header.
func (c *Call) DisplayName() string { return or(c.Name, c.Provider.Name) }

// URL returns the upstream URL of one of OpenAI's paths.
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

// openAI is the dialect of compatible providers, for clients that use another one.
var openAI = &Dialect{
	Request: func(c *Call, r *chat.Request) (*Request, error) {
		words := c.Provider.encoder(c, r)
		if err := words.Check(r); err != nil {
			return nil, err
		}
		u, err := c.URL("/chat/completions")
		return &Request{URL: u, Body: words.Append(make([]byte, 0, r.SizeHint(len(c.Body))), r)}, err
	},
	Decoder: func(c *Call) chat.Decoder { return &chat.OpenAI{NewID: c.NewID, Sources: c.Provider.Sources} },
}

func (d *Dialect) answer(c *Call, from clientDialect, style chat.Style, names map[string]chat.Literal) *Answer {
	style.ID, style.Created, style.Model = from.prefix+c.NewID(), c.Now.Unix(), c.Model
	style.Provider, style.Dialect, style.Strict, style.Keep = c.DisplayName(), c.Provider.Name, c.Strict, c.Keep
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
			// Responses have ids made by the gateway, by which they and their items are
			// found.
			if id := h.Get(d.IDHeader); id != "" && c.Endpoint != CreateResponse {
				style.ID = id
				stream.Writer = from.chunks(style)
			}
		},
		Body: func(dst, body []byte, _ http.Header) ([]byte, error) {
			w := from.whole(style)
			if err := chat.Renamed(d.Decoder(c), names).Body(body, w); err != nil {
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

// Error implements error, for failures that arrive with status 200.
func (f *Failure) Error() string { return f.Message }

// Escape escapes a name as a single path segment.
func Escape(segment string) string { return url.PathEscape(segment) }
