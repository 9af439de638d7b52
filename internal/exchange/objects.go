package exchange

import (
	"net/http"
	"slices"
	"strings"
)

// Objects says which objects stored by a provider the calls of an endpoint are about. A call
// whose path has an id is about the object with that id; further ids in the path are of objects
// that belong to it, except that a file of a vector store is one of those that were uploaded.
type Objects struct {
	// Created are the gjson paths of the ids of created objects in an answer, and
	// CreatedInEvents those in an event of a stream.
	Created, CreatedInEvents []string
	// Related are the paths, in an answer or an event, of the ids of objects that the provider
	// created for the call's object, such as the output of a batch.
	Related []string
	// Models are the paths of the models that jobs created.
	Models []string
	// List is set if the answer is a list of all objects of the credential, and OldestFirst if it
	// begins with the oldest of them where the query does not say.
	List, OldestFirst bool
	// In is the path of the list, without the first slash, that shows the created objects. It is
	// only given if that is not the list of the same path.
	In string
	// ModelList is set if the answer is a list of models, which must not show models created by
	// jobs of other workspaces.
	ModelList bool
	// ShortLived is set if the provider keeps the created object for at most thirty days.
	ShortLived bool
	// StoreParam is the parameter that says whether the provider stores an object, and
	// StoreDefault its default. It is empty if there is none.
	StoreParam   string
	StoreDefault bool
	// Location is set if the id is the last segment of the header Location.
	Location bool
	// ScansLines is set if the created object is a file of whose lines a batch may make calls: what
	// they name is checked during the upload. LinesOf is the member of a body with the file whose
	// lines become calls.
	ScansLines bool
	LinesOf    string
	// None is set if the call is about no object, whatever is in its path.
	None bool
	// HasItems is set if the members input and items of the body have items, one of which is a
	// reference if it only has an id.
	HasItems bool
}

// Creates reports whether a call may make an object.
func (o *Objects) Creates() bool { return len(o.Created) > 0 || o.Location }

