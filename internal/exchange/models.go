package exchange

import (
	"net/http"
	"slices"
	"strings"
)

// modelRows are the paths of a model. Its id may have slashes, such as
// @slug/accounts/fireworks/models/name.
var modelRows = []string{
	"GET /models/{model}", "GET /models/{owner}/{model}", "GET /models/{a}/{owner}/{model}", "GET /models/{a}/{b}/{owner}/{model}",
	"GET /models/{a}/{b}/{c}/{owner}/{model}", "GET /models/{a}/{b}/{c}/{d}/{owner}/{model}",
}

// spelling undoes the escapes in which clients put the id of a model into one segment.
var spelling = strings.NewReplacer("%2F", "/", "%2f", "/", "%40", "@", "%3A", ":", "%3a", ":")

// RequestPath is the escaped path of a request, below /v1. That of a model has its id in as many segments
// as that has. Calls of prompts are below /v2, too.
func RequestPath(r *http.Request) string {
	path := r.URL.EscapedPath()
	if rest, ok := strings.CutPrefix(path, "/v2"); ok {
		if path := "/v1" + rest; slices.ContainsFunc(promptRows, func(e Endpoint) bool { return matches(e.Path, path) }) {
			return path
		}
	}
	if id, ok := strings.CutPrefix(path, "/v1/models/"); ok && r.Method == http.MethodGet && strings.Contains(id, "%") {
		return "/v1/models/" + spelling.Replace(id)
	}
	return path
}

// AskedModel is the id by which the call asks about a model, where the provider has another; "":
// it has the same, or the call does not ask about one.
func (a *Attempt) AskedModel() string {
	if asked := a.call.located.model; a.Payload().namesModel() && asked != a.Model {
		return asked
	}
	return ""
}
