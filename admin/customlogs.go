package admin

import (
	"cmp"
	stdjson "encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/reqlog"
	"github.com/caddy-gw/gateway/internal/validation"
	"github.com/caddy-gw/gateway/storage"
)

// customLogs is the body of POST /logs: a record of a call that did not use the gateway, or
// an array of records.
type customLogs []byte

func (l *customLogs) UnmarshalJSON(b []byte) error {
	*l = slices.Clone(b)
	return nil
}

func (customLogs) Schema(huma.Registry) *huma.Schema {
	one := &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: true,
		Description: "request: url, method, headers, body; response: status, headers, body, response_time in milliseconds; " +
			"metadata: trace_id, span_id, span_name and other texts. Required are request.url, request.body and response.body.",
	}
	return &huma.Schema{OneOf: []*huma.Schema{one, {Type: huma.TypeArray, Items: one}}}
}

type customLog struct {
	Request *struct {
		URL     string             `json:"url"`
		Method  string             `json:"method"`
		Headers map[string]string  `json:"headers"`
		Body    stdjson.RawMessage `json:"body"`
	} `json:"request"`
	Response *struct {
		Status  int                `json:"status"`
		Headers map[string]string  `json:"headers"`
		Body    stdjson.RawMessage `json:"body"`
		Time    int64              `json:"response_time"`
	} `json:"response"`
	Metadata map[string]string `json:"metadata"`
}

// Bounds of custom records.
const (
	maxCustomLogs     = 1000
	maxCustomURL      = 1 << 10 // bytes
	maxCustomHeaders  = 32
	maxCustomText     = 256 // bytes of a header value, or of the name or id of a trace or span
	maxCustomMetadata = 64
	maxCustomValue    = 128 // characters of a metadata key or value, as for x-gw-metadata
)

var customMethods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions, http.MethodHead}

// customRecords parses the records in a request.
func (c *call) customRecords(body []byte, w *directory.Workspace) ([]*reqlog.Record, error) {
	parse := func(from []byte, to any) error {
		if err := json.Unmarshal(from, to); err != nil {
			field, message := validation.Misread(err)
			return invalid(cmp.Or(field, "body"), "%s", message)
		}
		return nil
	}
	var all []customLog
	if body[0] == '[' {
		if err := parse(body, &all); err != nil {
			return nil, err
		}
	} else {
		all = make([]customLog, 1)
		if err := parse(body, &all[0]); err != nil {
			return nil, err
		}
	}
	if len(all) == 0 || len(all) > maxCustomLogs {
		return nil, invalid("body", "expected 1 to %d records, got %d", maxCustomLogs, len(all))
	}
	records := make([]*reqlog.Record, len(all))
	limit := c.maxLogged(w)
	for i := range all {
		r, field, why := all[i].record(limit)
		if why != "" {
			if body[0] == '[' {
				field = fmt.Sprintf("[%d].%s", i, field)
			}
			return nil, invalid(field, "%s", why)
		}
		r.OrganisationID, r.WorkspaceID, r.KeyID, r.UserID = c.caller.OrganisationID, w.ID, c.caller.KeyID, c.caller.UserID
		r.At = c.api.Now().UTC().Add(-time.Duration(r.DurationMS * float64(time.Millisecond)))
		if r.TraceID == "" {
			r.TraceID = storage.NewID(c.api.Random)
		}
		records[i] = r
	}
	return records, nil
}

