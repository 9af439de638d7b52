package inference

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/websocket"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

const (
	maxSocketMessage = 16 << 20        // bytes of a WebSocket's message; OpenAI's API takes 15 MB
	farewell         = 5 * time.Second // for a client to close its side
	lifetime         = time.Hour       // of a WebSocket; OpenAI's is the same
	recheck          = 5 * time.Second // after which it is asked again whether a session may go on
)

// A socket is the connection of a WebSocket to a provider, whose messages are looked at as they
// pass: those of the client are checked, and credentials in those of the provider are masked.
// Caddy reads from it in one goroutine, and writes to it in another.
type socket struct {
	io.ReadWriteCloser
	to    *watcher
	check *exchange.Messages // nil: the client's messages pass
	mask  *credentials.Mask
	used  *exchange.Session // nil: nothing counts what it uses

	client, provider websocket.Reader
	toProvider       frames
	toClient         frames
	fromClient       *exchange.StallTimer
	fromProvider     *exchange.StallTimer
	expiry           *time.Timer // nil: it may be open for any time
	recheck          *time.Timer // of whether the session may go on; nil: nothing counts it
	sent             int         // bytes of toClient
	over             bool        // toClient ends with a close frame

	mu      sync.Mutex
	refusal error // why the gateway ends the connection; nil: it does not

	closed chan struct{} // the client has closed its side
	left   sync.Once
}

// frames are frames that are to be sent.
type frames struct {
	call *exchange.Call
	b    []byte
}

// add adds a message.
func (f *frames) add(m websocket.Message) error {
	if size, has := len(f.b)+len(m.Payload)+websocket.MaxHeader, cap(f.b); size > has {
		size = max(size, min(2*has, maxSocketMessage))
		if err := f.call.Memory.Reserve(size); err != nil {
			return err
		}
		f.b = append(make([]byte, 0, size), f.b...)
		f.call.Memory.Free(has)
	}
	f.b = websocket.Append(f.b, m)
	return nil
}

// clear forgets the frames that were sent. Large buffers are not kept.
func (f *frames) clear() {
	if cap(f.b) > 64<<10 {
		f.call.Memory.Free(cap(f.b))
		f.b = nil
	}
	f.b = f.b[:0]
}

// upgraded has the messages looked at of an answer that makes the connection a WebSocket.
func (rt *roundTrip) upgraded(res *http.Response) error {
	conn, ok := res.Body.(io.ReadWriteCloser)
	if !ok || res.Header.Get("Sec-Websocket-Extensions") != "" {
		res.Body.Close()
		return answerError("the provider wants a WebSocket with " + res.Header.Get("Sec-Websocket-Extensions") + ", which was not requested")
	}
	used := rt.x.Session(rt.attempt)
	rt.paced = pace(rt.call, conn)
	conn, res.Body = rt.paced.provider(), rt.paced
	s := &socket{ReadWriteCloser: conn, to: &rt.watcher, check: rt.x.Messages(rt.attempt, used), mask: rt.mask(false), used: used, closed: make(chan struct{})}
	if s.check == nil && s.mask.Empty() {
		return nil
	}
	rt.session = used
	call := rt.call
	s.client = websocket.Reader{Masked: true, Max: maxSocketMessage, Reserve: call.Memory.Reserve, Free: call.Memory.Free}
	s.provider = websocket.Reader{Max: maxSocketMessage, Reserve: call.Memory.Reserve, Free: call.Memory.Free}
	s.toProvider.call, s.toClient.call = call, call
	s.fromClient = call.Client.StallTimer(func(stalled *exchange.Error) { s.refuse(stalled) })
	s.fromProvider = call.Client.StallTimer(func(*exchange.Error) {
		s.refuse(&websocket.Error{Code: websocket.CodeBadGateway, Reason: "A message of the provider did not come in time."})
	})
	if used != nil {
		s.expiry = time.AfterFunc(lifetime, func() { s.refuse(tooOld()) })
		s.recheck = time.AfterFunc(recheck, s.mayGoOn)
	}
	rt.paced.ReadWriteCloser = s
	rt.paced.of.end = func() {
		s.refuse(&websocket.Error{Code: websocket.CodeBadGateway, Reason: "The provider did not take a message in time."})
	}
	return nil
}

// Write takes frames of the client. After a refusal they go nowhere.
func (s *socket) Write(p []byte) (int, error) {
	if s.check == nil {
		return s.ReadWriteCloser.Write(p)
	}
	s.fromClient.Transferred(len(p))
	err := s.client.Read(p, s.forward)
	defer func() { s.fromClient.Start(s.client.Begun()) }()
	if len(s.toProvider.b) > 0 {
		_, unsent := s.ReadWriteCloser.Write(s.toProvider.b)
		s.toProvider.clear()
		if unsent != nil && s.refused() == nil {
			return 0, unsent
		}
	}
	if err != nil {
		s.refuse(err)
	}
	return len(p), nil
}

// forward passes a message of the client on, if it may.
func (s *socket) forward(m websocket.Message) error {
	if s.refused() != nil {
		if m.Opcode == websocket.Close {
			s.left.Do(func() { close(s.closed) })
		}
		return nil
	}
	switch m.Opcode {
	case websocket.Binary:
		s.refuse(&websocket.Error{Code: websocket.CodeUnsupported, Reason: "Messages in binary cannot be read: send JSON as text."})
		return nil
	case websocket.Text:
		if err := s.check.Check(m.Payload); err != nil {
			s.refuse(err)
			return nil
		}
		if s.used != nil {
			s.used.ClientEvent(m.Payload)
		}
	}
	return s.toProvider.add(m)
}

