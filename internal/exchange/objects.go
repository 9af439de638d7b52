package exchange

import (
	"net/url"
	"slices"
	"strings"
)

// Objects is what the calls of an endpoint have to do with objects that a provider keeps.
// A call whose path has an id is about the object with it; what is below that belongs to it.
type Objects struct {
	// Makes are the members of an answer with the ids of what the call made, as gjson finds
	// them, and Events those of an event of a stream.
	Makes, Events []string
	// Names are the members of an answer, or of an event, with the ids of what its
	// provider made for the object at hand, such as the output of a batch.
	Names []string
	// Models are the members of an answer with the models that jobs made.
	Models []string
	// Lists: the answer is a list of all objects of the credential.
	Lists bool
	// Shows: the answer is a list of models, of which those that others' jobs made are hidden.
	Shows bool
	// Brief: what is made is kept by its provider for thirty days at most.
	Brief bool
	// Stored is the parameter of the call without which nothing is kept; "": there is none.
	Stored string
	// Kept is the default of that parameter.
	Kept bool
	// Location: the id is the last segment of that header.
	Location bool
	// Apart: the call has to do with none, whatever its path has.
	Apart bool
	// Items: the members input and items of its body have items, of which one that has an id
	// alone is a reference.
	Items bool
}

// Creates reports whether a call may make an object.
func (o *Objects) Creates() bool { return len(o.Makes) > 0 || o.Location }

var (
	lists = Objects{Lists: true}
	makes = Objects{Makes: []string{"id"}, Events: []string{"id"}}
	brief = Objects{Makes: []string{"id"}, Brief: true}
	apart = Objects{Apart: true}
	items = Objects{Items: true}

	batchFiles = []string{"output_file_id", "error_file_id"}
	jobFiles   = []string{"result_files"}
	jobModels  = []string{"fine_tuned_model"}
	// messageFiles are what tools of an assistant made, in a message, an event of one, and a
	// step of a run.
	messageFiles = []string{
		"content.#.image_file.file_id", "content.#.text.annotations.#.file_path.file_id", "attachments.#.file_id",
		"delta.content.#.image_file.file_id", "delta.content.#.text.annotations.#.file_path.file_id",
	}
	stepFiles = []string{
		"step_details.tool_calls.#.code_interpreter.outputs.#.image.file_id",
		"delta.step_details.tool_calls.#.code_interpreter.outputs.#.image.file_id",
	}
	runFiles = slices.Concat(messageFiles, stepFiles)
)

