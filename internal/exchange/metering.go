package exchange

import (
	"net/http"
	"slices"
	"strings"
)

// A metering says how it becomes known what a call of an endpoint used. Limits of tokens and costs
// let a call pass only if it does become known.
type metering struct {
	how how
	why string // of unmetered: completes "what it uses is not known, because …"

	// bounds are the members of the body by which a call bounds each choice of its answer, of
	// which the largest counts. Without one, answer is the most tokens of a choice; negative: there
	// is no bound.
	bounds []string
	answer int64

	// prompts: the member prompt may have several, each of which is answered. images: the answer
	// has images, as many as the member n says. pages, audio: what is read is counted in pages of a
	// document, or is an upload with audio. background: the member of that name has the call
	// answered before it is done.
	prompts, images, pages, audio, background bool

	// charge is what it costs besides tokens that no list has a price of; "": nothing.
	charge string

	// lines: it makes something of the lines of a file, later: calls, whose usage is in the file with their answers, or a model
	// that is trained on them, how much the provider says of the job.
	lines bool
}

// how is where the usage of a call comes from.
type how uint8

const (
	unmetered  how = iota // nothing that the gateway sees
	free                  // it uses no tokens
	reported              // its answer
	unreported            // nothing, so that all that was reserved counts as used
)

const (
	tokensOfMadeImage = 16 << 10 // at most, of an image that a model makes
	tokensOfSpeech    = 2        // of audio for a byte of text, at most, at the usual speed
	tokensOfDigit     = 10       // of audio for a digit, which is a word when it is read
	slowestSpeech     = 0.25     // of the usual speed
	maxMadeImages     = 10       // of a form, whose n is not read
)

// Reasons why it is not known what a call uses.
const (
	inBackground = "the provider answers before it has done its work"
	grantsAccess = "the provider is used past the gateway then"
	goesOn       = "it is not known how much of the job is left to be trained; to allow such calls, exclude finetuneControl in a condition of the policy on endpoint_type"
)

func later(why string) metering { return metering{how: unmetered, why: why} }

func bounded(by ...string) metering { return metering{how: reported, bounds: by, answer: -1} }

var (
	withoutUse  = metering{how: free}
	noAnswer    = metering{how: reported} // it is answered without tokens
	unbounded   = metering{how: reported, answer: -1}
	images      = metering{how: reported, answer: tokensOfMadeImage, images: true}
	transcribed = metering{how: reported, answer: -1, audio: true}
)

// meterings are those of all endpoints but reads and deletions, which use no tokens.
var meterings = map[string]metering{
	"POST /v1/chat/completions":       bounded("max_completion_tokens", "max_tokens"),
	"POST /v1/completions":            {how: reported, bounds: []string{"max_tokens"}, answer: -1, prompts: true},
	"POST /v1/fim/completions":        bounded("max_tokens"),
	"POST /v1/messages":               bounded("max_tokens"),
	"POST /v1/messages/count_tokens":  withoutUse,
	"POST /v1/responses":              {how: reported, bounds: []string{"max_output_tokens"}, answer: -1, background: true},
	"POST /v1/responses/input_tokens": withoutUse,
	"POST /v1/responses/compact":      unbounded,
	"POST /v1/embeddings":             noAnswer,
	"POST /v1/moderations":            noAnswer,
	"POST /v1/rerank":                 noAnswer,
	"POST /v1/ocr":                    {how: reported, pages: true},
	"POST /v1/images/generations":     images,
	"POST /v1/images/edits":           images,
	"POST /v1/images/variations":      images,
	"POST /v1/audio/speech":           {how: unreported, answer: -1},
	"POST /v1/audio/transcriptions":   transcribed,
	"POST /v1/audio/translations":     transcribed,
	"GET /v1/realtime":                unbounded,

	"POST /v1/batches":                                        {how: reported, answer: -1, lines: true},
	"POST /v1/fine_tuning/jobs":                               {how: reported, lines: true},
	"POST /v1/fine_tuning/jobs/{id}/resume":                   later(goesOn),
	"POST /v1/fine_tuning/alpha/graders/run":                  later("the answer does not say it"),
	"POST /v1/threads/runs":                                   later(inBackground),
	"POST /v1/threads/{id}/runs":                              later(inBackground),
	"POST /v1/threads/{id}/runs/{run_id}/submit_tool_outputs": later(inBackground),
	"POST /v1/evals/{id}/runs":                                later(inBackground),
	"POST /v1/videos":                                         later(inBackground),
	"POST /v1/videos/{id}/remix":                              later(inBackground),
	"POST /v1/videos/edits":                                   later(inBackground),
	"POST /v1/videos/extensions":                              later(inBackground),
	"POST /v1/videos/characters":                              later(inBackground),
	"POST /v1/chatkit/sessions":                               later(grantsAccess),
	"POST /v1/realtime/sessions":                              later(grantsAccess),
	"POST /v1/realtime/transcription_sessions":                later(grantsAccess),
	"POST /v1/realtime/client_secrets":                        later(grantsAccess),
	"POST /v1/realtime/calls":                                 later(grantsAccess),
	"POST /v1/realtime/calls/{id}/accept":                     later(grantsAccess),

	"POST /v1/batches/{batch_id}/cancel":                    withoutUse,
	"POST /v1/fine_tuning/jobs/{fine_tuning_job_id}/cancel": withoutUse,
	"POST /v1/fine_tuning/jobs/{id}/pause":                  withoutUse,
	"POST /v1/fine_tuning/alpha/graders/validate":           withoutUse,
	"POST /v1/fine_tuning/checkpoints/{id}/permissions":     withoutUse,
	"POST /v1/responses/{response_id}/cancel":               withoutUse,
	"POST /v1/files":                                             withoutUse,
	"POST /v1/assistants":                                        withoutUse,
	"POST /v1/assistants/{id}":                                   withoutUse,
	"POST /v1/threads":                                           withoutUse,
	"POST /v1/threads/{id}":                                      withoutUse,
	"POST /v1/threads/{id}/messages":                             withoutUse,
	"POST /v1/threads/{id}/messages/{message_id}":                withoutUse,
	"POST /v1/threads/{id}/runs/{run_id}":                        withoutUse,
	"POST /v1/threads/{id}/runs/{run_id}/cancel":                 withoutUse,
	"POST /v1/vector_stores":                                     withoutUse,
	"POST /v1/vector_stores/{id}":                                withoutUse,
	"POST /v1/vector_stores/{id}/search":                         withoutUse,
	"POST /v1/vector_stores/{id}/files":                          withoutUse,
	"POST /v1/vector_stores/{id}/files/{file_id}":                withoutUse,
	"POST /v1/vector_stores/{id}/file_batches":                   withoutUse,
	"POST /v1/vector_stores/{id}/file_batches/{batch_id}/cancel": withoutUse,
	"POST /v1/containers":                                        {how: free, charge: "a container of the provider"},
	"POST /v1/containers/{id}/files":                             withoutUse,
	"POST /v1/conversations":                                     withoutUse,
	"POST /v1/conversations/{id}":                                withoutUse,
	"POST /v1/conversations/{id}/items":                          withoutUse,
	"POST /v1/evals":                                             withoutUse,
	"POST /v1/evals/{id}":                                        withoutUse,
	"POST /v1/evals/{id}/runs/{run_id}":                          withoutUse, // ends it
	"POST /v1/uploads":                                           withoutUse,
	"POST /v1/uploads/{id}/parts":                                withoutUse,
	"POST /v1/uploads/{id}/complete":                             withoutUse,
	"POST /v1/uploads/{id}/cancel":                               withoutUse,
	"POST /v1/skills":                                            withoutUse,
	"POST /v1/skills/{id}":                                       withoutUse,
	"POST /v1/skills/{id}/versions":                              withoutUse,
	"POST /v1/chatkit/sessions/{id}/cancel":                      withoutUse,
	"POST /v1/chat/completions/{id}":                             withoutUse,
	"POST /v1/realtime/calls/{id}/hangup":                        withoutUse,
	"POST /v1/realtime/calls/{id}/refer":                         withoutUse,
	"POST /v1/realtime/calls/{id}/reject":                        withoutUse,
}

