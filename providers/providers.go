// Package providers knows the model providers: their addresses, how they authenticate, and
// how to translate between their dialects and those of clients. What is the same in both
// dialects is passed on byte for byte.
//
// A provider is a Caddy module gw.providers.<name>, registered by one call of [Register]. A
// provider that is compatible with OpenAI is a row of data. Others come with functions on
// bytes: a [Dialect] for conversations, and an [Endpoint] for each of their other
// endpoints. Nothing in this package uses HTTP, a clock or a random source.
package providers

import (
	"io"
	"net/http"
	"net/url"
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
	Proxy          = "proxy" // any other path, relative to the base URL
)

// A Provider is one model provider. Its zero value, with a name and an address, uses
// OpenAI's API with a bearer token.
type Provider struct {
	Name string
	// BaseURL is the URL to which an endpoint's path, such as /chat/completions, is added.
	// A name in braces is replaced by a setting, such as {aws_region}. If it is empty, the
	// configuration must set one.
	BaseURL string
	// Host is the name of a setting, a URL, that replaces the base URL. It is treated as a
	// custom host.
	Host string
	// Address returns the URL of one of OpenAI's paths. Default: below the base URL.
	Address func(c *Call, path string) (*url.URL, error)
	// Auth adds the credential to a request's headers. Default: a bearer token.
	Auth func(c *Call, h http.Header) error
	// Sign adds a credential that depends on the whole request, and replaces Auth. It is
	// called last, when the URL, the method and the body are final. If the request has no
	// body of its own, the call's is sent.
	Sign func(c *Call, r *Request) error
	// Login returns the grant by which the token that Auth sends is obtained. If it is nil,
	// or returns nil, the credential itself is sent.
	Login func(c *Call) (*Login, error)
	// OwnHosts are domains of the provider other than that of its base URL, such as .openai.azure.com: what the
	// gateway's machine is goes to these hosts only.
	OwnHosts []string
	// Headers maps settings to the headers that they are sent in.
	Headers map[string]string
	// Forward lists headers of the client that are forwarded to this provider in addition
	// to [Forwarded]. If the provider has OpenAI's API, OpenAI's are added to it.
	Forward []string

	// Serves lists the endpoints, besides conversations, that the provider serves in
	// OpenAI's form, or in its own at the same path. An endpoint of [Translated] that it
	// neither serves nor translates is refused, or adapted to a conversation, as is any
	// endpoint of the gateway if the provider has a Dialect. Default: [OpenAIServes], and
	// nothing for a provider with a Dialect.
	Serves []string
	// PassOnly is set if the provider has no conversations: besides Endpoints, only its own paths are passed on to it.
	PassOnly bool
	// Passes lists paths below /v1 that the provider serves in addition to the gateway's
	// endpoints, and that are forwarded unchanged.
	Passes credentials.Paths
	// Encoder describes how the provider's requests differ from OpenAI's. If it is set,
	// bodies are rewritten.
	Encoder *chat.Encoder
	// Dialect translates conversations. If it is nil, the provider uses OpenAI's.
	Dialect *Dialect
	// Endpoints are the provider's other endpoints that need translation.
	Endpoints map[string]Endpoint
	// Closed is set if the provider refuses members that are not part of OpenAI's API.
	Closed bool
	// PlainMessages is set if it refuses such members of messages and tools, except for their
	// reasoning.
	PlainMessages bool
	// StringContent is set if it refuses arrays of texts as content, and the role developer.
	StringContent bool
	// NoSchemas is set if it has no schemas of answers: they are described to the model.
	NoSchemas bool
	// NewerNames is set if the provider accepts max_completion_tokens for every model.
	NewerNames bool
	// ReturnReasoning is set if the provider expects the reasoning of earlier turns back.
	ReturnReasoning bool
	// MaxEffort is set if the provider accepts the reasoning effort max, beyond high.
	MaxEffort bool
	// SwitchesThinking is set if thinking says whether the model reasons, and not the effort
	// none.
	SwitchesThinking bool
	// Sources is set if answers list the web pages that they cite next to the choices, in
	// citations and search_results.
	Sources bool
	// Limits are restrictions on requests. Default: [CompatibleLimits].
	Limits *chat.Limits
	// FileModel returns the model of the calls in a file that was uploaded for a batch, by the file's id, or "".
	// Nil: the lines of the file name it.
	FileModel func(id string) string
	// NoStreamUsage is set if the provider does not support stream_options, which request a
	// stream's usage.
	NoStreamUsage bool
	// OldStreams reports whether a call uses a version of the API that refuses
	// stream_options. It may be nil.
	OldStreams func(c *Call) bool

	base     *url.URL // the parsed BaseURL, if it has no settings
	settings []string // in BaseURL
}