// record validates a record. It returns the invalid field and the reason.
func (l *customLog) record(limit int) (r *reqlog.Record, field, why string) {
	switch {
	case l.Request == nil:
		return nil, "request", "expected an object"
	case l.Response == nil:
		return nil, "response", "expected an object"
	case !isObject(l.Request.Body):
		return nil, "request.body", "expected an object"
	case !isObject(l.Response.Body):
		return nil, "response.body", "expected an object"
	case l.Response.Time < 0 || l.Response.Time > int64(24*time.Hour/time.Millisecond):
		return nil, "response.response_time", "expected milliseconds, at most a day of them"
	}
	u, err := url.Parse(l.Request.URL)
	if err != nil || l.Request.URL == "" || len(l.Request.URL) > maxCustomURL {
		return nil, "request.url", fmt.Sprintf("expected a URL of at most %d bytes", maxCustomURL)
	}
	u.User, u.RawQuery, u.Fragment = nil, "", "" // may contain credentials
	r = &reqlog.Record{
		Custom: true, Path: u.String(), Method: l.Request.Method, Status: l.Response.Status, DurationMS: float64(l.Response.Time),
		Model: gjson.GetBytes(l.Request.Body, "model").Str, Stream: gjson.GetBytes(l.Request.Body, "stream").Bool(),
		RequestHeaders: shownHeaders(l.Request.Headers), ResponseHeaders: shownHeaders(l.Response.Headers),
	}
	if r.Method == "" {
		r.Method = http.MethodPost
	}
	if r.Status == 0 {
		r.Status = http.StatusOK
	}
	switch {
	case !slices.Contains(customMethods, r.Method):
		return nil, "request.method", "expected one of " + strings.Join(customMethods, ", ")
	case r.Status < 100 || r.Status > 599:
		return nil, "response.status", "expected a status from 100 to 599"
	case len(r.Model) > maxCustomText:
		return nil, "request.body.model", fmt.Sprintf("expected at most %d bytes", maxCustomText)
	case len(l.Request.Headers) > maxCustomHeaders, len(l.Response.Headers) > maxCustomHeaders:
		return nil, "headers", fmt.Sprintf("expected at most %d", maxCustomHeaders)
	}
	customUsage(r, gjson.GetBytes(l.Response.Body, "usage"))
	if field, why = l.metadata(r); why != "" {
		return nil, field, why
	}
	if limit > 0 {
		r.Request, r.Response = excerpt(l.Request.Body, limit), excerpt(l.Response.Body, limit)
	}
	return r, "", ""
}

func isObject(b []byte) bool { return len(b) > 0 && b[0] == '{' }

func excerpt(body []byte, limit int) *reqlog.Body {
	return &reqlog.Body{Size: int64(len(body)), Bytes: slices.Clone(body[:min(len(body), limit)])}
}

// metadata reads the metadata of a record, which may include its trace id.
func (l *customLog) metadata(r *reqlog.Record) (field, why string) {
	for _, f := range []struct {
		key string
		to  *string
	}{{"trace_id", &r.TraceID}, {"span_id", &r.SpanID}, {"span_name", &r.SpanName}} {
		if *f.to = l.Metadata[f.key]; len(*f.to) > maxCustomText {
			return "metadata." + f.key, fmt.Sprintf("expected at most %d bytes", maxCustomText)
		}
		delete(l.Metadata, f.key)
	}
	if len(l.Metadata) > maxCustomMetadata {
		return "metadata", fmt.Sprintf("expected at most %d members", maxCustomMetadata)
	}
	for key, value := range l.Metadata {
		if utf8.RuneCountInString(key) > maxCustomValue || utf8.RuneCountInString(value) > maxCustomValue {
			return "metadata", fmt.Sprintf("expected keys and texts of at most %d characters", maxCustomValue)
		}
	}
	if len(l.Metadata) > 0 {
		var err error
		if r.Metadata, err = stdjson.Marshal(l.Metadata); err != nil {
			panic(err) // strings can always be encoded
		}
	}
	return "", ""
}

// customUsage reads the usage in the response of a custom record, in OpenAI's form.
func customUsage(r *reqlog.Record, usage gjson.Result) {
	r.UsageKnown = usage.IsObject()
	for _, u := range []struct {
		to    *int64
		names []string
	}{
		{&r.PromptTokens, []string{"prompt_tokens", "input_tokens"}},
		{&r.CompletionTokens, []string{"completion_tokens", "output_tokens"}},
	} {
		for _, name := range u.names {
			if v := usage.Get(name); v.Type == gjson.Number && v.Int() > 0 {
				*u.to = v.Int()
			}
		}
	}
}

// secretive lists substrings of the names of headers that carry credentials.
var secretive = []string{"auth", "cookie", "key", "token", "secret", "password", "credential", "signature", "session"}

// shownHeaders returns the headers of a custom record that cannot carry credentials.
func shownHeaders(h map[string]string) map[string]string {
	out := make(map[string]string, len(h))
	for name, value := range h {
		lower := strings.ToLower(name)
		if len(name) > maxCustomText || slices.ContainsFunc(secretive, func(part string) bool { return strings.Contains(lower, part) }) {
			continue
		}
		out[credentials.Clip(lower)] = strings.ToValidUTF8(value[:min(len(value), maxCustomText)], "")
	}
	return out
}
