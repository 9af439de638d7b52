package handlers

import (
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/telemetry"
)

// An accessLog keeps credentials out of Caddy's access logs. Caddy redacts
// Authorization and cookies and logs every other header, and the query, as they came, in
// an entry that it makes before any handler runs. So a request that carries a credential
// there has Caddy's entry skipped, and gets the same entry, to the same
// loggers, with the credential redacted.
type accessLog struct {
	server  *caddyhttp.Server
	logger  *zap.Logger
	headers *exchange.Headers
	own     exchange.OperatorKeys
}

func newAccessLog(ctx caddy.Context, headers *exchange.Headers, own exchange.OperatorKeys) *accessLog {
	return &accessLog{serverOf(ctx), ctx.Logger(new(caddyhttp.App)).Named("log.access"), headers, own}
}

// shown are the gateway's headers whose values may be logged; the others may hold
// credentials, or be made to.
var shown = map[string]bool{
	"Cache": true, "Cache-Force-Refresh": true, "Cache-Namespace": true, "Config-Version": true,
	"Debug": true, "Models-Endpoint": true, "Package-Version": true, "Parent-Span-Id": true, "Provider": true,
	"Request-Timeout": true, "Retry-Count": true, "Runtime": true, "Runtime-Version": true, "Span-Id": true,
	"Span-Name": true, "Strict-Open-Ai-Compliance": true, "Trace-Id": true,
}

// hides reports whether a header may hold a credential that Caddy does not redact itself.
func (l *accessLog) hides(name string, values []string) bool {
	if suffix, ok := l.headers.Suffix(name); ok && !shown[suffix] || !ok && !redactedByCaddy(name) && exchange.HoldsCredential(name, values) {
		return true
	}
	const protocols = "Sec-Websocket-Protocol" // where browsers put the key
	if name == protocols && len(exchange.WithoutKeys(values)) < len(exchange.Protocols(values)) {
		return true
	}
	return !redactedByCaddy(name) && exchange.KeyInHeader(values, l.own)
}

func (l *accessLog) hidesSome(header http.Header) bool {
	for name, values := range header {
		if l.hides(name, values) {
			return true
		}
	}
	return false
}

// MarshalLogObject encodes the request as Caddy does, without the credentials in its header.
func (e *entry) MarshalLogObject(to zapcore.ObjectEncoder) error {
	e.object.ObjectEncoder, e.object.headers = to, loggedHeaders{header: e.request.Header, hides: e.log.hides}
	return caddyhttp.LoggableHTTPRequest{Request: &e.request}.MarshalLogObject(&e.object)
}

// requestWithHeaders encodes a request with other headers than it has.
type requestWithHeaders struct {
	zapcore.ObjectEncoder
	headers loggedHeaders
}

func (w *requestWithHeaders) AddObject(key string, v zapcore.ObjectMarshaler) error {
	if key == "headers" {
		v = &w.headers
	}
	return w.ObjectEncoder.AddObject(key, v)
}

// loggedHeaders are headers as Caddy logs them, but for some of them.
type loggedHeaders struct {
	header http.Header
	hides  func(name string, values []string) bool // whether its value is redacted; nil: none but by Caddy
	omits  func(name string) bool                  // whether it is left out; nil: none is
	values caddyhttp.LoggableStringArray
}

func (h *loggedHeaders) MarshalLogObject(to zapcore.ObjectEncoder) error {
	values := &h.values // one for all, as each is encoded at once
	for name, v := range h.header {
		if h.omits != nil && h.omits(name) {
			continue
		}
		*values = v
		if redactedByCaddy(name) || h.hides != nil && h.hides(name, v) {
			*values = redacted
		}
		if err := to.AddArray(name, values); err != nil {
			return err
		}
	}
	return nil
}

// redactedByCaddy reports whether Caddy redacts a header.
func redactedByCaddy(name string) bool {
	switch name {
	case "Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie":
		return true
	}
	return false
}

var redacted = caddyhttp.LoggableStringArray{"REDACTED"}

// logsField reports whether a header of an answer is already in the fields of the call.
func (l *accessLog) logsField(name string) bool {
	suffix, _ := l.headers.Suffix(name)
	switch suffix {
	case "Trace-Id", "Provider", "Cache-Status", "Last-Used-Option-Index", "Retry-Attempt-Count":
		return true
	}
	return false
}

const accessLogVar = "gw.access_log"

