package admin

import (
	"net/http"
	"strings"
)

// A router has a separate ServeMux for paths below /prompts/partials. A single one
// would reject the patterns /prompts/partials/{id}/versions and
// /prompts/{id}/versions/{version}, because neither is more specific than the other.
type router struct{ all, partials http.ServeMux }

// of returns the ServeMux for a path, which may follow a method.
func (rt *router) of(pattern string) *http.ServeMux {
	_, path, found := strings.Cut(pattern, "/")
	_, path, _ = strings.Cut(path, "/") // remove v1 or v2
	if rest, ok := strings.CutPrefix(path, "prompts/partials"); found && ok && (rest == "" || rest[0] == '/') {
		return &rt.partials
	}
	return &rt.all
}

// HandleFunc is like that of a ServeMux.
func (rt *router) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	rt.of(pattern).HandleFunc(pattern, handler)
}

// Handler is like that of a ServeMux.
func (rt *router) Handler(r *http.Request) (http.Handler, string) {
	return rt.of(r.URL.Path).Handler(r)
}

func (rt *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rt.of(r.URL.Path).ServeHTTP(w, r)
}
