package exchange

import (
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/validation"
)

// An Endpoint is one row of the data plane: a call that the gateway forwards.
type Endpoint struct {
	Name   string // as policies name it (condition endpoint_type)
	Method string // "" is any
	Path   string // a segment in braces stands for any one
	Body   Body
	// Done: a stream of this endpoint ends with "data: [DONE]".
	Done bool
	// Table is what its JSON body must hold to, and Query its query; nil is
	// validation.Unlisted, and no rule.
	Table *validation.Table
	Query validation.Query
	// Single: what it makes lives with one provider, so a config may have one
	// target only (batches, files, fine-tuning).
	Single bool
	// Cacheable: its answers may be kept, and given to the same call again.
	Cacheable bool
	// NoModel: no model answers it, whatever its body has. Fields are those of its form that
	// a config may not change, since an upload passes as it is.
	NoModel bool
	Fields  []string
	// Models are members of its body, and fields of its form, in which models stand.
	Models []string
	// Passes: it goes to the provider as it is, and comes back so.
	Passes bool
	// NotJSON: its answer is something else, such as audio.
	NotJSON bool
	// Scope is what a caller needs; "": that of inference calls. OtherScopes do as well.
	Scope       string
	OtherScopes []string
	// Prompt: its body has the variables of a saved prompt, which its path names.
	Prompt bool
	// Objects is what it has to do with objects that a provider keeps: its row of objectRows.
	Objects Objects

	metering metering
}

// AnswersJSON reports whether an answer to the call is JSON, or a stream of it, and so
// never empty. What is made of an upload may be text, which may be.
func (e *Endpoint) AnswersJSON() bool {
	return e.Method == http.MethodPost && e.Body != Stream && !e.NotJSON
}

// Body is what the body of a call may be.
type Body uint8

// The kinds of body.
const (
	JSON   Body = iota // a JSON object, read whole and scanned
	None               // none is expected; what comes is taken as Any
	Stream             // multipart or audio: it passes through and is not held in memory
	Any                // a JSON object if the content type says so, else a stream
)

// Names of endpoints that are more than forwarded.
const (
	CreateBatch    = "createBatch"
	BatchOutput    = "getBatchOutput"
	CreateResponse = "createModelResponse"
	Models         = "models"
	RetrieveModel  = "model"
	CreateFinetune = "createFinetune"

	realtime = "realtime"
)

