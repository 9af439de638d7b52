package admin

import (
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/reqlog"
)

// LogObject is the record of a call as shown by the control plane.
type LogObject struct {
	ID             *string      `json:"_id" format:"uuid"`
	Request        LogRequest   `json:"request"`
	Response       LogResponse  `json:"response"`
	OrganisationID *string      `json:"organisation_id"`
	CreatedAt      *string      `json:"created_at" format:"date-time"`
	Metrics        LogMetrics   `json:"metrics"`
	Attempts       []LogAttempt `json:"attempts" doc:"The attempts at providers, of many the last ones."`
	Failure        *string      `json:"failure" doc:"Why the call failed, or its answer broke off."`
}

// LogRequest is the request of a call.
type LogRequest struct {
	URL       string            `json:"url"`
	Method    string            `json:"method"`
	Headers   map[string]string `json:"headers" doc:"Of custom records, without credentials."`
	Body      json.RawMessage   `json:"body,omitempty" doc:"What is kept of it: an object as it came, or text, size and truncated."`
	GWHeaders map[string]string `json:"gwHeaders" doc:"What the call said in the gateway's headers, as far as it is in the record."`
}

// LogResponse is the response of a call.
type LogResponse struct {
	Status       int               `json:"status"`
	Headers      map[string]string `json:"headers"`
	Body         json.RawMessage   `json:"body,omitempty" doc:"What is kept of it: an object as it went out, or text, size and truncated."`
	ResponseTime int64             `json:"responseTime" doc:"In milliseconds."`
	LastUsed     string            `json:"lastUsedOptionJsonPath"`
}

// LogAttempt is an attempt at a provider.
type LogAttempt struct {
	Provider string  `json:"provider"`
	Target   string  `json:"target" doc:"JSON path in the config."`
	Retry    int     `json:"retry"`
	Status   *int    `json:"status" doc:"null: there was no answer."`
	Duration float64 `json:"duration" doc:"In milliseconds."`
	Failure  *string `json:"failure"`
}

// LogMetrics is the part of a record that is included in lists.
type LogMetrics struct {
	ID               string   `json:"id" format:"uuid"`
	OrganisationID   string   `json:"organisation_id"`
	WorkspaceID      string   `json:"workspace_id"`
	WorkspaceSlug    *string  `json:"workspace_slug"`
	APIKeyID         string   `json:"api_key_id"`
	UserID           *string  `json:"user_id"`
	CreatedAt        string   `json:"created_at" format:"date-time"`
	Endpoint         *string  `json:"endpoint"`
	RequestURL       string   `json:"request_url"`
	RequestMethod    string   `json:"request_method"`
	IsSuccess        bool     `json:"is_success"`
	Status           int      `json:"response_status_code"`
	ResponseTime     int64    `json:"response_time" doc:"In milliseconds."`
	TimeToFirstByte  float64  `json:"time_to_first_byte" doc:"In milliseconds; 0: no byte came."`
	Provider         string   `json:"ai_org"`
	Model            string   `json:"ai_model"`
	VirtualKey       *string  `json:"virtual_key"`
	RequestTokens    *int64   `json:"req_units" doc:"Tokens; null: the provider did not say, and no text of an answer came."`
	ResponseTokens   *int64   `json:"res_units"`
	TotalTokens      *int64   `json:"total_units"`
	TokensEstimated  bool     `json:"tokens_estimated,omitempty" doc:"The provider did not say how many tokens were used, or not all, since the answer broke off or has no usage; they are estimated by what came of the answer."`
	CacheReadTokens  int64    `json:"cache_read_units"`
	CacheWriteTokens int64    `json:"cache_write_units"`
	ReasoningTokens  int64    `json:"reasoning_units"`
	Cost             *float64 `json:"cost" doc:"In cents, at list prices; 0 of an answer from the cache. null: not known."`
	Currency         string   `json:"cost_currency" enum:"USD" doc:"The currency whose hundredths cost is in."`
	PriceVersion     string   `json:"price_version,omitempty" doc:"Identifies the prices that cost was computed with: the list and those of the Caddyfile, and behind a + those of the integration. Left out where no prices were needed."`
	CacheStatus      *string  `json:"cache_status"`
	StreamMode       int      `json:"stream_mode" enum:"0,1"`
	IsProxyCall      bool     `json:"is_proxy_call"`
	Attempts         int      `json:"attempts"`
	Retries          int      `json:"retry_success_count" doc:"The retry that answered; -1: they were exhausted."`
	Config           *string  `json:"config"`
	ConfigVersion    *string  `json:"config_version_id"`
	PromptID         *string  `json:"prompt_id" format:"uuid"`
	PromptVersionID  *string  `json:"prompt_version_id" format:"uuid"`
	PromptSlug       *string  `json:"prompt_slug"`
	PromptVersion    int64    `json:"prompt_version,omitempty"`
	TraceID          string   `json:"trace_id"`
	SpanID           *string  `json:"span_id"`
	SpanName         *string  `json:"span_name"`
	ParentSpanID     *string  `json:"parent_span_id"`
	Source           string   `json:"source" enum:"gateway,own" doc:"Who wrote the record: the gateway, or a caller about a call of its own."`
	HookResults      any      `json:"hook_results,omitempty" doc:"What guardrails said of the call and its answer: before_request_hooks and after_request_hooks."`
	MetadataKeys     []string `json:"metadata.key"`
	MetadataValues   []string `json:"metadata.value"`
}

// showURL returns the URL of a call. A custom record has a full URL.
func showURL(r *reqlog.Record, base string) string {
	if r.Custom {
		return r.Path
	}
	return base + r.Path
}

