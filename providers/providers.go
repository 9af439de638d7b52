// Package providers knows the model providers: where they are, how they authenticate,
// and how a call in a caller's dialect becomes theirs, and their answer the caller's.
// What is the same in both dialects stays as it is, byte for byte.
//
// A provider is a Caddy module gw.providers.<name>, registered by one line
// ([Register]). One that speaks like OpenAI is a row of data; one that does not brings
// functions on bytes: a [Dialect] for conversations, and an [Endpoint] for whatever else it
// has. Nothing here does HTTP, reads a clock or makes random numbers.
package providers

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/providers/chat"
)

// Names of the endpoints that providers translate.
const (
	ChatComplete   = "chatComplete"
	Complete       = "complete"
	Embed          = "embed"
	Moderate       = "moderate"
	OCR            = "ocr"
	Rerank         = "rerank"
	Messages       = "messages"
	CountTokens    = "messagesCountTokens"
	CreateResponse = "createModelResponse"
	ListModels     = "models"
	RetrieveModel  = "model"
	Proxy          = "proxy" // any other path: it goes to the base URL as it is
)

// A Provider is one model provider. Its zero value, with a name and an address, speaks
// OpenAI's API under a bearer token.
type Provider struct {
	Name string
	// BaseURL is where an endpoint's path, such as /chat/completions, begins. A name in
	// braces stands for a setting, such as {aws_region}. Empty: the caller must say.
	BaseURL string
	// Host is the setting, a URL, that says where the provider is, in the place of a base
	// URL. It is taken for a custom host.
	Host string
	// Address is where a path of OpenAI's goes; nil: below the base URL.
	Address func(c *Call, path string) (*url.URL, error)
	// Auth adds the credential to a request's headers. Default: a bearer token.
	Auth func(c *Call, h http.Header) error
	// Sign adds a credential that is made of the whole request, in the place of Auth. It
	// comes last: the URL, the method and the body, the call's where the request has
	// none of its own, are final.
	Sign func(c *Call, r *Request) error
	// Login says how the token is had that Auth sends, where the credential is not sent
	// itself; nil: it is. A login that returns nil wants none.
	Login func(c *Call) (*Login, error)
	// Headers are settings that become headers, by the setting's name.
	Headers map[string]string
	// Forward lists headers of the client that go on to this provider, beside [Forwarded].
	Forward []string

	// Serves lists the endpoints that the provider has in OpenAI's shape, beside the
	// conversation. An endpoint of [Translated] that it neither serves nor translates is
	// refused, or adapted through the conversation. Default: those of [OpenAIServes].
	Serves []string
	// Passes are paths below /v1 that it has beside the gateway's endpoints, and that pass
	// as they are.
	Passes credentials.Paths
	// Words are what it calls differently, and refuses; nil: nothing. With them, a body is
	// written anew.
	Words *chat.Words
	// Dialect is how it holds conversations; nil: as OpenAI does.
	Dialect *Dialect
	// Endpoints are what it has beside that, in its own shape.
	Endpoints map[string]Endpoint
	// Closed: it refuses members that OpenAI's API does not have.
	Closed bool
	// NewerNames: it takes max_completion_tokens, whatever the model.
	NewerNames bool
	// ThoughtsBack: it wants what its model thought in earlier turns back.
	ThoughtsBack bool
	// Limits are what it refuses that others take; nil: [OpenAILimits].
	Limits *chat.Limits
	// NoStreamUsage: it does not know stream_options, which ask for a stream's usage.
	NoStreamUsage bool
	// OldStreams reports whether the version of the API that a call goes to does not know them
	// yet, and refuses them; nil: it does.
	OldStreams func(c *Call) bool

	base     *url.URL // BaseURL, where no setting is in it
	settings []string // that are in it
}

// A Dialect is how a provider holds conversations.
type Dialect struct {
	// Request writes the upstream request of a conversation. Its Answer is set by whoever
	// calls it.
	Request func(c *Call, r *chat.Request) (*Request, error)
	// Decoder reads one answer.
	Decoder func(c *Call) chat.Decoder
	// Framer cuts a stream into messages; nil: server-sent events.
	Framer func() chat.Framer
	// Failure reads the body of an error answer; nil: [ReadFailure].
	Failure func(status int, h http.Header, body []byte) *Failure
	// IDHeader is the header in which the id of an answer stands, where its body has none.
	IDHeader string
}

// An Endpoint makes the upstream request of a call that is no conversation. Where it
// returns neither a request nor an error, the call is made as if there were no such
// endpoint: of the models of a provider, some may speak the caller's dialect.
type Endpoint func(c *Call) (*Request, error)

// A Call is what a provider is told of a call.
type Call struct {
	Provider *Provider
	Name     string // by which the caller knows the provider, such as the slug of a saved one
	Endpoint string
	Method   string
	Path     string // below a base URL, escaped
	Query    string
	Base     *url.URL
	Body     []byte // JSON; nil: none, or it passes through
	// Upload is a body that passes through, from its beginning, for who puts it into other
	// words; nil: there is none. What is read wrong is an [UploadError].
	Upload  io.Reader
	Model   string
	Stream  bool
	Strict  bool // strict_open_ai_compliance
	Key     credentials.Secret
	Token   credentials.Secret       // what the login gave
	Setting func(name string) string // of the provider, such as aws_region; "" where it is not given
	Header  func(name string) string // of the client, where it goes on; the name is canonical
	History []chat.Message           // the turns before a response's own
	Shorten int                      // how often the older half of the turns is dropped
	// Keep keeps the response that the conversation makes, before the caller has it; nil:
	// it is not kept.
	Keep  func(response []byte) error
	Now   time.Time
	NewID func() string // makes a unique id, for an answer to which the provider gives none
}

