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
func (c *Call) readTrace(h http.Header) {
	own := func(name Header) string {
		v, ok := c.Gateway.Headers.Get(h, name)
		if !ok || len(v) > maxTraceID || !printable(v) {
			return ""
		}
		return v
	}
	c.TraceID = own(HeaderTraceID)
	c.Span = Span{own(HeaderSpanID), own(HeaderParentSpanID), own(HeaderSpanName)}
	if traceID, parent, ok := traceparent(h); ok {
		c.TraceID = either(c.TraceID, traceID)
		c.Span.Parent = either(c.Span.Parent, parent)
		if c.Span.ID == "" {
			c.Span.ID = c.newSpanID()
		}
		if c.Span.Name == "" {
			c.Span.Name = clip(c.request.Method + " " + c.request.URL.EscapedPath())
		}
	}
	if c.TraceID == "" {
		id, err := uuid.NewRandomFromReader(c.Gateway.Random)
		if err != nil {
			id = uuid.Nil
		}
		c.TraceID = id.String()
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
func (c *Call) newSpanID() string {
	var id [8]byte
	if _, err := io.ReadFull(c.Gateway.Random, id[:]); err != nil {
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
func (c *Call) startSpan() {
	ctx := c.request.Context()
	if !telemetry.Traced(ctx) {
		return
	}
	own, _ := c.Gateway.Headers.Get(c.request.Header, HeaderSpanID)
	name, _ := c.Gateway.Headers.Get(c.request.Header, HeaderSpanName)
	b := &telemetry.Beginning{
		Endpoint: c.Endpoint.Name, Model: c.Model, Stream: c.Stream, TraceID: c.TraceID,
		Workspace: c.Caller.WorkspaceID, Config: c.ConfigID, At: c.Start,
	}
	if name != "" {
		b.Name = c.Span.Name
	}
	if own != "" {
		b.SpanID = c.Span.ID
	}
	c.Trace = telemetry.Start(ctx, b)
	if b.SpanID == "" {
		c.Span.ID = c.Trace.ID()
	}
}
