// Package inference is the data plane: it makes the attempts of a call, forwards
// them through Caddy's reverse proxy and watches the answers as they pass.
package inference

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/telemetry"
	"github.com/caddy-gw/gateway/providers"
)

// An attempt is one try to get a call answered: an upstream request, and what came
// of it. It travels in the context of the request that reverse_proxy forwards.
type attempt struct {
	x         *exchange.Exchange
	try       *exchange.Attempt // what the call knows of it; nil: it is not sent yet
	route     *credentials.Route
	method    string
	url       *url.URL
	header    http.Header // credential included
	body      *exchange.Buffer
	timeout   time.Duration     // until the answer begins; 0: none
	headers   time.Duration     // until its headers come, where there is no timeout; 0: none
	late      *deadline         // of the request under way
	steady    *steady           // the answer's body; nil: there is none, or it may be silent
	maxHeader int64             // bytes of an answer's headers that are read
	written   bool              // its body is not the client's, but in the provider's words
	idle      time.Duration     // that a stream may be silent after that; 0: for ever
	answer    *providers.Answer // translates what the provider answers; nil: it passes
	common    http.Header       // of the requests that follow the first; nil: none does
	upload    io.Closer         // what the provider reads of the body itself; nil: nothing
	// unasked: of a stream, the client does not ask for the usage; the gateway does.
	unasked bool
	// secrets are the credentials that went to the provider; where own is false, without the
	// caller's own.
	secrets func(own bool) []credentials.Secret
	// keep stores the response that the gateway makes; nil: nothing is to be stored.
	keep   func(response []byte) error
	claims *claims // of what the call makes; nil: it makes nothing that is noted
	// page gets another page of the list that the call asks for; nil: all of it may be seen.
	page func(query string) (status int, body []byte, err error)
	tape *tape // holds the answer, for the cache; nil: it is not kept
	// Of a response that is made of a conversation: how many turns that has, how often the
	// older half of them was dropped, whether more may be, and whether it was too long.
	turns, shortened       int
	mayShorten, overflowed bool
	// tentative: another attempt may follow, so a failure comes back instead of
	// going to the client.
	tentative bool
	// unsent: it is made for what the cache knows a call by. Where it would need a token, it
	// is unsigned, and another one is made to be sent.
	unsent, unsigned bool

	status int                // that the provider answered with; 0: it did not
	told   bool               // it is over, and counted
	span   *telemetry.Attempt // nil: Caddy's tracing is off

	// held is the answer of a tentative attempt that failed. It goes to the client
	// when nothing follows: the attempt is then run again, and answers with it.
	held *http.Response
}

type attemptKey struct{}

func withAttempt(ctx context.Context, a *attempt) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}

var errNoAttempt = errors.New("no attempt in this request: the gw transport and upstreams work only below gw_inference")

func attemptOf(ctx context.Context) (*attempt, error) {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		return a, nil
	}
	return nil, errNoAttempt
}

// An aim is what of a provider an attempt is for. With a model it is a call of the
// gateway's own, to which nothing of the client's goes.
type aim struct{ endpoint, method, path, query, model string }

// newAttempt shapes the upstream request of a call for one target, with the older half of
// its conversation dropped as often as shortened says; unsent, it may lack the token of a
// login. The caller calls close when the
// attempt is over.
func (f *Forwarder) newAttempt(ctx context.Context, x *exchange.Exchange, route *credentials.Route, t *routing.Target, shortened int, unsent bool) (*attempt, *exchange.Error) {
	p := dialect(route)
	body, unasked, err := x.Body(t.Edit(), route.Model, p.Dialect == nil && p.Words == nil && !p.NoStreamUsage)
	if err != nil {
		refusal := exchange.AsError(err)
		refusal.Caller = true
		return nil, refusal
	}
	a := &attempt{x: x, route: route, body: body, unasked: unasked, shortened: shortened, unsent: unsent}
	if refusal := f.guard(ctx, a, t, p); refusal != nil {
		a.close()
		return nil, refusal
	}
	if refusal := f.shape(ctx, a, t, aim{x.Endpoint.Name, x.Method(), x.Path, x.UpstreamQuery(), ""}); refusal != nil {
		a.close()
		return nil, refusal
	}
	return a, nil
}

// dialect is the provider whose dialect a route speaks.
func dialect(route *credentials.Route) *providers.Provider {
	p, ok := providers.Lookup(route.Dialect)
	if !ok {
		panic("route to the unknown dialect " + route.Dialect) // the router made it from the same table
	}
	return p
}