// meteringOf is the metering of an endpoint of the table.
func meteringOf(e *Endpoint) metering {
	m, listed := meterings[e.Method+" "+e.Path]
	if !listed && (e.Method == http.MethodGet || e.Method == http.MethodDelete) {
		return withoutUse
	}
	return m
}

// Bases below which some servers have OpenAI's endpoints, and further paths that answer with a
// usage. Of any other path that passes through, it is not known what a call uses, or it is not in a form that
// the gateway reads.
var (
	meteredBases = []string{"/openai", "/openai/v1", "/openai/deployments/{id}", "/deployments/{id}", "/engines/{id}"}
	meteredPaths = []string{"/score", "/pooling", "/classify", "/contextualizedembeddings", "/multimodalembeddings"}
	freePaths    = []string{"/tokenize", "/detokenize"}
)

// passedMetering is the metering of a call that passes through to a path of its provider.
func passedMetering(path string) metering {
	switch {
	case slices.Contains(meteredPaths, path):
		return noAnswer
	case slices.Contains(freePaths, path):
		return withoutUse
	}
	for _, name := range [...]string{"/chat/completions", "/completions", "/embeddings", "/messages", "/responses", "/rerank"} {
		if base, ok := strings.CutSuffix(path, name); ok {
			for _, pattern := range meteredBases {
				if matches(pattern, base) {
					return meterings["POST /v1"+name]
				}
			}
		}
	}
	return later("the gateway does not read what is used by calls of this path")
}

// metering is how it becomes known what the call uses.
func (c *Call) metering() metering {
	method := c.request.Method
	switch reads := method == http.MethodGet || method == http.MethodDelete; {
	case UpgradesToWebSocket(c.request.Header) && c.Endpoint.Name != realtime:
		return later("the gateway does not read what is used over a WebSocket of this path")
	case c.Endpoint != &passThrough:
		return c.Endpoint.metering
	case reads:
		return withoutUse
	case method != http.MethodPost:
		return later("the gateway does not read what is used by calls of this path")
	}
	return passedMetering(c.Path)
}

// Reads reports whether no model answers the call, and it names none: it lists, reads, uploads or ends something.
func (c *Call) Reads() bool {
	if c.Model != "" || c.unread != read {
		return false
	}
	m := &c.Endpoint.metering
	if c.Endpoint == &passThrough {
		passed := c.metering()
		m = &passed
	}
	return m.how == free && m.charge == ""
}

// Hears reports whether audio is sent, which is heard.
func (e *Endpoint) Hears() bool { return e.metering.audio }

// UsesModel reports whether the call itself uses tokens: lists and reads do not, nor does one that makes a batch.
func (c *Call) UsesModel() bool {
	if c.Endpoint != &passThrough {
		return c.Endpoint.metering.how != free && !c.Endpoint.metering.lines
	}
	return c.metering().how != free
}
