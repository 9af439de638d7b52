package telemetry

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/caddy-gw/gateway/internal/prices"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0" // the last version with gen_ai.*
	"go.opentelemetry.io/otel/trace"
)

// scope is the instrumentation scope of the spans.
const scope = "github.com/caddy-gw/gateway"

// Attributes of the gateway's own.
const (
	providerKey    = attribute.Key("gw.provider")
	endpointKey    = attribute.Key("gw.endpoint")
	traceIDKey     = attribute.Key("gw.trace_id")
	spanIDKey      = attribute.Key("gw.span_id")
	workspaceKey   = attribute.Key("gw.workspace.id")
	configKey      = attribute.Key("gw.config")
	targetKey      = attribute.Key("gw.target")
	retryKey       = attribute.Key("gw.retry")
	attemptsKey    = attribute.Key("gw.attempts")
	cacheStatusKey = attribute.Key("gw.cache_status")
)

// A Span is the span of a call, whose parent is that of Caddy's tracing handler. The
// methods of a nil Span do nothing.
//
// The span of a call describes what the gateway did, and those of its attempts, which are
// client spans in the GenAI conventions, what a provider did. Only the latter have usage,
// so that summing over all spans counts no token twice.
type Span struct {
	ctx    context.Context
	tracer trace.Tracer
	span   trace.Span
	common []attribute.KeyValue // of the call and of each attempt
	name   string

	answer Answer
}

// A Beginning has what is known of a call when its span starts.
type Beginning struct {
	Endpoint, Model   string
	Stream            bool
	Name              string // the name that the caller gave the span; may be empty
	TraceID, SpanID   string // as in the call's record
	Workspace, Config string
	At                time.Time
}

// Traced reports whether Caddy's tracing is on for a request and samples it.
func Traced(ctx context.Context) bool { return trace.SpanFromContext(ctx).IsRecording() }

// HidePath replaces the path of the request in the span of Caddy's tracing.
func HidePath(ctx context.Context, path string) {
	trace.SpanFromContext(ctx).SetAttributes(semconv.URLPath(path))
}

// HideUserAgent replaces the user agent of the request there.
func HideUserAgent(ctx context.Context, by string) {
	trace.SpanFromContext(ctx).SetAttributes(semconv.UserAgentOriginal(by))
}

// Start starts the span of a call. ctx must be [Traced].
func Start(ctx context.Context, b *Beginning) *Span {
	operation := operationOf(b.Endpoint)
	s := &Span{
		tracer: trace.SpanFromContext(ctx).TracerProvider().Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL)),
		common: []attribute.KeyValue{semconv.GenAIOperationNameKey.String(operation)},
		name:   operation,
	}
	if b.Model != "" {
		s.common = append(s.common, semconv.GenAIRequestModel(b.Model))
		s.name += " " + b.Model
	}
	own := slices.Concat(s.common, []attribute.KeyValue{endpointKey.String(b.Endpoint)})
	for _, a := range []attribute.KeyValue{traceIDKey.String(b.TraceID), spanIDKey.String(b.SpanID), workspaceKey.String(b.Workspace), configKey.String(b.Config)} {
		if a.Value.AsString() != "" {
			own = append(own, a)
		}
	}
	name := b.Name
	if name == "" {
		name = "gateway " + s.name
	}
	s.ctx, s.span = s.tracer.Start(ctx, name, trace.WithTimestamp(b.At), trace.WithAttributes(own...))
	if b.Stream {
		s.common = append(s.common, semconv.GenAIRequestStream(true))
	}
	return s
}

// ID returns the id of the span, in hexadecimal.
func (s *Span) ID() string {
	if s == nil {
		return ""
	}
	return s.span.SpanContext().SpanID().String()
}

// An Ending is the result of a call.
type Ending struct {
	Status, Attempts int
	Provider, Cache  string
	Error            string // why it failed, as a short word; empty: it did not fail, or the status says why
}

// End ends the span of a call.
func (s *Span) End(e *Ending) {
	if s == nil {
		return
	}
	s.span.SetAttributes(attemptsKey.Int(e.Attempts))
	for _, a := range []attribute.KeyValue{providerKey.String(e.Provider), cacheStatusKey.String(e.Cache), semconv.GenAIResponseModel(s.answer.Model)} {
		if a.Value.AsString() != "" {
			s.span.SetAttributes(a)
		}
	}
	if e.Error != "" && e.Status < http.StatusBadRequest {
		s.span.SetAttributes(semconv.ErrorTypeKey.String(e.Error))
	}
	finish(s.span, e.Status, e.Error != "")
	s.span.End()
}

// An Answer has the metadata of a provider's answer.
type Answer struct {
	ID, Model string
	Finish    []string // why each choice ended
}