// shape makes the upstream request of an attempt: URL, headers, body.
func (f *Forwarder) shape(ctx context.Context, a *attempt, t *routing.Target, to aim) *exchange.Error {
	x, p := a.x, dialect(a.route)
	setting := func(name string) string { return setting(x, a.route, t, name) }
	strict, refusal := strict(x, t)
	if refusal != nil {
		return refusal
	}
	if strict && to.endpoint == providers.ChatComplete && x.Thinks(t.Edit()) {
		return refused(&providers.Refusal{Param: "thinking", Code: "thinking_not_allowed", Message: "'thinking' is only allowed where strict_open_ai_compliance is off: " +
			"send x-gw-strict-open-ai-compliance: false, or set it in the config"})
	}
	base := a.route.BaseURL
	if base == nil {
		var err error
		if base, err = p.Base(setting); err != nil {
			return refused(err)
		}
	}
	model, stream := to.model, false
	if model == "" {
		model, stream = x.SentModel(), x.Stream
		a.header = upstreamHeader(x, a.route, p, slices.Concat(x.ForwardHeaders, t.ForwardHeaders))
	} else {
		a.header = http.Header{"User-Agent": {""}}
	}
	call := &providers.Call{
		Provider: p, Name: a.route.Provider, Endpoint: to.endpoint, Method: to.method, Path: to.path, Query: to.query, Base: base,
		Model: model, Stream: stream, Strict: strict, Key: a.route.Key, Setting: setting,
		Header: a.header.Get, Now: x.Gateway.Now(), NewID: x.NewID,
	}
	if a.body != nil {
		call.Body = a.body.Bytes()
	}
	if refusal := f.adapt(a, call); refusal != nil {
		return refusal
	}
	if refusal := f.login(ctx, a, t, call); refusal != nil {
		return refusal
	}
	if x.PassesThrough() && p.Endpoints[to.endpoint] != nil {
		upload, _ := x.Upload()
		a.upload, call.Upload = upload, upload
	}
	r, err := p.Prepare(call)
	call.Body = nil // whoever else holds on to the call need not hold its body
	if unread := new(providers.UploadError); errors.As(err, &unread) {
		return failed(a, err)
	}
	if err != nil {
		return refused(err)
	}
	a.keep, a.secrets = call.Keep, func(own bool) []credentials.Secret {
		if !own && !a.route.Stored {
			return t.Edit().Secrets()
		}
		return slices.Concat(secretsOf(call, a.route), t.Edit().Secrets())
	}
	if r.Answer != nil && r.Answer.Then != nil {
		a.common = maps.Clone(a.header)
		delete(a.common, "Content-Type")
	}
	a.method = to.method
	if err := a.set(r); err != nil {
		return failed(a, err)
	}
	return nil
}

// set makes a provider's request the attempt's. The error says that there is no memory
// for its body.
func (a *attempt) set(r *providers.Request) (err error) {
	a.url, a.answer, a.turns = r.URL, r.Answer, r.Turns
	if r.Method != "" {
		a.method = r.Method
	}
	for name, v := range r.Header {
		a.header[name] = v
	}
	for name, v := range a.route.Header { // the operator's own, whatever the provider's
		a.header[name] = v
	}
	if r.Body == nil {
		return nil
	}
	if a.body != nil {
		a.body.Release()
	}
	a.written = true
	if a.body, err = a.x.NewBuffer(r.Body); err != nil {
		return err
	}
	switch {
	case len(r.Body) == 0:
		delete(a.header, "Content-Type")
	case r.Header["Content-Type"] == nil:
		a.header["Content-Type"] = []string{"application/json"}
	}
	return nil
}

// secretsOf are the credentials that a call takes along.
func secretsOf(call *providers.Call, route *credentials.Route) []credentials.Secret {
	secrets := []credentials.Secret{call.Key, call.Token}
	for _, name := range routing.SecretKeys {
		secrets = append(secrets, credentials.NewSecret(call.Setting(name)))
	}
	for _, values := range route.Header { // the operator's, of which some are credentials
		for _, v := range values {
			secrets = append(secrets, credentials.NewSecret(v))
		}
	}
	return secrets
}

// refused turns a provider's refusal of a call into what the client sees.
func refused(err error) *exchange.Error {
	var r *providers.Refusal
	if !errors.As(err, &r) {
		return &exchange.Error{Status: http.StatusInternalServerError, Type: "server_error", Gateway: true, Message: "The call cannot be put into the provider's words", Err: err}
	}
	return &exchange.Error{Status: http.StatusBadRequest, Type: "invalid_request_error", Param: r.Param, Code: r.Code, Message: r.Message}
}

// strict is whether answers hold to OpenAI's own fields: as the request says, or else the
// config. They do where nobody says.
func strict(x *exchange.Exchange, t *routing.Target) (bool, *exchange.Error) {
	switch v, ok := x.Gateway.Headers.Get(x.Header(), exchange.HeaderStrict); {
	case ok && v == "" && t.Strict != nil:
		return *t.Strict, nil
	case ok && v == "", ok && strings.EqualFold(v, "true"):
		return true, nil
	case ok && strings.EqualFold(v, "false"):
		return false, nil
	}
	const name = "x-gw-strict-open-ai-compliance"
	return true, refused(&providers.Refusal{Param: name, Code: "invalid_header", Message: "Invalid " + name + ": expected true or false"})
}