// A Dialect translates conversations for a provider.
type Dialect struct {
	// Request writes the upstream request of a conversation. The caller sets its Answer.
	Request func(c *Call, r *chat.Request) (*Request, error)
	// Decoder returns a decoder for one answer.
	Decoder func(c *Call) chat.Decoder
	// Framer splits a stream into messages. Default: server-sent events.
	Framer func() chat.Framer
	// Failure reads the body of an error answer. Default: [ReadFailure].
	Failure func(status int, h http.Header, body []byte) *Failure
	// IDHeader is the header with the id of an answer, if the body has none.
	IDHeader string
	// Tool returns the provider's own form of a tool that runs at OpenAI, such as a web
	// search, or nil if the model has none. If Tool is nil, no model has one. It is only used
	// with functions.
	Tool func(c *Call, tool chat.Raw) chat.Raw
}

// An Endpoint writes the upstream request of a call that is not a conversation. If it
// returns neither a request nor an error, the call is treated as if there were no such
// endpoint: a provider may have models that use the client's dialect.
type Endpoint func(c *Call) (*Request, error)

// A Call holds what a provider needs to know of a call.
type Call struct {
	Provider *Provider
	Name     string // the name by which the client selected the provider, such as a slug
	Endpoint string
	Method   string
	Path     string // relative to a base URL, escaped
	Query    string
	Base     *url.URL
	Body     []byte // JSON; nil: none, or it is streamed
	// MayHave reports false if no object of the body, at any depth, has a member of this name,
	// without reading it. nil: it is unknown.
	MayHave func(name string) bool
	// Upload is the streamed body from its beginning, for providers that translate it; nil
	// if there is none. Errors in it are [UploadError]s.
	Upload io.Reader
	Model  string
	Stream bool
	Strict bool // strict_open_ai_compliance
	Key    credentials.Secret
	Token  credentials.Secret // the result of the login
	// Machine: the gateway's machine may log in, as the organisation or the operator has saved the credential.
	Machine bool
	Setting func(name string) string // a setting of the provider, such as aws_region; "" if it is not set
	Header  func(name string) string // a header of the client that is forwarded; the name is canonical
	// History has the turns before this response, and HistoryTools the tools that they added.
	History      []chat.Message
	HistoryTools []chat.Tool
	Shorten      int // how many times to drop the older half of the turns
	// Keep stores the response that the conversation creates, before the client receives
	// it. If it is nil, the response is not stored.
	Keep  func(response []byte) error
	Now   time.Time
	NewID func() string // makes a unique id, for answers without one
}

// A Request is an upstream request. Unset fields are taken from the call.
type Request struct {
	Method string   // default: the call's
	URL    *url.URL // default: the call's path below the base URL
	Header http.Header
	Body   []byte  // default: the call's body; empty, but not nil: none
	Answer *Answer // nil: the answer is passed on unchanged
	Turns  int     // of the conversation
	// Warnings say what of the call was left out although its caller may count on it. The caller
	// gets them in a header.
	Warnings []string
	// Estimate is an answer that the gateway gives itself, in JSON: nothing is sent. nil: there is
	// none.
	Estimate []byte
	// Sign replaces the provider's, for a request to another service.
	Sign func(c *Call, r *Request) error
}

// An Answer translates the answer of a provider. It is used once.
type Answer struct {
	// Begin is called with the headers of an answer with status 2xx before it is
	// translated. It may be nil.
	Begin func(h http.Header)
	// Then returns a request that follows an answer with status 2xx, and whose answer
	// replaces it as the call's. If it returns nil, the current answer is used. now is
	// passed because a credential may depend on it. The call's body is no longer available.
	// Then may be nil.
	Then func(now time.Time, body []byte, h http.Header) (*Request, error)
	// Body appends the translation of a complete answer with status 2xx.
	Body func(dst, body []byte, h http.Header) ([]byte, error)
	// Stream translates a stream. If both it and Body are nil, the answer is passed on
	// unchanged.
	Stream Stream
	// Media is the content type of Stream's output, if answers of any type are translated
	// as a stream. If it is empty, only event streams are, and the output is one.
	Media string
	// Failure reads the body of an error answer. Default: [ReadFailure].
	Failure func(status int, h http.Header, body []byte) *Failure
}

// A Stream translates the bytes of a stream, which may be cut anywhere.
type Stream interface {
	Translate(dst, src []byte) ([]byte, error)
	// End appends what follows the end of the provider's stream. An error means that the
	// stream was incomplete.
	End(dst []byte) ([]byte, error)
}

// A Login is an OAuth 2.0 grant for a provider's token, the assumption of a role of AWS, or what the gateway's machine
// is, which only a call with [Call.Machine] may be.
type Login struct {
	// Role is what AWS's Security Token Service is asked for. The token is a [RoleToken].
	Role *AssumedRole
	// Azure is what the gateway's machine is for Azure. The token is one of Entra ID.
	Azure *AzureIdentity
	// ServiceAccount is a Google service account key, in JSON. The grant is a signed JWT.
	ServiceAccount []byte
	// Otherwise, the grant is client credentials.
	TokenURL, ClientID string
	ClientSecret       credentials.Secret
	Scopes             []string
}