// endpoints is the table of the data plane: OpenAI's endpoints, and others that its clients call.
var endpoints = []Endpoint{
	{Name: "ocr", Method: "POST", Path: "/v1/ocr", Cacheable: true, Table: validation.OCR},
	{Name: "chatComplete", Method: "POST", Path: "/v1/chat/completions", Cacheable: true, Done: true, Table: validation.Chat},
	{Name: "listChatCompletions", Method: "GET", Path: "/v1/chat/completions", Body: None},
	{Name: "complete", Method: "POST", Path: "/v1/completions", Cacheable: true, Done: true, Table: validation.Completion},
	{Name: "moderate", Method: "POST", Path: "/v1/moderations", Cacheable: true, Table: validation.Moderation},
	{Name: "embed", Method: "POST", Path: "/v1/embeddings", Cacheable: true, Table: validation.Embedding},

	{Name: CreateBatch, Method: "POST", Path: "/v1/batches", Single: true, Table: validation.Batch},
	{Name: "listBatches", Method: "GET", Path: "/v1/batches", Body: None, Single: true, Query: validation.BatchList},
	{Name: "retrieveBatch", Method: "GET", Path: "/v1/batches/{batch_id}", Body: None, Single: true},
	{Name: BatchOutput, Method: "GET", Path: "/v1/batches/{batch_id}/output", Body: None, Single: true},
	{Name: "cancelBatch", Method: "POST", Path: "/v1/batches/{batch_id}/cancel", Body: None, Single: true},

	{Name: CreateFinetune, Method: "POST", Path: "/v1/fine_tuning/jobs", Single: true, Table: validation.FineTuningJob, Models: []string{"method"}},
	{Name: "listFinetunes", Method: "GET", Path: "/v1/fine_tuning/jobs", Body: None, Single: true, Query: validation.FineTuningJobList},
	{Name: "retrieveFinetune", Method: "GET", Path: "/v1/fine_tuning/jobs/{fine_tuning_job_id}", Body: None, Single: true},
	{Name: "cancelFinetune", Method: "POST", Path: "/v1/fine_tuning/jobs/{fine_tuning_job_id}/cancel", Body: None, Single: true},
	{Name: "listFinetuneEvents", Method: "GET", Path: "/v1/fine_tuning/jobs/{fine_tuning_job_id}/events", Body: None, Single: true},
	{Name: "listFinetuneCheckpoints", Method: "GET", Path: "/v1/fine_tuning/jobs/{fine_tuning_job_id}/checkpoints", Body: None, Single: true},

	{Name: CreateResponse, Method: "POST", Path: "/v1/responses", Cacheable: true, Table: validation.Response, Models: []string{"tools"}},
	{Name: "countResponseInputTokens", Method: "POST", Path: "/v1/responses/input_tokens"},
	{Name: "compactResponse", Method: "POST", Path: "/v1/responses/compact"},
	{Name: "getModelResponse", Method: "GET", Path: "/v1/responses/{response_id}", Body: None, Query: validation.ResponseGet},
	{Name: "deleteModelResponse", Method: "DELETE", Path: "/v1/responses/{response_id}", Body: None},
	{Name: "cancelModelResponse", Method: "POST", Path: "/v1/responses/{response_id}/cancel", Body: None},
	{Name: "listResponseInputItems", Method: "GET", Path: "/v1/responses/{response_id}/input_items", Body: None},

	{Name: "uploadFile", Method: "POST", Path: "/v1/files", Body: Stream, Single: true, NoModel: true, Fields: []string{"purpose", "expires_after"}},
	{Name: "listFiles", Method: "GET", Path: "/v1/files", Body: None, Single: true},
	{Name: "retrieveFile", Method: "GET", Path: "/v1/files/{file_id}", Body: None, Single: true},
	{Name: "retrieveFileContent", Method: "GET", Path: "/v1/files/{file_id}/content", Body: None, Single: true},
	{Name: "deleteFile", Method: "DELETE", Path: "/v1/files/{file_id}", Body: None, Single: true},

	{Name: "imageGenerate", Method: "POST", Path: "/v1/images/generations", Cacheable: true},
	{Name: "imageEdit", Method: "POST", Path: "/v1/images/edits", Body: Any},
	{Name: "createSpeech", Method: "POST", Path: "/v1/audio/speech", NotJSON: true},
	{Name: "createTranscription", Method: "POST", Path: "/v1/audio/transcriptions", Body: Stream},
	{Name: "createTranslation", Method: "POST", Path: "/v1/audio/translations", Body: Stream},
	{Name: "rerank", Method: "POST", Path: "/v1/rerank", Cacheable: true},
	{Name: "messages", Method: "POST", Path: "/v1/messages", Cacheable: true, Models: []string{"tools"}},
	{Name: "messagesCountTokens", Method: "POST", Path: "/v1/messages/count_tokens"},
	{Name: Models, Method: "GET", Path: "/v1/models", Body: None, OtherScopes: []string{"models.list", "virtual_keys.list"}},
	{Name: realtime, Method: "GET", Path: "/v1/realtime", Body: None},
}

// promptRows are the endpoints that render a saved prompt. Completions then are a call of
// another endpoint, with what was rendered as its body.
var promptRows = []Endpoint{
	{Name: "renderPrompt", Method: "POST", Path: "/v1/prompts/{prompt_id}/render", Prompt: true, Scope: credentials.ScopeRender},
	{Name: "promptComplete", Method: "POST", Path: "/v1/prompts/{prompt_id}/completions", Prompt: true},
}

// passThrough is the endpoint of any other path below /v1. It goes to the provider's base URL
// with the rest of the path, if the credential may be sent there.
var passThrough = Endpoint{Name: "proxy", Body: Any, Passes: true, Models: []string{"session", "data_source", "testing_criteria", "grader", "method", "tools"}}

// passed are the methods of the pass-through.
var passed = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// rows are the endpoints by their paths: those of one path, in an exact table and in
// a list of patterns.
var exactRows, patternRows = func() (map[string][]*Endpoint, [][]*Endpoint) {
	byPath := make(map[string][]*Endpoint)
	var order []string
	all := make([]*Endpoint, 0, len(endpoints)+len(familyRows))
	for _, table := range [][]Endpoint{endpoints, familyRows, promptRows} {
		for i := range table {
			table[i].Objects = objectsOf(table[i].Method, strings.TrimPrefix(table[i].Path, "/v1"))
			table[i].metering = meteringOf(&table[i])
			all = append(all, &table[i])
		}
	}
	for _, e := range all {
		if byPath[e.Path] == nil {
			order = append(order, e.Path)
		}
		byPath[e.Path] = append(byPath[e.Path], e)
	}
	var patterns [][]*Endpoint
	for _, path := range order {
		if strings.Contains(path, "{") {
			patterns = append(patterns, byPath[path])
			delete(byPath, path)
		}
	}
	return byPath, patterns
}()

// Endpoints are the endpoints of the data plane, but for those of prompts.
func Endpoints() iter.Seq[*Endpoint] {
	return func(yield func(*Endpoint) bool) {
		for _, table := range [][]Endpoint{endpoints, familyRows} {
			for i := range table {
				if !yield(&table[i]) {
					return
				}
			}
		}
	}
}

