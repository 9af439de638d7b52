package inference

import (
	"bytes"
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

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/providers"
)

// A request is a request to a provider, for an attempt or for the gateway itself.
type request struct {
	call   *exchange.Call
	target *exchange.Attempt // the target that was chosen
	method string
	url    *url.URL
	header http.Header       // including the credential
	body   *exchange.Buffer  // nil: there is none, or the client's body passes through
	answer *providers.Answer // translates the answer; nil: it is not translated
	common http.Header       // headers of the requests that follow; nil: none follow
	upload io.Closer         // the part of the client's body that the dialect reads itself; may be nil

	estimate []byte   // the answer, which the gateway gives itself; nil: there is none
	warnings []string // for the caller

	// rewritten: the body was made by the provider's dialect.
	rewritten bool
	// addedUsage: the gateway asks for the usage of a stream, and the client does not.
	addedUsage bool
	// unsigned: a token is missing, so that this request cannot be sent.
	unsigned bool
	// withheld: the response is stored only when hooks have looked at it.
	withheld bool
	// configTarget is the config's target whose secrets the provider gets; nil: it gets none yet.
	configTarget *routing.Target
	masks        [2]*credentials.Mask // see mask
	// store stores the response that the gateway makes; nil: it is not stored.
	store func(response []byte) error
	// unstored is the response, if it is withheld, until hooks have looked at it.
	unstored []byte
	// reports is the watcher of the answer; nil: there is none.
	reports      *watcher
	conversation conversation

	asked providers.Call // as the provider's dialect sees it
	small bytes.Reader   // of a small body, when it is sent for the first time
}

// A conversation is what a response is made from, if the provider lacks the Responses API.
type conversation struct {
	adapted    bool // the response is made from a conversation
	turns      int
	shortened  int  // how often the older half of them was dropped
	mayShorten bool // if the conversation is too long
}

// An operation is what a request asks of a provider.
type operation struct{ endpoint, method, path, query string }

// newRoundTrip makes the request of a call for the target that was chosen, with the older half of
// its conversation dropped shortened times. If send is false, it may lack the token of a login.
// The caller closes it.
func (f *Forwarder) newRoundTrip(ctx context.Context, x *exchange.Exchange, t *routing.Target, path string, shortened int, send bool) (*roundTrip, *exchange.Error) {
	target := x.Chosen()
	p := dialect(target.Route)
	body, unasked, err := target.Payload().JSON(p.Dialect == nil && p.Encoder == nil && !p.NoStreamUsage)
	if err != nil {
		refusal := exchange.AsError(err)
		refusal.Caller = true
		return nil, refusal
	}
	rt := &roundTrip{
		request: request{call: x.Call, target: target, body: body, addedUsage: unasked, conversation: conversation{shortened: shortened}},
		watcher: watcher{x: x},
	}
	rt.reports = &rt.watcher
	refusal := f.checkRequest(ctx, rt, t, path)
	if refusal == nil {
		refusal = f.shape(ctx, &rt.request, t, operation{x.Endpoint.Name, x.Method(), path, target.Payload().Query()}, send)
	}
	if refusal != nil {
		rt.close()
		return nil, refusal
	}
	rt.renameModel()
	return rt, nil
}

// checkRequest asks the hooks that look at requests.
func (f *Forwarder) checkRequest(ctx context.Context, rt *roundTrip, t *routing.Target, path string) *exchange.Error {
	for _, h := range f.hooks {
		hook, ok := h.(RequestHook)
		if !ok {
			continue
		}
		rt.hooked = Request{Attempt: rt.target, Target: t, Path: path, rt: rt}
		if rt.body != nil {
			rt.hooked.Body = rt.body.Bytes()
		}
		follower, refusal := hook.Request(ctx, &rt.hooked)
		rt.hooked = Request{} // the body is released before the round trip
		if refusal != nil {
			return refusal
		}
		if follower != nil {
			rt.followers = append(rt.followers, follower)
		}
	}
	return nil
}

// dialect is the provider whose dialect a route speaks.
func dialect(route *credentials.Route) *providers.Provider {
	p, ok := providers.Lookup(route.Dialect)
	if !ok {
		panic("route to the unknown dialect " + route.Dialect) // the router uses the same table
	}
	return p
}

