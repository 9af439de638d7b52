package exchange

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	api "github.com/caddy-gw/gateway/providers/messages"
)

// An Envelope is the form of the gateway's own errors. It suits clients that read status and
// message, and OpenAI's, which read error.message, error.type, error.param and error.code. With
// Anthropic, it suits Anthropic's as well, which read type, error.type, error.message and
// request_id.
type Envelope struct {
	// Anthropic: error.type is one of Anthropic's, by the status, and error.code is the type
	// where there is no code.
	Anthropic bool
	RequestID string // the trace id of the call; "": it has none
}

// anthropicPaths are the paths that Anthropic's API has, too: clients are Anthropic's if they send
// its version.
var anthropicPaths = []string{"/v1/models", "/v1/files", "/v1/skills"}

// EnvelopeOf returns the envelope of errors for a request without a call.
func EnvelopeOf(r *http.Request) Envelope {
	path := r.URL.Path
	below := func(root string) bool {
		rest, ok := strings.CutPrefix(path, root)
		return ok && (rest == "" || rest[0] == '/')
	}
	return Envelope{Anthropic: below("/v1/messages") || r.Header.Get("Anthropic-Version") != "" && slices.ContainsFunc(anthropicPaths, below)}
}

// envelope is that of the call's errors.
func (c *Call) envelope() Envelope {
	e := EnvelopeOf(c.request)
	e.RequestID = c.Trace.ID
	return e
}

// Write answers with the error. It does not log it. headers may be nil.
func (e *Error) Write(w http.ResponseWriter, headers *Headers, in Envelope) {
	body, media := e.JSON(in), "application/json"
	if e.Answer != nil {
		body, media = e.Answer, e.Media
	}
	h := w.Header()
	h["Content-Type"] = []string{media}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	if e.RetryAfter > 0 {
		seconds := (e.RetryAfter + time.Second - 1) / time.Second
		h["Retry-After"] = []string{strconv.FormatInt(int64(seconds), 10)}
	}
	for _, f := range e.Header {
		if f.Value != "" {
			h[f.Name] = []string{f.Value}
		}
	}
	if e.Allow != "" {
		h["Allow"] = []string{e.Allow}
	}
	if e.Gateway && headers != nil {
		headers.Set(h, HeaderException, "true")
	}
	if e.Gateway && e.RetryAfter == 0 || e.Pointless {
		h["X-Should-Retry"] = []string{"false"} // OpenAI's clients obey it, and Anthropic's
	}
	w.WriteHeader(e.Status)
	_, _ = w.Write(body) // an error means that the client left
}

// JSON returns the body of the answer.
func (e *Error) JSON(in Envelope) []byte {
	out := envelope{Status: "failure", Message: e.Message, Error: errorBody{e.Message, e.Type, null(e.Param), null(e.Code), e.Field}, Errors: e.Errors, Hooks: e.Hooks}
	if in.Anthropic {
		out.Type, out.RequestID = "error", in.RequestID
		out.Error.Type = api.ErrorType("", e.Status)
		if e.Type == typeTimeout {
			out.Error.Type = e.Type
		}
		if e.Code == "" && e.Type != out.Error.Type {
			out.Error.Code = null(e.Type)
		}
	}
	body, err := json.Marshal(out)
	if err != nil {
		panic(err) // strings always encode
	}
	return body
}

type envelope struct {
	Type      string    `json:"type,omitempty"`
	Status    string    `json:"status"`
	Message   string    `json:"message"`
	Error     errorBody `json:"error"`
	RequestID string    `json:"request_id,omitempty"`
	Errors    []string  `json:"errors,omitempty"`

	Hooks json.RawMessage `json:"hook_results,omitempty"`
}

type errorBody struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
	Field   string  `json:"field,omitempty"`
}

func null(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