// guard takes over the access log entry of a request if it has to, and adds what became of an
// inference call to it. The caller defers the entry's done.
func (l *accessLog) guard(w http.ResponseWriter, r *http.Request) *entry {
	l.hideFromSpan(r)
	ctx := r.Context()
	if l.server == nil || l.server.Logs == nil || caddyhttp.GetVar(ctx, accessLogVar) != nil {
		return nil
	}
	recorder := recorderOf(w)
	if skip, _ := caddyhttp.GetVar(ctx, caddyhttp.LogSkipVar).(bool); skip || recorder == nil {
		return nil // Caddy does not log this request either
	}
	caddyhttp.SetVar(ctx, accessLogVar, true)
	uri, original := r.RequestURI, r
	if of, ok := ctx.Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		uri, original = of.RequestURI, &of
	}
	inHeader, inURI := false, false
	if !l.server.Logs.ShouldLogCredentials {
		inHeader = l.hidesSome(r.Header)
		uri, inURI = l.headers.RedactURI(uri, l.own)
	}
	if !inHeader && !inURI { // Caddy's own entry will do
		return &entry{noted: r}
	}
	caddyhttp.SetVar(ctx, caddyhttp.LogSkipVar, true)
	e := &entry{log: l, recorder: recorder, request: *r}
	e.request.Method, e.request.RequestURI, e.request.RemoteAddr = original.Method, uri, original.RemoteAddr
	e.body.ReadCloser = r.Body
	if r.Body != nil {
		r.Body = &e.body
	}
	return e
}

// note adds what became of an inference call to Caddy's entry.
func note(r *http.Request) {
	extra, ok := r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields)
	if x := exchange.Of(r); ok && x != nil {
		extra.Add(zap.Object(callField, x))
	}
}

// callField is the field of an entry about an inference call.
const callField = "gw"

// hideFromSpan keeps service keys out of the span of Caddy's tracing, which has the path and the
// user agent of a request.
func (l *accessLog) hideFromSpan(r *http.Request) {
	if !telemetry.Traced(r.Context()) {
		return
	}
	if path, found := exchange.RedactPath(r.URL.Path, l.own); found {
		telemetry.HidePath(r.Context(), path)
	}
	if exchange.KeyInHeader(r.Header["User-Agent"], l.own) {
		telemetry.HideUserAgent(r.Context(), redacted[0])
	}
}

// An entry is the entry of a request in the access log.
type entry struct {
	noted *http.Request // whose entry Caddy writes; nil: the others say what is written

	log      *accessLog
	recorder caddyhttp.ResponseRecorder
	request  http.Request // as it came; its headers are redacted while they are encoded
	body     countedBody
	object   requestWithHeaders
	answer   loggedHeaders
}

// done writes the entry, or completes Caddy's. A nil entry stands for a request that is not logged, or by another handler.
func (e *entry) done() {
	switch {
	case e == nil:
	case e.noted != nil:
		note(e.noted)
	default:
		e.write()
	}
}

// write logs what Caddy's own Server.logRequest does.
func (e *entry) write() {
	l, w, r := e.log, e.recorder, &e.request
	ctx := r.Context()
	level := zapcore.InfoLevel
	if w.Status() >= http.StatusInternalServerError {
		level = zapcore.ErrorLevel
	}
	var took time.Duration
	if start, ok := caddyhttp.GetVar(ctx, "start_time").(time.Time); ok {
		took = time.Since(start)
	}
	call := zap.Skip()
	e.answer.header = w.Header()
	if x := exchange.Of(r); x != nil {
		call, e.answer.omits = zap.Object(callField, x), l.logsField
	}
	user, _ := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer).GetString("http.auth.user.id")
	for _, name := range l.names(r) {
		logger := l.logger
		if name != "" {
			logger = logger.Named(name)
		}
		if c := logger.Check(level, "handled request"); c != nil {
			c.Write(
				zap.Object("request", e),
				zap.Int("bytes_read", e.body.n),
				zap.String("user_id", user),
				zap.Duration("duration", took),
				zap.Int("size", w.Size()),
				zap.Int("status", w.Status()),
				zap.Object("resp_headers", &e.answer),
				call,
			)
		}
	}
}

// names are the loggers of a request: those that log_name chose, or those of its
// host, or the default one.
func (l *accessLog) names(r *http.Request) []string {
	if chosen, ok := caddyhttp.GetVar(r.Context(), caddyhttp.AccessLoggerNameVarKey).([]any); ok {
		var names []string
		for _, name := range chosen {
			if s, ok := name.(string); ok {
				names = append(names, s)
			}
		}
		return names
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	host = strings.ToLower(host)
	if names, ok := l.server.Logs.LoggerNames[host]; ok {
		return names
	}
	labels := strings.Split(host, ".")
	for i := range labels {
		if labels[i] == "" {
			continue
		}
		labels[i] = "*"
		if names, ok := l.server.Logs.LoggerNames[strings.Join(labels, ".")]; ok {
			return names
		}
	}
	return []string{l.server.Logs.DefaultLoggerName}
}

// recorderOf finds the recorder by which Caddy logs a response.
func recorderOf(w http.ResponseWriter) caddyhttp.ResponseRecorder {
	for {
		if recorder, ok := w.(caddyhttp.ResponseRecorder); ok {
			return recorder
		}
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return nil
		}
		w = wrapper.Unwrap()
	}
}

type countedBody struct {
	io.ReadCloser
	n int
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n += n
	return n, err
}