func (c *call) showMetrics(r *reqlog.Record, base string) LogMetrics {
	m := LogMetrics{
		ID: r.ID, OrganisationID: r.OrganisationID, WorkspaceID: r.WorkspaceID, APIKeyID: r.KeyID, UserID: text(r.UserID),
		CreatedAt: formatTime(r.At), Endpoint: text(r.Endpoint), RequestURL: showURL(r, base), RequestMethod: r.Method,
		IsSuccess: r.Status >= http.StatusOK && r.Status < http.StatusMultipleChoices && r.Failure == "", Status: r.Status,
		ResponseTime: int64(r.DurationMS), TimeToFirstByte: r.FirstByteMS, Provider: r.Provider, Model: r.Model, VirtualKey: text(r.VirtualKey),
		CacheReadTokens: r.CacheRead, CacheWriteTokens: r.CacheWrite, ReasoningTokens: r.Reasoning, Currency: "USD",
		CacheStatus: text(r.CacheStatus), IsProxyCall: r.Endpoint == "proxy", Attempts: r.Attempts, Retries: r.Retries,
		Config: text(r.Config), ConfigVersion: text(r.ConfigVersion), PromptID: text(r.PromptID), PromptVersionID: text(r.PromptVersionID), PromptSlug: text(r.PromptSlug), PromptVersion: r.PromptVersion, TraceID: r.TraceID, SpanID: text(r.SpanID), SpanName: text(r.SpanName),
		ParentSpanID: text(r.ParentSpanID), Source: "gateway", MetadataKeys: []string{}, MetadataValues: []string{},
	}
	if r.HookResults != nil {
		m.HookResults = r.HookResults
	}
	if w, ok := c.api.Directory.Workspace(r.WorkspaceID); ok {
		m.WorkspaceSlug = &w.Slug
	}
	if r.UsageKnown || r.UsageEstimated {
		m.TokensEstimated = r.UsageEstimated
		total := r.PromptTokens + r.CompletionTokens
		m.RequestTokens, m.ResponseTokens, m.TotalTokens = &r.PromptTokens, &r.CompletionTokens, &total
	}
	if r.CostKnown {
		cents := r.Cost.Cents()
		m.Cost, m.PriceVersion = &cents, r.PriceVersion
	}
	if r.Stream {
		m.StreamMode = 1
	}
	if r.Custom {
		m.Source = "own"
	}
	gjson.ParseBytes(r.Metadata).ForEach(func(key, value gjson.Result) bool {
		m.MetadataKeys, m.MetadataValues = append(m.MetadataKeys, key.String()), append(m.MetadataValues, value.String())
		return true
	})
	return m
}

func (c *call) showLog(r *reqlog.Record, base string) LogObject {
	created := formatTime(r.At)
	out := LogObject{
		ID: &r.ID, OrganisationID: text(r.OrganisationID), CreatedAt: &created, Metrics: c.showMetrics(r, base), Attempts: []LogAttempt{}, Failure: text(r.Failure),
		Request: LogRequest{
			URL: showURL(r, base), Method: r.Method, Headers: headersOf(r.RequestHeaders), Body: showBody(r.Request), GWHeaders: map[string]string{},
		},
		Response: LogResponse{
			Status: r.Status, Headers: headersOf(r.ResponseHeaders), Body: showBody(r.Response), ResponseTime: int64(r.DurationMS), LastUsed: r.LastUsed,
		},
	}
	for name, value := range map[string]string{
		"x-gw-trace-id": r.TraceID, "x-gw-span-id": r.SpanID, "x-gw-span-name": r.SpanName, "x-gw-parent-span-id": r.ParentSpanID,
		"x-gw-provider": r.Provider, "x-gw-virtual-key": r.VirtualKey, "x-gw-config": r.Config, "x-gw-config-version": r.ConfigVersion,
	} {
		if value != "" {
			out.Request.GWHeaders[name] = value
		}
	}
	tries := r.AttemptLog
	if len(tries) == 0 && r.Attempts > 0 {
		tries = []reqlog.Attempt{{Provider: r.Provider, Target: r.LastUsed, Retry: r.Retries, MS: r.DurationMS, Status: r.Status, Failure: r.Failure}}
	}
	for _, t := range tries {
		a := LogAttempt{Provider: t.Provider, Target: t.Target, Retry: t.Retry, Duration: t.MS, Failure: text(t.Failure)}
		if t.Status != 0 {
			a.Status = &t.Status
		}
		out.Attempts = append(out.Attempts, a)
	}
	return out
}

func headersOf(h map[string]string) map[string]string {
	if h == nil {
		return map[string]string{}
	}
	return h
}

// showBody returns the stored part of a body: unchanged if it is complete and a JSON
// object.
func showBody(b *reqlog.Body) json.RawMessage {
	if b == nil {
		return nil
	}
	whole := int64(len(b.Bytes)) == b.Size
	if v := jsontext.Value(b.Bytes); whole && v.Kind() == '{' && v.IsValid() {
		return json.RawMessage(b.Bytes)
	}
	kept := b.Bytes
	if !whole { // the last character may be incomplete
		for i := 0; i < utf8.UTFMax && len(kept) > 0 && !utf8.Valid(kept[max(0, len(kept)-utf8.UTFMax):]); i++ {
			kept = kept[:len(kept)-1]
		}
	}
	out, err := json.Marshal(struct {
		Text      string `json:"text"`
		Size      int64  `json:"size"`
		Truncated bool   `json:"truncated"`
	}{strings.ToValidUTF8(string(kept), "\ufffd"), b.Size, !whole})
	if err != nil {
		panic(err) // strings and numbers can always be encoded
	}
	return out
}
