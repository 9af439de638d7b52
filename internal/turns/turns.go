// Package turns serves the Responses API over a WebSocket, as OpenAI does: each response.create that
// a client sends is a call of POST /v1/responses with stream, and each event of its answer is a
// message. Which provider answers, and whether it has WebSockets, does not matter.
package turns

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

const (
	maxMessage = 16 << 20         // bytes of a message
	lifetime   = 60 * time.Minute // of a WebSocket; OpenAI's is the same
)

// Options are what Serve needs besides the handshake.
type Options struct {
	Call         caddyhttp.HandlerFunc // makes a call
	Server       *caddyhttp.Server
	Stopping     <-chan struct{} // closed when the configuration is unloaded
	StallTimeout time.Duration   // with a message that has begun, as with a request body, and with the client to take one; 0: no limit
}

// Serve answers the handshake of a WebSocket, which opened has authenticated, and serves it until
// either side ends it. Between two turns it also ends when the configuration is unloaded.
// The WebSocket counts as a call under way, besides those of its turns; the error is for the client
// whose handshake was not answered.
func Serve(w http.ResponseWriter, r *http.Request, opened *exchange.Call, o Options) *exchange.Error {
	s := &session{request: r, call: o.Call, server: o.Server, now: opened.Gateway.Now, newID: opened.NewID, stallTimeout: o.StallTimeout}
	var slot inflight.Lease
	defer slot.Close()
	defer s.lease.Close()
	if err := opened.Lease(&slot, &s.lease); err != nil {
		return err
	}

	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols:       exchange.WithoutKeys(r.Header["Sec-Websocket-Protocol"]),
		InsecureSkipVerify: true, // no cookie authenticates a call, so that a page of any origin needs a key
	})
	if err != nil {
		return nil // it was answered
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(maxMessage)
	s.conn = conn
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	old := time.NewTimer(lifetime)
	defer old.Stop()
	s.serve(ctx, cancel, o.Stopping, old.C)
	return nil
}

// A session is one WebSocket.
type session struct {
	conn    *websocket.Conn
	request *http.Request // of the handshake
	call    caddyhttp.HandlerFunc
	server  *caddyhttp.Server
	now     func() time.Time
	newID   func() string

	stallTimeout time.Duration // with a message that has begun, and with the client to take one; 0: no limit
	cancel       context.CancelCauseFunc

	lease  inflight.Lease // of the messages that were read, and of the latest conversation
	latest conversation
}

// serve serves one message after the other. A client may send the next one while a response is on
// its way, but no more. Between two of them it ends when the configuration is unloaded, or when the
// WebSocket is old.
func (s *session) serve(ctx context.Context, cancel context.CancelCauseFunc, stopping <-chan struct{}, old <-chan time.Time) {
	s.cancel = cancel
	messages := make(chan []byte, 1)
	go func() {
		defer cancel(nil) // the client has left: a response on its way is discarded
		for {
			message, err := s.read(ctx)
			if err != nil {
				return
			}
			select {
			case messages <- message:
			default:
				s.lease.Shrink(cap(message))
				s.fail(ctx, http.StatusConflict, "response_in_progress", "A response is in progress, and another one waits: send one response.create after the other.")
			}
		}
	}()
	for {
		select {
		case message := <-messages:
			s.turn(ctx, message)
			s.lease.Shrink(cap(message))
		case <-stopping:
			_ = s.conn.Close(websocket.StatusServiceRestart, "the gateway was reconfigured: connect again")
			return
		case <-old:
			s.fail(ctx, http.StatusBadRequest, "websocket_connection_limit_reached", "The WebSocket has been open for "+lifetime.String()+": connect again.")
			_ = s.conn.Close(websocket.StatusPolicyViolation, "websocket_connection_limit_reached")
			return
		case <-ctx.Done():
			return
		}
	}
}