// refuse ends the connection because of what the client sent. That the connection to the provider
// is closed wakes up Read, which tells the client.
func (s *socket) refuse(why error) {
	s.mu.Lock()
	if s.refusal == nil {
		s.refusal = why
	}
	s.mu.Unlock()
	s.ReadWriteCloser.Close()
}

// mayGoOn ends a session that may not go on, and looks again later.
func (s *socket) mayGoOn() {
	switch ended, err := s.used.Check(); {
	case err != nil:
		s.refuse(err)
	case !ended:
		s.recheck.Reset(recheck)
	}
}

// tooOld is the end of a WebSocket that has been open for too long.
func tooOld() *exchange.Error {
	return &exchange.Error{
		Status: http.StatusBadRequest, Type: "invalid_request_error", Code: "websocket_connection_limit_reached",
		Message: "The WebSocket has been open for " + lifetime.String() + ": connect again.",
	}
}

func (s *socket) refused() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusal
}

// Read returns frames of the provider, and after a refusal an error event and a close frame.
func (s *socket) Read(p []byte) (int, error) {
	for s.sent == len(s.toClient.b) {
		s.toClient.clear()
		s.sent = 0
		if s.over {
			s.awaitClose()
			return 0, io.EOF
		}
		s.fromProvider.Start(s.provider.Begun())
		n, err := s.ReadWriteCloser.Read(p)
		s.fromProvider.Transferred(n)
		if why := s.refused(); why != nil {
			s.end(why)
			continue
		}
		if unread := s.provider.Read(p[:n], s.pass); unread != nil {
			s.ReadWriteCloser.Close()
			s.end(unreadable(unread))
			continue
		}
		if err != nil && len(s.toClient.b) == 0 {
			return 0, err
		}
	}
	n := copy(p, s.toClient.b[s.sent:])
	s.sent += n
	return n, nil
}

// pass passes a message of the provider on, without credentials.
func (s *socket) pass(m websocket.Message) error {
	s.mask.Hide(m.Payload)
	if s.used != nil && m.Opcode == websocket.Text && s.used.ServerEvent(m.Payload) {
		s.recheck.Reset(0)
	}
	return s.toClient.add(m)
}

// unreadable is the failure of a provider whose message cannot be passed on.
func unreadable(err error) error {
	if wrong := (*websocket.Error)(nil); errors.As(err, &wrong) {
		return &websocket.Error{Code: websocket.CodeBadGateway, Reason: "The provider sent a message that cannot be passed on: " + wrong.Reason}
	}
	return err
}

// end tells the client why the connection ends, as the API tells its errors.
func (s *socket) end(why error) {
	code, refused := closing(why)
	s.to.fail("the gateway ended the WebSocket: " + refused.Message)
	s.toClient.b = append(s.toClient.b, websocket.Append(nil, websocket.Message{Opcode: websocket.Text, Payload: socketError(refused)})...)
	s.toClient.b = websocket.AppendClose(s.toClient.b, code, refused.Message)
	s.over = true
}

// closing is the code of a close frame, and the error of the event before it.
func closing(why error) (code int, err *exchange.Error) {
	if wrong := (*websocket.Error)(nil); errors.As(why, &wrong) {
		e := exchange.Error{Type: "invalid_request_error", Code: "invalid_message", Message: wrong.Reason}
		if wrong.Code == websocket.CodeBadGateway {
			e.Type, e.Code = "provider_error", ""
		}
		return wrong.Code, &e
	}
	if refused := (*exchange.Error)(nil); errors.As(why, &refused) {
		code = websocket.CodeViolation
		if refused.Status == http.StatusTooManyRequests || refused.Status >= http.StatusInternalServerError {
			code = websocket.CodeTryAgain
		}
		return code, refused
	}
	return websocket.CodeTryAgain, exchange.Overloaded(why)
}

// socketError is an error event in the shape of OpenAI's Realtime API.
func socketError(err *exchange.Error) []byte {
	text := func(b *jsonscan.Builder, name, value string) {
		if b.Key(name); value == "" {
			b.Raw([]byte("null"))
		} else {
			b.Text(value)
		}
	}
	var b jsonscan.Builder
	b.Open('{')
	b.Key("type").Text("error")
	b.Key("error").Open('{')
	text(&b, "type", err.Type)
	text(&b, "code", err.Code)
	text(&b, "message", err.Message)
	text(&b, "param", err.Param)
	b.Close('}')
	b.Close('}')
	return b
}

// awaitClose gives the client time to read why the connection ends: if it was closed while the
// client sends, what it was told last could be lost.
func (s *socket) awaitClose() {
	timer := time.NewTimer(farewell)
	defer timer.Stop()
	select {
	case <-s.closed:
	case <-timer.C:
	}
}

// Close closes the connection to the provider.
func (s *socket) Close() error {
	s.left.Do(func() { close(s.closed) })
	s.fromClient.Stop()
	s.fromProvider.Stop()
	if s.expiry != nil {
		s.expiry.Stop()
		s.recheck.Stop()
	}
	return s.ReadWriteCloser.Close()
}
