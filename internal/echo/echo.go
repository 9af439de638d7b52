// Package echo is a model server with OpenAI's API that answers with its own input. It
// is for trying out the gateway without a provider, and for load tests that need a very
// cheap upstream. It is not a language model.
//
// [Echo.ServeHTTP] looks up the endpoint in a table and reads the body once. The
// endpoint, a plain function without a clock or random source of its own, turns the
// body into an answer, which is written as JSON or as server-sent events.
//
// A token, in usage and in limits, is a run of letters and digits, or any other single
// rune that is not white space (see [clip]).
package echo

import (
	"errors"
	"iter"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/tidwall/gjson"
)

func init() {
	caddy.RegisterModule(Echo{})
}

// Echo is an OpenAI-shaped model server that answers with what it was sent,
// for trying the gateway out and for load tests. It is not a model and needs no
// key.
//
// It serves these paths, with or without a leading `/v1`, and answers any
// other with 404; it never calls the next handler:
//
// Path | Answer
// -----|-------
// `POST chat/completions` | the last user message, or one call of the first function tool with it, or the tool message that ends the request
// `POST responses` | the same, of the input
// `POST completions` | the prompt
// `POST embeddings` | a unit vector made from a hash of the input
// `POST moderations` | flagged if the input has the word `flag-me`
// `GET models` | one model, `echo`
type Echo struct {
	// How long an answer waits before its first byte. Errors do not wait.
	// Default: 0.
	Delay caddy.Duration `json:"delay,omitempty"`

	// How long a stream waits between two chunks. Default: 0.
	ChunkDelay caddy.Duration `json:"chunk_delay,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (Echo) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.gw_echo",
		New: func() caddy.Module { return new(Echo) },
	}
}

// Validate rejects negative delays.
func (e *Echo) Validate() error {
	if e.Delay < 0 || e.ChunkDelay < 0 {
		return errors.New("delay and chunk_delay must not be negative")
	}
	return nil
}

// endpoints are the paths that are served, without /v1.
var endpoints = map[string]endpoint{
	"chat/completions": {http.MethodPost, answerChat},
	"completions":      {http.MethodPost, answerCompletion},
	"embeddings":       {http.MethodPost, answerEmbedding},
	"responses":        {http.MethodPost, answerResponse},
	"moderations":      {http.MethodPost, answerModeration},
	"models":           {http.MethodGet, answerModels},
}

// An endpoint answers the requests of one path. The body is a valid JSON object for a
// POST, and absent for a GET. Errors are of type *requestError.
type endpoint struct {
	method string
	answer func(body gjson.Result, at stamp) (answer, error)
}

// A stamp is the time and a random name for an answer.
type stamp struct {
	nonce   string
	created int64 // Unix time, seconds
}

// An answer is either a JSON body or the data of the events of a stream. An event is
// only valid until the next one is generated.
type answer struct {
	body   []byte
	events iter.Seq[[]byte]
	named  bool // the events are named by their type, as those of the Responses API
}

// ServeHTTP answers the request; next is never called.
func (e *Echo) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	a, err := answerTo(w, r)
	if err != nil {
		return writeError(w, err)
	}
	if !wait(r.Context(), time.Duration(e.Delay)) {
		w.WriteHeader(statusClientClosed)
		return nil
	}
	if a.events != nil {
		writeEvents(w, r, a.events, a.named, time.Duration(e.ChunkDelay))
		return nil
	}
	writeJSON(w, http.StatusOK, a.body)
	return nil
}

func answerTo(w http.ResponseWriter, r *http.Request) (answer, error) {
	path, ok := strings.CutPrefix(r.URL.Path, "/v1/")
	if !ok {
		path = strings.TrimPrefix(r.URL.Path, "/")
	}
	ep, ok := endpoints[path]
	if !ok {
		return answer{}, refuse(http.StatusNotFound, "unknown path %s", r.URL.Path)
	}
	if r.Method != ep.method {
		w.Header().Set("Allow", ep.method)
		return answer{}, refuse(http.StatusMethodNotAllowed, "%s takes %s, not %s", r.URL.Path, ep.method, r.Method)
	}
	var body gjson.Result
	if ep.method == http.MethodPost {
		var err error
		if body, err = readBody(w, r); err != nil {
			return answer{}, err
		}
	}
	return ep.answer(body, stamp{
		nonce:   strconv.FormatUint(rand.Uint64(), 36),
		created: time.Now().Unix(),
	})
}

// answerModels lists the only model. The other endpoints accept any name.
func answerModels(gjson.Result, stamp) (answer, error) {
	return answer{body: []byte(`{"object":"list","data":[{"id":"echo","object":"model","created":0,"owned_by":"gateway"}]}`)}, nil
}

// Interface guards
var (
	_ caddy.Module                = Echo{}
	_ caddy.Validator             = (*Echo)(nil)
	_ caddyhttp.MiddlewareHandler = (*Echo)(nil)
)