// Answered records the metadata of an answer. Empty fields are ignored.
func (s *Span) Answered(a Answer) {
	if s == nil {
		return
	}
	if a.ID != "" {
		s.answer.ID = a.ID
	}
	if a.Model != "" {
		s.answer.Model = a.Model
	}
	s.answer.Finish = append(s.answer.Finish, a.Finish...)
}

// An Attempt is the span of one attempt. The methods of a nil one do nothing.
type Attempt struct {
	call *Span
	span trace.Span
	at   time.Time
}

// An AttemptStart has what is known of an attempt when it starts.
type AttemptStart struct {
	Provider, Dialect string
	Model             string // empty: the call's
	Target            string // JSON path of it in the config
	Retry             int
	URL               *url.URL // its host becomes an attribute
}

// Attempt starts the span of an attempt.
func (s *Span) Attempt(t *AttemptStart) *Attempt {
	if s == nil {
		return nil
	}
	attributes := slices.Concat(s.common, []attribute.KeyValue{
		semconv.GenAIProviderNameKey.String(providerName(t.Dialect)), providerKey.String(t.Provider), targetKey.String(t.Target),
		semconv.ServerAddress(t.URL.Hostname()),
	})
	name := s.name
	if t.Model != "" {
		attributes = append(attributes, semconv.GenAIRequestModel(t.Model)) // the last value is used
		name = s.common[0].Value.AsString() + " " + t.Model
	}
	if port := portOf(t.URL); port > 0 {
		attributes = append(attributes, semconv.ServerPort(port))
	}
	if t.Retry > 0 {
		attributes = append(attributes, retryKey.Int(t.Retry))
	}
	s.answer = Answer{}
	a := &Attempt{call: s, at: time.Now()}
	_, a.span = s.tracer.Start(s.ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(a.at), trace.WithAttributes(attributes...))
	return a
}

// Header returns the attempt's W3C traceparent.
func (a *Attempt) Header() string {
	c := a.span.SpanContext()
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + c.TraceFlags().String()
}

// An Outcome is the result of an attempt.
type Outcome struct {
	Status     int    // of the provider's answer; 0: there was none
	Error      string // why it failed, as a short word; empty: it did not fail, or the status says why
	Failed     bool
	FirstToken time.Time
	Usage      *prices.Usage // nil: unknown
}

// End ends the span of an attempt.
func (a *Attempt) End(o *Outcome) {
	if a == nil {
		return
	}
	var attributes []attribute.KeyValue
	if u := o.Usage; u != nil {
		attributes = append(attributes, semconv.GenAIUsageInputTokens(int(u.Prompt)), semconv.GenAIUsageOutputTokens(int(u.Completion)))
		if u.CacheRead > 0 {
			attributes = append(attributes, semconv.GenAIUsageCacheReadInputTokens(int(u.CacheRead)))
		}
		if u.CacheWrite > 0 {
			attributes = append(attributes, semconv.GenAIUsageCacheCreationInputTokens(int(u.CacheWrite)))
		}
		if u.Reasoning > 0 {
			attributes = append(attributes, semconv.GenAIUsageReasoningOutputTokens(int(u.Reasoning)))
		}
	}
	if !o.FirstToken.IsZero() {
		attributes = append(attributes, semconv.GenAIResponseTimeToFirstChunk(o.FirstToken.Sub(a.at).Seconds()))
	}
	if answer := &a.call.answer; o.Status == http.StatusOK {
		if answer.ID != "" {
			attributes = append(attributes, semconv.GenAIResponseID(answer.ID))
		}
		if answer.Model != "" {
			attributes = append(attributes, semconv.GenAIResponseModel(answer.Model))
		}
		if len(answer.Finish) > 0 {
			attributes = append(attributes, semconv.GenAIResponseFinishReasons(answer.Finish...))
		}
	}
	a.span.SetAttributes(attributes...)
	if o.Error != "" {
		a.span.SetAttributes(semconv.ErrorTypeKey.String(o.Error))
	}
	finish(a.span, o.Status, o.Failed || o.Error != "")
	a.span.End()
}

// finish sets the result of either kind of span. Error messages are not recorded, because
// they may quote a prompt.
func finish(span trace.Span, status int, failed bool) {
	if status > 0 {
		span.SetAttributes(semconv.HTTPResponseStatusCode(status))
	}
	switch {
	case status >= http.StatusBadRequest:
		span.SetAttributes(semconv.ErrorTypeKey.String(strconv.Itoa(status)))
	case !failed:
		return
	}
	span.SetStatus(codes.Error, "")
}

func portOf(u *url.URL) int {
	switch port := u.Port(); {
	case port != "":
		n, err := strconv.Atoi(port)
		if err != nil {
			return 0
		}
		return n
	case u.Scheme == "https":
		return 443
	}
	return 80
}