var (
	lists      = Objects{List: true}
	creates    = Objects{Created: []string{"id"}, CreatedInEvents: []string{"id"}}
	shortLived = Objects{Created: []string{"id"}, ShortLived: true}
	noObjects  = Objects{None: true}
	items      = Objects{HasItems: true}

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
// its path stands here: what is not listed as an exception is one more way to objects. One with an
// id stands here only if its answer names others.
var objectRows = map[string]Objects{
	"GET /files":                                 lists,
	"POST /files":                                {Created: []string{"id"}, ScansLines: true},
	"GET /batches":                               {List: true, Related: each(batchFiles)},
	"POST /batches":                              {Created: []string{"id"}, LinesOf: "input_file_id"},
	"GET /batches/{batch_id}":                    {Related: batchFiles},
	"POST /batches/{batch_id}/cancel":            {Related: batchFiles},
	"GET /fine_tuning/jobs":                      {List: true, Related: each(jobFiles), Models: each(jobModels)},
	"POST /fine_tuning/jobs":                     creates,
	"GET /fine_tuning/jobs/{fine_tuning_job_id}": {Related: jobFiles, Models: jobModels},
	"GET /fine_tuning/jobs/{fine_tuning_job_id}/checkpoints": {Models: []string{"data.#.fine_tuned_model_checkpoint"}},

	"GET /chat/completions":  {List: true, OldestFirst: true},
	"POST /chat/completions": {Created: []string{"id"}, CreatedInEvents: []string{"id"}, ShortLived: true, StoreParam: "store"},
	"POST /responses": {
		Created: []string{"id"}, CreatedInEvents: []string{"response.id"}, ShortLived: true, StoreParam: "store", StoreDefault: true, HasItems: true,
		Related: []string{"output.#.id", "output.#.container_id", "response.output.#.id", "response.output.#.container_id", "item.id", "item.container_id"},
	},
	"GET /responses/{response_id}": {
		ShortLived: true,
		Related:    []string{"output.#.id", "output.#.container_id", "response.output.#.id", "response.output.#.container_id", "item.id", "item.container_id"},
	},

	"GET /assistants":         lists,
	"POST /assistants":        creates,
	"POST /threads":           creates,
	"POST /threads/runs":      {Created: []string{"thread_id"}, CreatedInEvents: []string{"thread_id", `[@this].#(object=="thread").id`}, Related: runFiles},
	"POST /threads/{id}/runs": {Related: runFiles},
	"POST /threads/{id}/runs/{run_id}/submit_tool_outputs": {Related: runFiles},
	"GET /threads/{id}/runs/{run_id}/steps":                {Related: each(stepFiles)},
	"GET /threads/{id}/runs/{run_id}/steps/{step_id}":      {Related: stepFiles},
	"GET /threads/{id}/messages":                           {Related: each(messageFiles)},
	"GET /threads/{id}/messages/{message_id}":              {Related: messageFiles},
	"GET /vector_stores":                                   lists,
	"POST /vector_stores":                                  creates,
	"GET /containers":                                      lists,
	"POST /containers":                                     creates,
	"POST /conversations":                                  {Created: []string{"id"}, HasItems: true},
	"POST /conversations/{id}/items":                       items,
	"GET /evals":                                           {List: true, OldestFirst: true},
	"POST /evals":                                          creates,
	"POST /uploads":                                        creates,
	"POST /uploads/{id}/parts":                             shortLived,
	"POST /uploads/{id}/complete":                          {Created: []string{"file.id"}, In: "files"},
	"GET /videos":                                          lists,
	"POST /videos":                                         creates,
	"POST /videos/{id}/remix":                              {Created: []string{"id"}, In: "videos"},
	"POST /videos/edits":                                   {Created: []string{"id"}, In: "videos"},
	"POST /videos/extensions":                              {Created: []string{"id"}, In: "videos"},
	"POST /videos/characters":                              creates,
	"GET /skills":                                          lists,
	"POST /skills":                                         creates,
	"GET /chatkit/threads":                                 lists,
	"POST /chatkit/sessions":                               shortLived,
	"POST /realtime/calls":                                 {Location: true, ShortLived: true},

	"POST /ocr": noObjects, "POST /completions": noObjects, "POST /moderations": noObjects, "POST /embeddings": noObjects,
	"POST /responses/input_tokens": {None: true, HasItems: true}, "POST /responses/compact": {None: true, HasItems: true},
	"POST /images/generations": noObjects, "POST /images/edits": noObjects, "POST /images/variations": noObjects,
	"POST /audio/speech": noObjects, "POST /audio/transcriptions": noObjects, "POST /audio/translations": noObjects,
	"POST /rerank": noObjects, "POST /messages": noObjects, "POST /messages/count_tokens": noObjects, "POST /fim/completions": noObjects,
	"GET /realtime": noObjects, "POST /realtime/sessions": noObjects, "POST /realtime/transcription_sessions": noObjects, "POST /realtime/client_secrets": noObjects,
	"POST /fine_tuning/alpha/graders/run": noObjects, "POST /fine_tuning/alpha/graders/validate": noObjects,
	// Models are everybody's, but for those that jobs made: see Ownership.Hides.
	"GET /models": {None: true, ModelList: true}, modelRows[0]: noObjects, modelRows[1]: noObjects, modelRows[2]: noObjects, modelRows[3]: noObjects, modelRows[4]: noObjects, modelRows[5]: noObjects,
}

// objectsOf is the row of an endpoint, whose path is without its version.
func objectsOf(method, path string) Objects {
	o := objectRows[method+" "+path]
	if o.In == "" && (o.List || o.Creates() && objectRows[http.MethodGet+" "+path].List) {
		o.In = strings.TrimPrefix(path, "/")
	}
	return o
}

// shownIn is the list that shows the objects whose ids are in a member of an answer, besides those that
// the call created; "": none does.
func shownIn(member string) string {
	switch {
	case strings.HasSuffix(member, "container_id"):
		return "containers"
	case strings.HasSuffix(member, "file_id"), strings.HasSuffix(member, "result_files"):
		return "files"
	}
	return ""
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
// by the pattern of the path; whole: nothing follows it.
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