// setting is the value of a provider's setting. What is saved with a credential counts
// before what a config says, and a call's own headers count only beside the caller's own
// credential: nobody else decides where a stored one goes. So does a config not beside the
// credential of another resource, nor does its own secret go where that one does.
func setting(x *exchange.Exchange, route *credentials.Route, t *routing.Target, name string) string {
	if v, ok := route.Settings[name]; ok {
		return v.Reveal()
	}
	place := routing.IsPlace(name)
	if route.Inline || !place && !routing.IsSecret(name) {
		for _, s := range t.Vendor {
			if s.Name == name {
				return s.Value.Reveal()
			}
		}
	}
	if !route.Inline || place && route.Stored {
		return ""
	}
	v, _ := x.Gateway.Headers.Named(x.Header(), textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-")))
	return v
}

// close gives back what the attempt holds.
func (a *attempt) close() {
	if a.held != nil {
		// A little is read, so that the connection can be used again.
		_, _ = io.CopyN(io.Discard, a.held.Body, maxDrained)
		a.held.Body.Close()
		a.held = nil
	}
	if a.body != nil {
		a.body.Release()
		a.body = nil
	}
	if a.upload != nil {
		a.upload.Close()
	}
}

// errCommitted is that a body is gone, since an answer to it has come.
var errCommitted = errors.New("the request has its answer already")

// commit lets go of what only another attempt would need.
func (a *attempt) commit() {
	// Of a body in a provider's words, a translation may still hold parts.
	a.x.Commit(a.written || a.answer != nil)
	if a.body != nil {
		a.body.Release()
		a.body = nil
	}
}

const maxDrained = 64 << 10

// upstreamHeader builds the headers of an upstream request from an allow-list; it
// never filters the client's down. forward names what a config adds to the list.
func upstreamHeader(x *exchange.Exchange, route *credentials.Route, p *providers.Provider, forward []string) http.Header {
	client := x.Header()
	h := make(http.Header, len(providers.Forwarded)+len(route.Header)+2)
	h["User-Agent"] = []string{""} // none, rather than Go's
	lists := [...][]string{providers.Forwarded, forward, nil, nil, p.Forward}
	if !route.Stored {
		lists[2] = providers.ForwardedInline
	}
	if exchange.UpgradesToWebSocket(client) {
		lists[3] = providers.ForwardedWebSocket
	}
	for _, list := range lists {
		for _, name := range list {
			if v := client[name]; len(v) == 1 && v[0] != "" || len(v) > 1 && name != "Content-Type" {
				h[name] = v
			}
		}
	}
	if h["Content-Type"] == nil && x.HasJSON() {
		h["Content-Type"] = []string{"application/json"}
	}
	if key := h["Idempotency-Key"]; key != nil && x.Guarded() { // the same of another workspace is another
		sum := sha256.Sum256([]byte(x.Caller.WorkspaceID + "/" + key[0]))
		h["Idempotency-Key"] = []string{hex.EncodeToString(sum[:])}
	}
	if route.CallerHost {
		if name, values := x.Through(); values != nil {
			h[name] = values
		}
	}
	if offered, ok := h["Sec-Websocket-Protocol"]; ok {
		h["Sec-Websocket-Protocol"] = []string{strings.Join(exchange.WithoutKeys(offered), ", ")}
	}
	return h
}

// request is the attempt as an HTTP request. It takes the place of the one that
// reverse_proxy made, of which only the context stays.
func (a *attempt) request(proxied *http.Request) *http.Request {
	r := *proxied
	r.Method, r.URL, r.Host, r.Header = a.method, a.url, a.url.Host, a.header
	r.Body, r.GetBody, r.ContentLength = nil, nil, 0
	r.TransferEncoding, r.Trailer, r.Form, r.PostForm, r.MultipartForm = nil, nil, nil, nil, nil
	r.RequestURI, r.Close, r.Response = "", false, nil
	switch {
	case a.body != nil && len(a.body.Bytes()) == 0:
		r.Body = http.NoBody
	case a.body != nil:
		r.Body, r.ContentLength = a.body.Reader(), int64(len(a.body.Bytes()))
		// With it, net/http sends the request again where a kept connection turns
		// out to be dead before anything was written to it.
		r.GetBody = func() (io.ReadCloser, error) {
			if a.body == nil {
				return nil, errCommitted
			}
			return a.body.Reader(), nil
		}
	case a.x.PassesThrough():
		r.Body, r.ContentLength = a.x.Upload()
		r.Body = &uploading{r.Body, a}
	}
	return &r
}