// read reads a message, whose memory is that of the lease.
func (s *session) read(ctx context.Context) ([]byte, error) {
	kind, r, err := s.conn.Reader(ctx)
	if err != nil {
		return nil, err
	}
	if kind != websocket.MessageText {
		_ = s.conn.Close(websocket.StatusUnsupportedData, "send JSON as text")
		return nil, errors.New("a message in binary")
	}
	timer := exchange.NewStallTimer(s.stallTimeout, func() {
		s.fail(ctx, http.StatusRequestTimeout, "message_too_slow", exchange.MessageTooSlow(s.stallTimeout).Message)
		_ = s.conn.Close(websocket.StatusPolicyViolation, "message_too_slow")
	})
	defer timer.Stop()
	var b []byte
	for {
		if len(b) == cap(b) {
			size := max(4<<10, 2*cap(b))
			if err := s.lease.Grow(size); err != nil {
				_ = s.conn.Close(websocket.StatusTryAgainLater, "the gateway has no memory for the message now")
				return nil, err
			}
			s.lease.Shrink(cap(b))
			b = append(make([]byte, 0, size), b...)
		}
		timer.Start(true)
		n, err := r.Read(b[len(b):cap(b)])
		timer.Transferred(n)
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			s.lease.Shrink(cap(b))
			return nil, err
		}
	}
}

// turn answers a message.
func (s *session) turn(ctx context.Context, message []byte) {
	request, err := parse(message)
	if err != nil {
		s.fail(ctx, http.StatusBadRequest, "invalid_message", err.Error())
		return
	}
	base := s.latest.extend(request)
	if size := request.size(); size > maxMessage || s.lease.Grow(size) != nil {
		s.fail(ctx, http.StatusServiceUnavailable, "gateway_overloaded", "The gateway has no memory for the conversation now: begin a new one, or try again.")
		return
	}
	defer s.lease.Shrink(request.size())
	if request.warmUp {
		s.warmUp(ctx, request, base)
		return
	}
	a := &answer{session: s, ctx: ctx, header: make(http.Header), keeps: request.unstored}
	defer a.free()
	r := s.post(ctx, request.body(base), a)
	if err := s.call(a, r); err != nil {
		a.failWith(err)
	}
	a.end()
	if request.unstored {
		s.keep(a.id, base, request.before, request.items, a.output)
	}
}

// keep keeps the latest conversation, of lists of items, instead of the one before.
func (s *session) keep(id, base string, lists ...[]byte) {
	before := s.latest
	s.latest = conversation{}
	defer s.lease.Shrink(cap(before.items)) // it may be among the lists
	size := len(lists)                      // commas
	for _, items := range lists {
		size += len(items)
	}
	if id == "" || size > maxMessage || s.lease.Grow(size) != nil {
		return
	}
	s.latest = conversation{id: id, base: base, items: join(make([]byte, 0, size), lists...)}
}

// post is the request of a call.
func (s *session) post(ctx context.Context, body []byte, w http.ResponseWriter) *http.Request {
	r := s.request.Clone(ctx)
	r.Method, r.Body, r.ContentLength = http.MethodPost, io.NopCloser(bytes.NewReader(body)), int64(len(body))
	// The key of the handshake is not that of each turn: a provider would answer the second as the first.
	for _, name := range [...]string{"Idempotency-Key", "X-Idempotency-Key", "Connection", "Upgrade", "Sec-Websocket-Key", "Sec-Websocket-Version", "Sec-Websocket-Extensions", "Accept-Encoding", "Content-Encoding"} {
		delete(r.Header, name)
	}
	r.Header["Content-Type"], r.Header["Accept"] = []string{"application/json"}, []string{"text/event-stream"}
	r.Header["Content-Length"] = []string{strconv.Itoa(len(body))}
	if beta := ofCalls(r.Header["Openai-Beta"]); beta != "" {
		r.Header["Openai-Beta"] = []string{beta}
	} else {
		delete(r.Header, "Openai-Beta")
	}
	// The variables and placeholders of the handshake are not those of its calls.
	return caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, s.server)
}

