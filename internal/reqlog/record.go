package reqlog

import (
	"encoding/json"
	"time"

	"github.com/caddy-gw/gateway/internal/prices"
)

// A Record describes one call. The log sets its ID.
type Record struct {
	ID               string    `json:"id"`
	TraceID          string    `json:"trace_id"`
	At               time.Time `json:"at"`
	DurationMS       float64   `json:"duration_ms"`
	FirstByteMS      float64   `json:"first_byte_ms,omitempty"`
	OrganisationID   string    `json:"organisation_id"`
	WorkspaceID      string    `json:"workspace_id"`
	KeyID            string    `json:"key_id"`
	UserID           string    `json:"user_id,omitempty"`
	Endpoint         string    `json:"endpoint"`
	Method           string    `json:"method,omitempty"`
	Path             string    `json:"path,omitempty"` // without the query, which may contain credentials; of a custom record, its URL
	Provider         string    `json:"provider"`
	VirtualKey       string    `json:"virtual_key,omitempty"`
	Model            string    `json:"model,omitempty"`
	Config           string    `json:"config,omitempty"`         // slug
	ConfigVersion    string    `json:"config_version,omitempty"` // id
	PromptSlug       string    `json:"prompt_slug,omitempty"`    // of a saved prompt
	PromptVersion    int64     `json:"prompt_version,omitempty"` // number of the version
	PromptID         string    `json:"prompt_id,omitempty"`
	PromptVersionID  string    `json:"prompt_version_id,omitempty"`
	Stream           bool      `json:"stream,omitempty"`
	Status           int       `json:"status"`
	Attempts         int       `json:"attempts"`
	LastUsed         string    `json:"last_used,omitempty"` // JSON path of the latest target in the config
	Retries          int       `json:"retries,omitempty"`   // of that target; -1: all retries were used
	AttemptLog       []Attempt `json:"tries,omitempty"`     // the attempts, unless there was only one and the record describes it completely
	UsageKnown       bool      `json:"usage_known"`
	UsageEstimated   bool      `json:"usage_estimated,omitempty"` // the tokens are not, or not all, what the provider reported
	PromptTokens     int64     `json:"prompt_tokens"`
	CompletionTokens int64     `json:"completion_tokens"`
	CacheRead        int64     `json:"cache_read_tokens,omitempty"`
	CacheWrite       int64     `json:"cache_write_tokens,omitempty"`
	Reasoning        int64     `json:"reasoning_tokens,omitempty"`

	CostKnown    bool          `json:"cost_known,omitempty"`
	Cost         prices.Amount `json:"cost,omitempty"`
	PriceVersion string        `json:"price_version,omitempty"` // of the prices that Cost was computed with

	CacheStatus string `json:"cache_status,omitempty"`
	Malformed   int    `json:"malformed,omitempty"` // events that were removed from a stream
	Failure     string `json:"failure,omitempty"`
	Custom      bool   `json:"own,omitempty"` // written by a caller

	SpanID       string          `json:"span_id,omitempty"`
	ParentSpanID string          `json:"parent_span_id,omitempty"`
	SpanName     string          `json:"span_name,omitempty"`
	Metadata     json.RawMessage `json:"metadata,omitempty"` // an object

	HookResults json.RawMessage `json:"hook_results,omitempty"` // what guardrails returned, an object

	// Headers of a custom record, without credentials.
	RequestHeaders  map[string]string `json:"request_headers,omitempty"`
	ResponseHeaders map[string]string `json:"response_headers,omitempty"`

	Request  *Body `json:"request,omitempty"` // nil: not stored
	Response *Body `json:"response,omitempty"`
}

// A Body is the stored beginning of a body.
type Body struct {
	Size  int64  `json:"size"` // of the whole body, in bytes
	Kept  int    `json:"kept"` // number of bytes kept from the beginning
	Bytes []byte `json:"-"`    // stored separately, and possibly for a shorter time
}

// An Attempt is one attempt at a call.
type Attempt struct {
	Provider string  `json:"provider"`
	Target   string  `json:"target"` // JSON path in the config
	Retry    int     `json:"retry,omitempty"`
	MS       float64 `json:"ms"`
	Status   int     `json:"status,omitempty"` // 0: no answer
	Failure  string  `json:"failure,omitempty"`
}

// Bounds of strings in a record that come from others, in bytes.
const (
	maxText     = 1 << 10
	maxMetadata = 16 << 10
	maxResults  = 64 << 10
	maxAttempts = 16 // attempts that are listed
)

// bound shortens values that are too long for a record.
func (r *Record) bound() {
	r.Failure, r.Path = clip(r.Failure), clip(r.Path)
	if len(r.AttemptLog) > maxAttempts {
		r.AttemptLog = r.AttemptLog[len(r.AttemptLog)-maxAttempts:]
	}
	for i := range r.AttemptLog {
		r.AttemptLog[i].Failure = clip(r.AttemptLog[i].Failure)
	}
	if len(r.Metadata) > maxMetadata || len(r.Metadata) > 0 && !json.Valid(r.Metadata) {
		r.Metadata = nil
	}
	if len(r.HookResults) > maxResults {
		r.HookResults = nil
	}
	for _, b := range []*Body{r.Request, r.Response} {
		if b != nil {
			b.Kept = len(b.Bytes)
		}
	}
}

func clip(s string) string {
	if len(s) > maxText {
		return s[:maxText] + "…"
	}
	return s
}

// baseSize is the approximate size of a record in memory, without the fields that bound
// shortens.
const baseSize = 1 << 10

// size returns the approximate size of the record and of its bodies in memory.
func (r *Record) size() (size, bodies int64) {
	size = baseSize + int64(len(r.Failure)+len(r.Metadata)+len(r.HookResults)+len(r.Path)) + int64(len(r.AttemptLog))*128
	for _, headers := range []map[string]string{r.RequestHeaders, r.ResponseHeaders} {
		for name, value := range headers {
			size += int64(len(name) + len(value))
		}
	}
	for _, b := range []*Body{r.Request, r.Response} {
		if b != nil {
			bodies += int64(cap(b.Bytes))
		}
	}
	return size, bodies
}
