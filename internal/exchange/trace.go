package exchange

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"strings"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/caddy-gw/gateway/internal/telemetry"
)

// A Trace is what a call is traced by.
type Trace struct {
	ID   string
	Span Span

	// Telemetry is the call's span, and starts those of its attempts; nil: Caddy's tracing is off.
	Telemetry *telemetry.Span
}

// A Span is the place of a call in its trace, as the caller gives it. What is not given is empty.
type Span struct {
	ID     string // x-gw-span-id; of a traceparent, a new one
	Parent string // x-gw-parent-span-id, or the span of a traceparent
	Name   string // x-gw-span-name; of a traceparent, the method and the path
}

// maxTraceID bounds the ids of traces and spans, and the names of spans, in bytes. Values that
// are longer, not printable or ambiguous are ignored: tracing must not make a call fail.
const maxTraceID = 256

// readTrace reads the trace headers: the gateway's own, or else a W3C traceparent. If Caddy's
// tracing is on, that is Caddy's.
func (p *preparation) readTrace(h http.Header) {
	own := func(name Header) string {
		v, ok := p.Gateway.Headers.Get(h, name)
		if !ok || len(v) > maxTraceID || !printable(v) {
			return ""
		}
		return v
	}
	p.Trace.ID = own(HeaderTraceID)
	p.Trace.Span = Span{own(HeaderSpanID), own(HeaderParentSpanID), own(HeaderSpanName)}
	if traceID, parent, ok := traceparent(h); ok {
		p.Trace.ID = either(p.Trace.ID, traceID)
		p.Trace.Span.Parent = either(p.Trace.Span.Parent, parent)
		if p.Trace.Span.ID == "" {
			p.Trace.Span.ID = p.Gateway.newSpanID()
		}
		if p.Trace.Span.Name == "" {
			p.Trace.Span.Name = clip(p.request.Method + " " + p.request.URL.EscapedPath())
		}
	}
	if p.Trace.ID == "" {
		id, err := uuid.NewRandomFromReader(p.Gateway.Random)
		if err != nil {
			id = uuid.Nil
		}
		p.Trace.ID = id.String()
	}
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func clip(s string) string { return s[:min(len(s), maxTraceID)] }

// newSpanID returns a random id of the length of OpenTelemetry's.
func (g *Gateway) newSpanID() string {
	var id [8]byte
	if _, err := io.ReadFull(g.Random, id[:]); err != nil {
		return ""
	}
	return hex.EncodeToString(id[:])
}

// traceparent reads the header traceparent (W3C Trace Context, 3.2). If there are two, they are
// ignored.
func traceparent(h http.Header) (traceID, parent string, ok bool) {
	if len(h["Traceparent"]) != 1 {
		return "", "", false
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(h))
	span := trace.SpanContextFromContext(ctx)
	return span.TraceID().String(), span.SpanID().String(), span.IsValid()
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r > 0x7e })
}

// startSpan starts the span of a prepared call, if Caddy's tracing is on.
func (p *preparation) startSpan() {
	ctx := p.request.Context()
	if !telemetry.Traced(ctx) {
		return
	}
	own, _ := p.Gateway.Headers.Get(p.request.Header, HeaderSpanID)
	name, _ := p.Gateway.Headers.Get(p.request.Header, HeaderSpanName)
	b := &telemetry.Beginning{
		Endpoint: p.Endpoint.Name, Model: p.Model, Stream: p.Stream, TraceID: p.Trace.ID,
		Workspace: p.Caller.WorkspaceID, Config: p.ConfigSource.Slug, At: p.Start,
	}
	if name != "" {
		b.Name = p.Trace.Span.Name
	}
	if own != "" {
		b.SpanID = p.Trace.Span.ID
	}
	p.Trace.Telemetry = telemetry.Start(ctx, b)
	if b.SpanID == "" {
		p.Trace.Span.ID = p.Trace.Telemetry.ID()
	}
}