// endpointNames are the names of all endpoints.
var endpointNames = func() map[string]bool {
	names := map[string]bool{passThrough.Name: true}
	for _, table := range [][]Endpoint{endpoints, familyRows, promptRows} {
		for i := range table {
			names[table[i].Name] = true
		}
	}
	return names
}()

// IsEndpoint reports whether a name is that of an endpoint, as conditions of policies on endpoint_type have it.
func IsEndpoint(name string) bool { return endpointNames[name] }

// EndpointOf returns the endpoint that serves a request. The path is that of the request line,
// with its escapes. If no endpoint has the path, both results are nil; if only other methods have
// it, allow lists these.
func EndpointOf(method, path string) (e *Endpoint, allow []string) {
	rows := exactRows[path]
	for i := 0; rows == nil && i < len(patternRows); i++ {
		if matches(patternRows[i][0].Path, path) {
			rows = patternRows[i]
			if plain := canonical(path); plain != path && exactRows[plain] != nil {
				return nil, nil // no id, but another spelling of what is there
			}
		}
	}
	for _, e := range rows {
		if e.Method == method {
			return e, nil
		}
		allow = append(allow, e.Method)
	}
	switch {
	case rows != nil && !passes(rows):
		return nil, allow
	case !strings.HasPrefix(path, "/v1/") || !clean(path) || rows == nil && intendedPath(path) != "":
		return nil, nil
	case !slices.Contains(passed, method):
		return nil, passed
	}
	return &passThrough, nil
}

// Served reports whether a path is one of the table's, for some method.
func Served(path string) bool {
	if exactRows[path] != nil {
		return true
	}
	for _, rows := range patternRows {
		if matches(rows[0].Path, path) {
			return true
		}
	}
	return false
}

// intendedPath is the path of the table that some server might take path for, "" if there is
// none: servers differ in letter case, in parameters after a semicolon, and in what else
// they ignore at the end of a segment.
func intendedPath(path string) string {
	plain := strings.TrimRight(canonical(path), "/")
	for strings.HasPrefix(plain, "/v1/v1/") { // a client adds /v1 to an address that has it
		plain = plain[len("/v1"):]
	}
	if plain == path {
		return ""
	}
	if exactRows[plain] != nil {
		return plain
	}
	for _, rows := range patternRows {
		if matches(rows[0].Path, plain) {
			return rows[0].Path
		}
	}
	return ""
}

// canonical is an escaped path as the most forgiving server might read it: in lower case,
// and each segment up to the first byte that no path of the table has.
func canonical(path string) string {
	segments := strings.Split(strings.TrimRight(path, "/"), "/")
	for i, s := range segments {
		segments[i] = normalizedSegment(s)
	}
	return strings.Join(segments, "/")
}

// normalizedSegment is a segment as the most forgiving server might read it.
func normalizedSegment(segment string) string {
	s := unescaped(segment)
	if end := strings.IndexFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '-' }); end >= 0 {
		s = s[:end]
	}
	return s
}

// blankSegment reports whether a forgiving server might read nothing in a segment, and so take
// the path for that of the collection: it is blank, or all of it are parameters.
func blankSegment(segment string) bool {
	s := unescaped(segment)
	return s == "" || s[0] == ';'
}

// unescaped is a segment in lower case, without what blanks it begins with.
func unescaped(segment string) string {
	s := segment
	if decoded, err := url.PathUnescape(s); err == nil {
		s = decoded
	}
	return strings.TrimLeft(strings.ToLower(s), " \t\r\n")
}

// matches reports whether path has the segments of pattern.
func matches(pattern, path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	for {
		want, restOfPattern, more := strings.Cut(pattern[1:], "/")
		got, rest, also := strings.Cut(path[1:], "/")
		if want != got && (want == "" || want[0] != '{' || !segment(got) || blankSegment(got)) {
			return false
		}
		if !more || !also {
			return more == also
		}
		pattern, path = "/"+restOfPattern, "/"+rest
	}
}

// clean reports whether no segment of an escaped path is empty or could lead a
// provider elsewhere than below the base URL.
func clean(path string) bool {
	for _, s := range strings.Split(path[1:], "/") {
		if !segment(s) {
			return false
		}
	}
	return true
}

// segment reports whether s may be one segment of an upstream path. What need not be
// escaped must not be: an encoded dot could be decoded into a way out, and an encoded
// letter hides which endpoint is meant; an encoded slash, backslash, percent or NUL
// could become another path.
func segment(s string) bool {
	if s == "" || s == "." || s == ".." || strings.Contains(s, `\`) {
		return false
	}
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			continue
		}
		if i+2 >= len(s) {
			return false
		}
		c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil || unreserved(byte(c)) || strings.IndexByte("/\\%\x00", byte(c)) >= 0 {
			return false
		}
	}
	return true
}

// unreserved reports whether RFC 3986 has c stand for itself.
func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}
