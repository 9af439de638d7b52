package inference

import (
	"time"

	"github.com/caddy-gw/gateway/exchange"
	"github.com/caddy-gw/gateway/reqlog"
)

// Record is the record of a call that was admitted, when it is over.
func Record(x *exchange.Exchange) *reqlog.Record {
	now := x.Gateway.Now()
	r := &reqlog.Record{
		TraceID: x.TraceID, At: x.Start.UTC(), DurationMS: milliseconds(now.Sub(x.Start)),
		OrganisationID: x.Caller.OrganisationID, WorkspaceID: x.Caller.WorkspaceID, KeyID: x.Caller.KeyID,
		Endpoint: x.Endpoint.Name, Model: x.Model, Stream: x.Stream,
		Status: x.Status, Attempts: x.Attempts, Failure: x.Failure, Malformed: x.Malformed, CacheStatus: x.CacheStatus,
		UsageKnown: x.Usage.Known, PromptTokens: x.Usage.PromptTokens, CompletionTokens: x.Usage.CompletionTokens,
	}
	r.SpanID, r.ParentSpanID, r.SpanName, r.Metadata = x.Span.ID, x.Span.Parent, x.Span.Name, x.AllMetadata()
	if x.Route != nil {
		r.Provider, r.VirtualKey = x.Route.Provider, x.Route.VirtualKey
	}
	if !x.FirstByte.IsZero() {
		r.FirstByteMS = milliseconds(x.FirstByte.Sub(x.Start))
	}
	return r
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
