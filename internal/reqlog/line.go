package reqlog

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A line is the JSON of a record, which encoding/json can read. It is written by hand,
// because writing it is most of a record's cost.
type line []byte

func (l *line) key(name string) {
	*l = append(append(append(*l, ',', '"'), name...), '"', ':')
}

// text adds a member unless it is empty.
func (l *line) text(name, value string) {
	if value != "" {
		l.key(name)
		*l = jsonscan.AppendQuoted(*l, value)
	}
}

func (l *line) integer(name string, value int64) {
	if value != 0 {
		l.key(name)
		*l = strconv.AppendInt(*l, value, 10)
	}
}

func (l *line) number(name string, value float64) {
	if value != 0 {
		l.key(name)
		*l = strconv.AppendFloat(*l, value, 'f', -1, 64)
	}
}

func (l *line) flag(name string, value bool) {
	if value {
		l.key(name)
		*l = append(*l, "true"...)
	}
}

func (l *line) json(name string, value any) error {
	b, err := json.Marshal(value)
	if err == nil {
		l.key(name)
		*l = append(*l, b...)
	}
	return err
}

const beginLine = `{"id":"`

// appendLine appends the record as a line of a block.
func appendLine(to []byte, r *Record) ([]byte, error) {
	l := line(append(append(append(to, beginLine...), r.ID...), '"')) // the id contains nothing to escape
	l.text("trace_id", r.TraceID)
	l.key("at")
	l = append(r.At.UTC().AppendFormat(append(l, '"'), time.RFC3339Nano), '"')
	l.number("duration_ms", r.DurationMS)
	l.number("first_byte_ms", r.FirstByteMS)
	l.text("organisation_id", r.OrganisationID)
	l.text("workspace_id", r.WorkspaceID)
	l.text("key_id", r.KeyID)
	l.text("user_id", r.UserID)
	l.text("endpoint", r.Endpoint)
	l.text("method", r.Method)
	l.text("path", r.Path)
	l.text("provider", r.Provider)
	l.text("virtual_key", r.VirtualKey)
	l.text("model", r.Model)
	l.text("config", r.Config)
	l.text("config_version", r.ConfigVersion)
	l.text("prompt_slug", r.PromptSlug)
	l.integer("prompt_version", r.PromptVersion)
	l.text("prompt_id", r.PromptID)
	l.text("prompt_version_id", r.PromptVersionID)
	l.flag("stream", r.Stream)
	l.integer("status", int64(r.Status))
	l.integer("attempts", int64(r.Attempts))
	l.text("last_used", r.LastUsed)
	l.integer("retries", int64(r.Retries))
	l.flag("usage_known", r.UsageKnown)
	l.flag("usage_estimated", r.UsageEstimated)
	l.integer("prompt_tokens", r.PromptTokens)
	l.integer("completion_tokens", r.CompletionTokens)
	l.integer("cache_read_tokens", r.CacheRead)
	l.integer("cache_write_tokens", r.CacheWrite)
	l.integer("reasoning_tokens", r.Reasoning)
	l.flag("cost_known", r.CostKnown)
	l.integer("cost", int64(r.Cost))
	l.text("price_version", r.PriceVersion)
	l.text("cache_status", r.CacheStatus)
	l.integer("malformed", int64(r.Malformed))
	l.text("failure", r.Failure)
	l.flag("own", r.Custom)
	l.text("span_id", r.SpanID)
	l.text("parent_span_id", r.ParentSpanID)
	l.text("span_name", r.SpanName)
	for _, m := range []struct {
		name  string
		given bool
		value any
	}{
		{"metadata", len(r.Metadata) > 0, r.Metadata},
		{"hook_results", len(r.HookResults) > 0, r.HookResults},
		{"tries", len(r.AttemptLog) > 0, r.AttemptLog},
		{"request_headers", len(r.RequestHeaders) > 0, r.RequestHeaders},
		{"response_headers", len(r.ResponseHeaders) > 0, r.ResponseHeaders},
		{"request", r.Request != nil, r.Request},
		{"response", r.Response != nil, r.Response},
	} {
		if !m.given {
			continue
		}
		if err := l.json(m.name, m.value); err != nil {
			return to, err
		}
	}
	return append(l, '}', '\n'), nil
}

func decodeLine(b []byte) (*Record, error) {
	r := new(Record)
	return r, json.Unmarshal(b, r)
}