// shape makes the URL, the headers and the body of a request. If send is false, it may lack the
// token of a login.
func (f *Forwarder) shape(ctx context.Context, q *request, t *routing.Target, to operation, send bool) *exchange.Error {
	c, route := q.call, q.target.Route
	p := dialect(route)
	setting := func(name string) string { return setting(c, route, t, name) }
	strict, refusal := strict(c, t)
	if refusal != nil {
		return refusal
	}
	if strict && to.endpoint == providers.ChatComplete && q.target.Payload().Thinks() {
		return refused(&providers.RequestError{Param: "thinking", Code: "thinking_not_allowed", Message: "'thinking' is only allowed where strict_open_ai_compliance is off: " +
			"send x-gw-strict-open-ai-compliance: false, or set it in the config"})
	}
	base := route.BaseURL
	if base == nil {
		var err error
		if base, err = p.Base(setting); err != nil {
			return refused(err)
		}
	}
	if q.header, refusal = upstreamHeader(c, q.target, p, slices.Concat(c.Options.ForwardHeaders, t.ForwardHeaders)); refusal != nil {
		return refusal
	}
	call := &q.asked
	*call = providers.Call{
		Provider: p, Name: route.Provider, Endpoint: to.endpoint, Method: to.method, Path: to.path, Query: to.query, Base: base,
		Model: q.target.Model, Stream: c.Stream, Strict: strict, Key: route.Key, Setting: setting,
		Header: q.header.Get, Now: c.Gateway.Now(), NewID: c.NewID, Machine: route.Machine,
	}
	if q.body != nil {
		call.Body, call.MayHave = q.body.Bytes(), q.target.Payload().MayHave
	}
	if refusal := f.adapt(q, call); refusal != nil {
		return refusal
	}
	if err := p.Check(call); err != nil {
		return refused(err)
	}
	if refusal := f.login(ctx, q, t, call, send); refusal != nil {
		return refusal
	}
	if c.Body.PassesThrough() && p.Endpoints[to.endpoint] != nil {
		upload, _ := q.target.Payload().Upload()
		q.upload, call.Upload = upload, upload
	}
	r, err := p.Prepare(call)
	call.Body = nil // the call may be retained, its body need not be
	if err != nil {
		if unread := new(providers.UploadError); errors.As(err, &unread) {
			return q.failure(err)
		}
		return refused(err)
	}
	if !route.Stored {
		if refusal := c.Gateway.RefuseKeyAsCredential(r.Header); refusal != nil {
			return refusal
		}
	}
	if to.endpoint == providers.ListModels && c.Catalogue == nil && asksAnthropic(c) {
		r.Answer = inAnthropic(r.Answer)
	}
	q.store, q.configTarget = call.Keep, t
	if r.Answer != nil && r.Answer.Then != nil {
		q.common = maps.Clone(q.header)
		delete(q.common, "Content-Type")
	}
	q.method = to.method
	if err := q.set(r); err != nil {
		return q.failure(err)
	}
	return nil
}

// set takes over what a provider's dialect has made. The error means that there is no memory for
// the body.
func (q *request) set(r *providers.Request) (err error) {
	q.url, q.answer, q.conversation.turns, q.estimate = r.URL, r.Answer, r.Turns, r.Estimate
	if r.Warnings != nil { // a request that follows another one has none
		q.warnings = r.Warnings
	}
	if r.Method != "" {
		q.method = r.Method
	}
	for name, v := range r.Header {
		q.header[name] = v
	}
	for name, v := range q.target.Route.Header { // the operator's headers win
		q.header[name] = v
	}
	if r.Body == nil {
		return nil
	}
	if q.body != nil {
		if sameArray(r.Body, q.body.Bytes()) {
			r.Body = bytes.Clone(r.Body)
		}
		q.body.Release()
	}
	q.rewritten = true
	if q.body, err = q.call.Memory.NewBuffer(r.Body); err != nil {
		return err
	}
	switch {
	case len(r.Body) == 0:
		delete(q.header, "Content-Type")
	case r.Header["Content-Type"] == nil:
		q.header["Content-Type"] = []string{"application/json"}
	}
	return nil
}

// refused turns a refusal by a provider's dialect into an error for the client.
func refused(err error) *exchange.Error {
	var r *providers.RequestError
	if !errors.As(err, &r) {
		return &exchange.Error{Status: http.StatusInternalServerError, Type: "server_error", Gateway: true, Message: "The call cannot be put into the provider's words", Err: err}
	}
	return &exchange.Error{Status: http.StatusBadRequest, Type: "invalid_request_error", Param: r.Param, Code: r.Code, Message: r.Message, Unserved: r.Code == providers.NotSupported}
}

// strict reports whether answers are limited to OpenAI's own fields. The request says so, or else
// the config; the default is true.
func strict(c *exchange.Call, t *routing.Target) (bool, *exchange.Error) {
	switch v, ok := c.Gateway.Headers.Get(c.Header(), exchange.HeaderStrict); {
	case ok && v == "" && t.Strict != nil:
		return *t.Strict, nil
	case ok && v == "", ok && strings.EqualFold(v, "true"):
		return true, nil
	case ok && strings.EqualFold(v, "false"):
		return false, nil
	}
	const name = "x-gw-strict-open-ai-compliance"
	return true, refused(&providers.RequestError{Param: name, Code: "invalid_header", Message: "Invalid " + name + ": expected true or false"})
}