// objectRows is what the endpoints have to do with objects. Every endpoint without an id in
// its path stands here: what is not said to be apart is one more way to objects. One with an
// id stands here only if its answer names others.
var objectRows = map[string]Objects{
	"GET /files":                                 lists,
	"POST /files":                                makes,
	"GET /batches":                               {Lists: true, Names: each(batchFiles)},
	"POST /batches":                              makes,
	"GET /batches/{batch_id}":                    {Names: batchFiles},
	"POST /batches/{batch_id}/cancel":            {Names: batchFiles},
	"GET /fine_tuning/jobs":                      {Lists: true, Names: each(jobFiles), Models: each(jobModels)},
	"POST /fine_tuning/jobs":                     makes,
	"GET /fine_tuning/jobs/{fine_tuning_job_id}": {Names: jobFiles, Models: jobModels},
	"GET /fine_tuning/jobs/{fine_tuning_job_id}/checkpoints": {Models: []string{"data.#.fine_tuned_model_checkpoint"}},

	"GET /chat/completions":  lists,
	"POST /chat/completions": {Makes: []string{"id"}, Events: []string{"id"}, Brief: true, Stored: "store"},
	"POST /responses": {
		Makes: []string{"id"}, Events: []string{"response.id"}, Brief: true, Stored: "store", Kept: true, Items: true,
		Names: []string{"output.#.id", "output.#.container_id", "response.output.#.id", "response.output.#.container_id", "item.id", "item.container_id"},
	},
	"GET /responses/{response_id}": {
		Brief: true,
		Names: []string{"output.#.id", "output.#.container_id", "response.output.#.id", "response.output.#.container_id", "item.id", "item.container_id"},
	},

	"GET /assistants":         lists,
	"POST /assistants":        makes,
	"POST /threads":           makes,
	"POST /threads/runs":      {Makes: []string{"thread_id"}, Events: []string{"thread_id", `[@this].#(object=="thread").id`}, Names: runFiles},
	"POST /threads/{id}/runs": {Names: runFiles},
	"POST /threads/{id}/runs/{run_id}/submit_tool_outputs": {Names: runFiles},
	"GET /threads/{id}/runs/{run_id}/steps":                {Names: each(stepFiles)},
	"GET /threads/{id}/runs/{run_id}/steps/{step_id}":      {Names: stepFiles},
	"GET /threads/{id}/messages":                           {Names: each(messageFiles)},
	"GET /threads/{id}/messages/{message_id}":              {Names: messageFiles},
	"GET /vector_stores":                                   lists,
	"POST /vector_stores":                                  makes,
	"GET /containers":                                      lists,
	"POST /containers":                                     makes,
	"POST /conversations":                                  {Makes: []string{"id"}, Items: true},
	"POST /conversations/{id}/items":                       items,
	"GET /evals":                                           lists,
	"POST /evals":                                          makes,
	"POST /uploads":                                        makes,
	"POST /uploads/{id}/complete":                          {Makes: []string{"file.id"}},
	"GET /videos":                                          lists,
	"POST /videos":                                         makes,
	"POST /videos/{id}/remix":                              makes,
	"POST /videos/edits":                                   makes,
	"POST /videos/extensions":                              makes,
	"POST /videos/characters":                              makes,
	"GET /skills":                                          lists,
	"POST /skills":                                         makes,
	"GET /chatkit/threads":                                 lists,
	"POST /chatkit/sessions":                               brief,
	"POST /realtime/calls":                                 {Location: true, Brief: true},

	"POST /ocr": apart, "POST /completions": apart, "POST /moderations": apart, "POST /embeddings": apart,
	"POST /responses/input_tokens": {Apart: true, Items: true}, "POST /responses/compact": {Apart: true, Items: true},
	"POST /images/generations": apart, "POST /images/edits": apart, "POST /images/variations": apart,
	"POST /audio/speech": apart, "POST /audio/transcriptions": apart, "POST /audio/translations": apart,
	"POST /rerank": apart, "POST /messages": apart, "POST /messages/count_tokens": apart, "POST /fim/completions": apart,
	"GET /realtime": apart, "POST /realtime/sessions": apart, "POST /realtime/transcription_sessions": apart, "POST /realtime/client_secrets": apart,
	"POST /fine_tuning/alpha/graders/run": apart, "POST /fine_tuning/alpha/graders/validate": apart,
	// Models are everybody's, but for those that jobs made: see Attempt.Hides.
	"GET /models": {Apart: true, Shows: true}, modelRows[0]: apart, modelRows[1]: apart, modelRows[2]: apart, modelRows[3]: apart, modelRows[4]: apart, modelRows[5]: apart,
}

// each are the paths of members of the objects in a list.
func each(members []string) []string {
	of := make([]string, len(members))
	for i, m := range members {
		of[i] = "data.#." + m
	}
	return of
}

// objectIn is the id of the outermost object that a path names, escaped as it is forwarded,
// by the pattern of the path; whole tells that nothing follows it.
func objectIn(pattern, path string) (id string, whole bool) {
	for pattern != "" && path != "" {
		want, restOfPattern, _ := strings.Cut(pattern[1:], "/")
		got, rest, more := strings.Cut(path[1:], "/")
		if strings.HasPrefix(want, "{") {
			return got, !more
		}
		if !more || restOfPattern == "" {
			break
		}
		pattern, path = "/"+restOfPattern, "/"+rest
	}
	return "", false
}

// object returns the id of the object that the call's path names, as its provider reads it; "" if
// it names none. For a path that the operator passes through, the table is consulted for an
// endpoint of another method.
func (c *Call) object() (id string, whole bool) {
	pattern := c.Endpoint.Path
	switch {
	case c.Endpoint.Objects.Apart:
		return "", false
	case c.Endpoint == &passThrough:
		rows := rowsOf("/v1" + c.Path)
		if len(rows) == 0 || rows[0].Objects.Apart {
			return "", false
		}
		pattern = rows[0].Path
	}
	id, whole = objectIn(strings.TrimPrefix(pattern, "/v1"), c.Path)
	if plain, err := url.PathUnescape(id); err == nil {
		id = plain
	}
	return id, whole
}

// rowsOf are the endpoints of a path, whatever their methods.
func rowsOf(path string) []*Endpoint {
	if rows := exactRows[path]; rows != nil {
		return rows
	}
	for _, rows := range patternRows {
		if matches(rows[0].Path, path) {
			return rows
		}
	}
	return nil
}
