package admin

import (
	"net/http"
	"strings"
)

// A router has what is below /prompts/partials in a table of its own: a ServeMux cannot tell
// /prompts/partials/{id}/versions from /prompts/{id}/versions/{version}, since each has paths
// that the other one has not.
type router struct{ all, partials http.ServeMux }

// of returns the table of a path, which a method may precede.
func (rt *router) of(pattern string) *http.ServeMux {
	_, path, found := strings.Cut(pattern, "/")
	_, path, _ = strings.Cut(path, "/") // without v1 or v2
	if rest, ok := strings.CutPrefix(path, "prompts/partials"); found && ok && (rest == "" || rest[0] == '/') {
		return &rt.partials
	}
	return &rt.all
}

// HandleFunc is that of a ServeMux.
func (rt *router) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	rt.of(pattern).HandleFunc(pattern, handler)
}

// Handler is that of a ServeMux.
func (rt *router) Handler(r *http.Request) (http.Handler, string) {
	return rt.of(r.URL.Path).Handler(r)
}

func (rt *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rt.of(r.URL.Path).ServeHTTP(w, r)
}