// setting returns the value of a provider's setting. A setting saved with a credential wins over
// the config's, and the call's own headers count only if the credential is the caller's own:
// otherwise callers could decide where a stored credential goes. For the same reason a config's
// place does not apply to the credential of another resource, nor is its secret sent to that
// resource's place.
func setting(c *exchange.Call, route *credentials.Route, t *routing.Target, name string) string {
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
	v, _ := c.Gateway.Headers.Named(c.Header(), textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-")))
	return v
}

// usualHeaders is how many headers most requests have; a map for more takes several allocations.
const usualHeaders = 8

// noUserAgent is sent instead of Go's.
var noUserAgent = []string{""}

// jsonContent is the content type of requests, which nothing changes.
var jsonContent = []string{"application/json"}

// upstreamHeader builds the headers of an upstream request from an allow-list, to which a
// config's forward is added. The client's headers are never copied and filtered. A header with a
// service key is refused.
func upstreamHeader(c *exchange.Call, target *exchange.Attempt, p *providers.Provider, forward []string) (http.Header, *exchange.Error) {
	client, route := c.Header(), target.Route
	h := make(http.Header, usualHeaders)
	h["Accept-Encoding"], h["User-Agent"] = identity, noUserAgent
	lists := [...][]string{providers.Forwarded, forward, nil, nil, p.Forward}
	if !route.Stored {
		lists[2] = providers.ForwardedInline
	}
	if exchange.UpgradesToWebSocket(client) {
		lists[3] = providers.ForwardedWebSocket
	}
	for _, list := range lists {
		for _, name := range list {
			v := client[name]
			if len(v) == 0 || len(v) == 1 && v[0] == "" || len(v) > 1 && name == "Content-Type" {
				continue
			}
			if name == "Sec-Websocket-Protocol" {
				v = []string{strings.Join(exchange.WithoutKeys(v), ", ")}
			}
			if refusal := c.Gateway.RefuseKey(name, v); refusal != nil {
				return nil, refusal
			}
			h[name] = v
		}
	}
	if c.Body.HasJSON() { // as it was read, whatever parameters the client has sent
		h["Content-Type"] = jsonContent
		if media := mediaType(client); media != "application/json" && media != "" {
			h["Content-Type"] = []string{media}
		}
	}
	for name := range idempotencyKeys {
		if key := h[name]; key != nil && target.Ownership().Guarded() { // workspaces must not share the provider's idempotency keys
			sum := sha256.Sum256([]byte(c.Caller.WorkspaceID + "/" + key[0]))
			h[name] = []string{hex.EncodeToString(sum[:])}
		}
	}
	if route.CustomHost {
		for name, values := range c.Gateway.Through(c.Header()) {
			if refusal := c.Gateway.RefuseKey(name, values); refusal != nil {
				return nil, refusal
			}
			h[name] = values
		}
	}
	for name, v := range target.HookHeader() {
		if len(v) == 0 {
			delete(h, name)
		} else {
			h[name] = v
		}
	}
	delete(h, "Sec-Websocket-Extensions")
	return h, nil
}

// close releases what the request holds.
func (q *request) close() {
	if q.body != nil {
		q.body.Release()
		q.body = nil
	}
	if q.upload != nil {
		q.upload.Close()
	}
}

// sameArray reports whether two slices are parts of one array.
func sameArray(a, b []byte) bool {
	return cap(a) > 0 && cap(b) > 0 && &a[:cap(a)][cap(a)-1] == &b[:cap(b)][cap(b)-1]
}

// errCommitted means that a body was released because the answer has arrived.
var errCommitted = errors.New("the request has its answer already")

// oneWrite is how much net/http collects before it writes to a connection.
const oneWrite = 4 << 10

// reader returns a reader of the body. For a small body it has a type that net/http knows
// not to block, so that the header is not sent by itself, and it reads a copy of what is not the
// dialect's, since net/http may read on after the body went back to its pool. again: net/http sends the
// request again.
func (q *request) reader(again bool) io.ReadCloser {
	small := &q.small
	if again {
		small = new(bytes.Reader)
	}
	if body := q.body.Bytes(); len(body) <= oneWrite {
		if !q.rewritten {
			body = bytes.Clone(body)
		}
		small.Reset(body)
		return io.NopCloser(small)
	}
	return q.body.Reader()
}

// idempotencyKeys are the headers by which net/http takes a request for one that it may send again on its own, although a server
// has read it and closed the connection. That would be a second call to the provider in one attempt, with one record. It
// finds only their canonical spelling, so that they are spelled differently.
var idempotencyKeys = map[string]string{"Idempotency-Key": "idempotency-key", "X-Idempotency-Key": "x-idempotency-key"}

// http returns the request for net/http, which replaces the one that reverse_proxy made.
func (q *request) http(ctx context.Context) *http.Request {
	r := (&http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	r.Method, r.URL, r.Host, r.Header = q.method, q.url, q.url.Host, q.header
	for canonical, spelled := range idempotencyKeys {
		if values := r.Header[canonical]; values != nil {
			r.Header[spelled] = values
			delete(r.Header, canonical)
		}
	}
	switch {
	case q.body != nil && len(q.body.Bytes()) == 0:
		r.Body = http.NoBody
	case q.body != nil:
		r.Body, r.ContentLength = q.reader(false), int64(len(q.body.Bytes()))
		// It lets net/http send the request again if a kept connection turns out to be dead
		// before anything was written to it.
		r.GetBody = func() (io.ReadCloser, error) {
			if q.body == nil {
				return nil, errCommitted
			}
			return q.reader(true), nil
		}
	case q.call.Body.PassesThrough():
		r.Body, r.ContentLength = q.target.Payload().Upload()
	}
	return r
}