// A Request is an upstream request, as far as it differs from the call.
type Request struct {
	Method string   // default: the call's
	URL    *url.URL // default: the call's path below the base URL
	Header http.Header
	Body   []byte  // default: the call's body; empty, and not nil: none
	Answer *Answer // nil: the answer passes as it comes
	Turns  int     // of the conversation that it holds
	// Sign takes the place of the provider's, where a request goes to another service.
	Sign func(c *Call, r *Request) error
}

// An Answer translates what a provider answers. It is used once.
type Answer struct {
	// Begin is told the headers of an answer with status 2xx before it is translated; nil:
	// nobody asks.
	Begin func(h http.Header)
	// Then makes the request that follows, of an answer with status 2xx: what that one is
	// answered is the call's answer. Where it returns nil the answer at hand is. It is told
	// the time, since a credential may depend on it. The call's body is gone by then. nil:
	// nothing follows.
	Then func(now time.Time, body []byte, h http.Header) (*Request, error)
	// Whole appends the translation of an answer in one piece, with status 2xx.
	Whole func(dst, body []byte, h http.Header) ([]byte, error)
	// Stream translates a stream; nil: there is none. Without it and Whole the answer
	// passes.
	Stream Stream
	// Media is the content type of what Stream makes of an answer that is translated as it
	// comes, whatever its own type; "": it does so of events alone, and makes events.
	Media string
	// Failure reads the body of an answer with an error; nil: [ReadFailure].
	Failure func(status int, h http.Header, body []byte) *Failure
}

// A Stream translates the bytes of a stream, cut anywhere.
type Stream interface {
	Translate(dst, src []byte) ([]byte, error)
	// End appends what follows when the provider's stream has ended; an error means that
	// it broke off.
	End(dst []byte) ([]byte, error)
}

// A Login is how the token of a provider is had: a grant of OAuth 2.0.
type Login struct {
	// ServiceAccount is a key of Google's, in JSON; the grant is a signed JWT.
	ServiceAccount []byte
	// Otherwise the grant is a client's own credentials.
	TokenURL, ClientID string
	ClientSecret       credentials.Secret
	Scopes             []string
}

// A Refusal is why a call cannot go to a provider; the caller's fault.
type Refusal struct {
	Param, Code, Message string
}

func (r *Refusal) Error() string { return r.Message }

// An UploadError is why a body that passes through could not be read to its end.
type UploadError struct{ Err error }

func (e *UploadError) Error() string { return "reading the upload: " + e.Err.Error() }

func (e *UploadError) Unwrap() error { return e.Err }

// Forwarded lists the request headers of a client that go on to a provider, in
// canonical form. Everything else stays here, but for those of [Provider.Forward].
var Forwarded = []string{"Accept", "Content-Type", "Idempotency-Key", "Openai-Beta", "User-Agent", "X-Client-Request-Id"}

// ForwardedWebSocket lists what goes on beside it when a request is to become a
// WebSocket.
var ForwardedWebSocket = []string{
	"Connection", "Upgrade", "Sec-Websocket-Key", "Sec-Websocket-Version", "Sec-Websocket-Protocol", "Sec-Websocket-Extensions",
}

// ForwardedInline lists what goes on beside it when the credential is the caller's
// own: which of the credential's accounts pays is the caller's choice only then.
var ForwardedInline = []string{"Openai-Organization", "Openai-Project"}

// URL returns where a call goes: the base URL with path, such as "/chat/completions",
// added to it. The path is escaped, and stays as it is.
func URL(base *url.URL, path, query string) *url.URL {
	u := *base
	u.RawQuery = query
	plain, err := url.PathUnescape(path)
	if err != nil {
		plain = path
	}
	if u.RawPath != "" || plain != path {
		u.RawPath = strings.TrimSuffix(base.EscapedPath(), "/") + path
	}
	u.Path = strings.TrimSuffix(base.Path, "/") + plain
	return &u
}

// Bearer sends the credential, or the token that stands for it, as a bearer token.
func Bearer(c *Call, h http.Header) error {
	key := c.Key
	if !c.Token.Empty() {
		key = c.Token
	}
	if !key.Empty() {
		h["Authorization"] = []string{"Bearer " + key.Reveal()}
	}
	return nil
}

// KeyHeader sends the credential in a header of its own, named in canonical form.
func KeyHeader(name string) func(c *Call, h http.Header) error {
	return func(c *Call, h http.Header) error {
		if !c.Key.Empty() {
			h[name] = []string{c.Key.Reveal()}
		}
		return nil
	}
}

// Translated are the endpoints that stand in OpenAI's shape or are translated, and are
// refused where a provider has neither. What is not listed passes to every provider.
var Translated = []string{ChatComplete, Complete, Embed, Moderate, OCR, Rerank, Messages, CountTokens, CreateResponse}

// OpenAIServes are the endpoints that a provider that speaks like OpenAI is taken to
// have where its row does not say: it answers for itself what it does not.
var OpenAIServes = []string{Complete, Embed, Moderate, Rerank, OCR}

// OpenAILimits are those of OpenAI, and of who speaks like it.
var OpenAILimits = chat.Limits{ToolName: 64, User: 64}

// has reports whether the provider has an endpoint in OpenAI's shape.
func (p *Provider) has(endpoint string) bool {
	switch {
	case !slices.Contains(Translated, endpoint):
		return true
	case endpoint == ChatComplete:
		return p.Dialect == nil
	case p.Serves != nil:
		return slices.Contains(p.Serves, endpoint)
	}
	return p.Dialect == nil && slices.Contains(OpenAIServes, endpoint)
}