// ofCalls returns the betas of a handshake that are not about WebSockets, separated by commas.
func ofCalls(betas []string) string {
	var kept []string
	for beta := range strings.SplitSeq(strings.Join(betas, ","), ",") {
		if beta = strings.TrimSpace(beta); beta != "" && !strings.HasPrefix(beta, "responses_websockets=") {
			kept = append(kept, beta)
		}
	}
	return strings.Join(kept, ",")
}

// warmUp answers a message that asks for no output: the conversation goes on from there.
func (s *session) warmUp(ctx context.Context, request *request, base string) {
	id := "resp_" + s.newID()
	for i, kind := range [...]string{"response.created", "response.completed"} {
		var b jsonscan.Builder
		b.Open('{')
		b.Key("type").Text(kind)
		b.Key("sequence_number").Int(int64(i))
		b.Key("response").Open('{')
		b.Key("id").Text(id)
		b.Key("object").Text("response")
		b.Key("created_at").Int(s.now().Unix())
		if b.Key("status"); i == 0 {
			b.Text("in_progress")
		} else {
			b.Text("completed")
		}
		b.Key("model").Raw(request.model)
		b.Key("output").Raw([]byte("[]"))
		b.Key("error").Raw([]byte("null"))
		b.Key("usage").Raw([]byte(`{"input_tokens":0,"output_tokens":0,"total_tokens":0}`))
		b.Close('}')
		b.Close('}')
		s.send(ctx, b)
	}
	s.keep(id, base, request.before, request.items)
}

// send sends an event. If it cannot be sent, the client has left, which the reader notices. A client that does
// not take it in time ends the WebSocket, and the call that is under way.
func (s *session) send(ctx context.Context, event []byte) {
	if s.stallTimeout > 0 {
		timer := time.AfterFunc(min(exchange.WriteTimeout(s.stallTimeout, len(event)), lifetime), func() {
			s.cancel(exchange.ErrClientStalled) // which closes the connection
		})
		defer timer.Stop()
	}
	_ = s.conn.Write(ctx, websocket.MessageText, event)
}

// fail sends an error of the gateway.
func (s *session) fail(ctx context.Context, status int, code, message string) {
	var b jsonscan.Builder
	b.Open('{')
	b.Key("type").Text("invalid_request_error")
	b.Key("code").Text(code)
	b.Key("message").Text(message)
	b.Key("param").Raw([]byte("null"))
	b.Close('}')
	s.sendError(ctx, status, b, "")
}

// sendError sends an error, and what guardrails say of the call, as JSON, if they do.
func (s *session) sendError(ctx context.Context, status int, object []byte, results string) {
	var b jsonscan.Builder
	b.Open('{')
	b.Key("type").Text("error")
	b.Key("status").Int(int64(status))
	b.Key("error").Raw(object)
	if results != "" {
		b.Key("hook_results").Raw([]byte(results))
	}
	b.Close('}')
	s.send(ctx, b)
}

// An answer sends the answer to a call as messages.
type answer struct {
	session *session
	ctx     context.Context
	header  http.Header
	status  int
	stream  bool
	rest    []byte // an incomplete line of the stream, or the body
	event   []byte // the data of an incomplete event
	over    bool   // rest is too long

	keeps  bool
	id     string
	output []byte // items of the response, if the answer keeps them
	kept   int    // bytes of output that the lease has
}

// eventRoom is what is around a response in an event, in bytes.
const eventRoom = 64

// maxRest bounds an incomplete line, and an answer that is not a stream, in bytes.
const maxRest = maxMessage

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
		a.stream = strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream")
	}
}

// Flush does nothing: each event is sent when it is complete.
func (a *answer) Flush() {}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.over {
		return len(p), nil
	}
	if err := a.add(&a.rest, p); err != nil {
		return 0, err
	}
	if !a.stream {
		return len(p), nil
	}
	lines := a.rest
	for {
		line, rest, ended := bytes.Cut(lines, []byte{'\n'})
		if !ended {
			break
		}
		if err := a.line(bytes.TrimSuffix(line, []byte{'\r'})); err != nil {
			return 0, err
		}
		lines = rest
	}
	a.rest = append(a.rest[:0], lines...)
	return len(p), a.ctx.Err()
}