// OfMachine reports whether the gateway's machine logs in, and no credential.
func (l *Login) OfMachine() bool { return l.Azure != nil || l.Role != nil && l.Role.Machine }

// An AssumedRole is a role of AWS that the keys of an account may assume.
type AssumedRole struct {
	Region, ARN, ExternalID string
	Keys                    RoleToken
	// Machine: the role is assumed by what the gateway's machine is, without Keys; "" for ARN: it is that itself.
	Machine bool
}

// An AzureIdentity is what the gateway's machine is for Azure: a managed identity, of which Client chooses one, or,
// if it is Federated, the application Client of Tenant that trusts the workload. "": those of the environment.
type AzureIdentity struct {
	Authority, Resource string // where to log in, and for what
	Tenant, Client      string
	Federated           bool
}

// A RoleToken is a key pair of AWS, with a session token if it is that of a role. As a token, it is
// encoded by [RoleToken.Secret].
type RoleToken struct {
	AccessKeyID, SecretAccessKey, SessionToken string
}

// Secret encodes the keys.
func (t RoleToken) Secret() credentials.Secret {
	return credentials.NewSecret(t.AccessKeyID + " " + t.SecretAccessKey + " " + t.SessionToken)
}

// ReadRoleToken decodes what [RoleToken.Secret] has encoded. AWS's keys have no spaces; of another text,
// all is the id.
func ReadRoleToken(s credentials.Secret) (t RoleToken) {
	t.AccessKeyID, t.SecretAccessKey, _ = strings.Cut(s.Reveal(), " ")
	t.SecretAccessKey, t.SessionToken, _ = strings.Cut(t.SecretAccessKey, " ")
	return t
}

// A RequestError says why a call cannot be sent to a provider. It is the client's fault.
type RequestError struct {
	Param, Code, Message string
}

func (r *RequestError) Error() string { return r.Message }

// An UploadError says why a streamed body could not be read completely.
type UploadError struct{ Err error }

func (e *UploadError) Error() string { return "reading the upload: " + e.Err.Error() }

func (e *UploadError) Unwrap() error { return e.Err }

// Forwarded lists the request headers of a client that are forwarded to providers, in
// canonical form. No others are, except those of [Provider.Forward].
var Forwarded = []string{"Accept", "Content-Type", "Idempotency-Key", "User-Agent", "X-Client-Request-Id"}

// forwardedToOpenAI lists the headers that are also forwarded to providers with OpenAI's API.
var forwardedToOpenAI = []string{"Openai-Beta"}

// ForwardedWebSocket lists the headers that are also forwarded with a WebSocket handshake. There
// are no extensions among them: compressed messages could not be read.
var ForwardedWebSocket = []string{
	"Connection", "Upgrade", "Sec-Websocket-Key", "Sec-Websocket-Version", "Sec-Websocket-Protocol",
}

// ForwardedInline lists the headers that are also forwarded if the client uses its own
// credential. Only then may it choose which account is billed.
var ForwardedInline = []string{"Openai-Organization", "Openai-Project"}

// URL returns the base URL with a path, such as "/chat/completions", added to it. The path
// is escaped, and is not changed.
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

// VersionedURL is [URL] for a provider whose paths have the version, if any, such as "/v1beta/models": a version at the
// end of the base URL is left out.
func VersionedURL(base *url.URL, path, query string) *url.URL {
	own := strings.TrimSuffix(base.Path, "/")
	if i := strings.LastIndexByte(own, '/'); i >= 0 && isVersion(own[i+1:]) && base.RawPath == "" {
		u := *base
		u.Path = own[:i]
		base = &u
	}
	return URL(base, path, query)
}

// isVersion reports whether a segment of a path is the version of an API, such as v1 and v1beta.
func isVersion(segment string) bool {
	return len(segment) > 1 && segment[0] == 'v' && segment[1] >= '0' && segment[1] <= '9'
}

// Bearer sends the credential, or the token obtained for it, as a bearer token.
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

// KeyHeader sends the credential in the header with the given canonical name.
func KeyHeader(name string) func(c *Call, h http.Header) error {
	return func(c *Call, h http.Header) error {
		if !c.Key.Empty() {
			h[name] = []string{c.Key.Reveal()}
		}
		return nil
	}
}

// Limits of OpenAI's API, of which compatible providers have more.
var (
	OpenAILimits     = chat.Limits{ToolName: 64, User: 64}
	CompatibleLimits = chat.Limits{ToolName: 64, User: 64, SystemFirst: true, NoAllowedTools: true}
)
