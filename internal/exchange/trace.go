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

// A Span is where a call stands in its trace, as its caller says. What nobody says is
// empty.
type Span struct {
	ID     string // x-gw-span-id; of a traceparent, a new one
	Parent string // x-gw-parent-span-id, or the span of a traceparent
	Name   string // x-gw-span-name; of a traceparent, the method and the path
}

// maxTraceID bounds the ids of traces and spans, and the names of spans, in bytes. What is
// longer, not printable or said twice counts as not said: no call fails because of what
// only watches it.
const maxTraceID = 256

// readTrace reads where the call stands: by the gateway's own headers, or else by a W3C
// traceparent. Where Caddy's tracing is on, that is Caddy's.
func (x *Exchange) readTrace(h http.Header) {
	own := func(name Header) string {
		v, ok := x.Gateway.Headers.Get(h, name)
		if !ok || len(v) > maxTraceID || !printable(v) {
			return ""
		}
		return v
	}
	x.TraceID = own(HeaderTraceID)
	x.Span = Span{own(HeaderSpanID), own(HeaderParentSpanID), own(HeaderSpanName)}
	if traceID, parent, ok := traceparent(h); ok {
		x.TraceID = either(x.TraceID, traceID)
		x.Span.Parent = either(x.Span.Parent, parent)
		if x.Span.ID == "" {
			x.Span.ID = x.newSpanID()
		}
		if x.Span.Name == "" {
			x.Span.Name = clip(x.request.Method + " " + x.request.URL.EscapedPath())
		}
	}
	if x.TraceID == "" {
		id, err := uuid.NewRandomFromReader(x.Gateway.Random)
		if err != nil {
			id = uuid.Nil
		}
		x.TraceID = id.String()
	}
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func clip(s string) string { return s[:min(len(s), maxTraceID)] }

// newSpanID is as long as a span's id is in OpenTelemetry.
func (x *Exchange) newSpanID() string {
	var id [8]byte
	if _, err := io.ReadFull(x.Gateway.Random, id[:]); err != nil {
		return ""
	}
	return hex.EncodeToString(id[:])
}

// traceparent reads the header of that name (W3C Trace Context, 3.2). Two headers are none.
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

// startSpan starts the span of a call that is prepared, where Caddy's tracing is on.
func (x *Exchange) startSpan() {
	ctx := x.request.Context()
	if !telemetry.Traced(ctx) {
		return
	}
	own, _ := x.Gateway.Headers.Get(x.request.Header, HeaderSpanID)
	name, _ := x.Gateway.Headers.Get(x.request.Header, HeaderSpanName)
	b := &telemetry.Beginning{
		Endpoint: x.Endpoint.Name, Model: x.Model, Stream: x.Stream, TraceID: x.TraceID,
		Workspace: x.Caller.WorkspaceID, Config: x.ConfigID, At: x.Start,
	}
	if name != "" {
		b.Name = x.Span.Name
	}
	if own != "" {
		b.SpanID = x.Span.ID
	}
	x.Trace = telemetry.Start(ctx, b)
	if b.SpanID == "" {
		x.Span.ID = x.Trace.ID()
	}
}

// endSpan ends the call's span.
func (x *Exchange) endSpan() {
	if x.Trace == nil {
		return
	}
	x.Trace.End(&telemetry.Ending{Status: x.Status, Attempts: len(x.Attempts), Provider: x.Provider(), Cache: x.CacheStatus, Error: x.failureType()})
}

// failureType is why the call failed, in one word.
func (x *Exchange) failureType() string {
	switch {
	case x.Failure == "":
		return ""
	case x.ErrorType != "":
		return x.ErrorType
	}
	return "_OTHER"
}