var errTooLarge = errors.New("an answer is too large for a message")

// add adds bytes to a buffer, within the bound and the memory that the lease gives.
func (a *answer) add(to *[]byte, p []byte) error {
	size, has := len(*to)+len(p), cap(*to)
	switch {
	case size > maxRest:
		a.over = true
		return errTooLarge
	case size > has:
		size = max(size, 2*has)
		if err := a.session.lease.Grow(size); err != nil {
			a.over = true
			return err
		}
		*to = append(make([]byte, 0, size), *to...)
		a.session.lease.Shrink(has)
	}
	*to = append(*to, p...)
	return nil
}

// free gives the memory of the buffers back.
func (a *answer) free() { a.session.lease.Shrink(cap(a.rest) + cap(a.event) + a.kept) }

// line reads a line of the stream.
func (a *answer) line(line []byte) error {
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	switch {
	case ok:
		if len(a.event) > 0 {
			if err := a.add(&a.event, []byte{'\n'}); err != nil {
				return err
			}
		}
		return a.add(&a.event, bytes.TrimPrefix(data, []byte{' '}))
	case len(line) == 0 && len(a.event) > 0:
		if string(a.event) != "[DONE]" {
			a.look(a.event)
			a.session.send(a.ctx, a.event)
		}
		a.event = a.event[:0]
	}
	return nil
}

// look keeps what a later message may refer to.
func (a *answer) look(event []byte) {
	if !a.keeps || !jsonscan.Mentions(event, `response.completed"`, `response.incomplete"`) {
		return
	}
	if kind := gjson.GetBytes(event, "type").Str; kind != "response.completed" && kind != "response.incomplete" {
		return
	}
	output := inside(gjson.GetBytes(event, "response.output").Raw)
	if a.kept > 0 || a.session.lease.Grow(len(output)) != nil {
		return
	}
	a.kept = len(output)
	a.id, a.output = gjson.GetBytes(event, "response.id").Str, bytes.Clone(output)
}

// end sends an answer that is not a stream: a response in one piece, or an error.
func (a *answer) end() {
	switch body := gjson.ParseBytes(a.rest); {
	case a.over:
		a.session.fail(a.ctx, http.StatusBadGateway, "answer_too_large", "The answer is too large for a message, or for the memory that is left.")
	case a.stream:
	case exchange.Succeeded(a.status) && body.IsObject():
		if a.session.lease.Grow(len(a.rest)+eventRoom) != nil {
			a.session.fail(a.ctx, http.StatusServiceUnavailable, "gateway_overloaded", "The gateway has no memory for the answer now.")
			return
		}
		defer a.session.lease.Shrink(len(a.rest) + eventRoom)
		event := append(make([]byte, 0, len(a.rest)+eventRoom), `{"type":"response.completed","sequence_number":0,"response":`...)
		event = append(event, body.Raw...)
		event = append(event, '}')
		a.look(event)
		a.session.send(a.ctx, event)
	case body.Get("error").IsObject():
		a.session.sendError(a.ctx, a.status, []byte(body.Get("error").Raw), body.Get("hook_results").Raw)
	case a.ctx.Err() == nil:
		a.session.fail(a.ctx, http.StatusBadGateway, "answer_unreadable", "The answer cannot be read: expected a stream, a response or an error.")
	}
}

// failWith answers with an error of a handler, unless there is an answer.
func (a *answer) failWith(err error) {
	if a.status != 0 {
		return
	}
	a.status = http.StatusInternalServerError
	var failure caddyhttp.HandlerError
	if errors.As(err, &failure) && failure.StatusCode != 0 {
		a.status = failure.StatusCode
	}
	a.rest = []byte(`{"error":{"type":"server_error","code":null,"message":"` + http.StatusText(a.status) + `","param":null}}`)
}
