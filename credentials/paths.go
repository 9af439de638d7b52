package credentials

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// A PathPattern matches calls to paths that are not endpoints of the gateway, which a
// stored credential may be used for.
type PathPattern struct {
	Method string // "" matches any
	Path   string // below /v1; a segment * matches any one, and at the end any number of them
}

// Paths are several patterns.
type Paths []PathPattern

var pathMethods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// ParsePaths parses patterns: paths, each optionally preceded by a method. A method and its
// path may be two words or one.
func ParsePaths(words []string) (Paths, error) {
	var paths Paths
	var p PathPattern
	for _, word := range strings.Fields(strings.Join(words, " ")) {
		switch {
		case p.Method == "" && slices.Contains(pathMethods, word):
			p.Method = word
			continue
		case !strings.HasPrefix(word, "/v1/") || len(word) == len("/v1/") || strings.ContainsAny(word, "?#{}"):
			return nil, fmt.Errorf("%q: expected a path such as /v1/files/*, after one of %s or none", word, strings.Join(pathMethods, ", "))
		}
		for _, segment := range strings.Split(word[1:], "/") {
			if segment == "" || segment != "*" && strings.Contains(segment, "*") {
				return nil, fmt.Errorf("%q: expected * to be a whole segment, and no segment empty", word)
			}
		}
		p.Path = word
		paths = append(paths, p)
		p = PathPattern{}
	}
	if p.Method != "" {
		return nil, fmt.Errorf("%s: expected a path after the method", p.Method)
	}
	return paths, nil
}

// Match reports whether one of the patterns matches a call. The path is escaped.
func (paths Paths) Match(method, path string) bool {
	for i := range paths {
		if p := &paths[i]; (p.Method == "" || p.Method == method) && matchPath(p.Path, path) {
			return true
		}
	}
	return false
}

func matchPath(pattern, path string) bool {
	for {
		want, restOfPattern, more := strings.Cut(pattern[1:], "/")
		got, rest, also := strings.Cut(path[1:], "/")
		switch {
		case got == "" || want != "*" && want != got:
			return false
		case want == "*" && !more:
			return true
		case !more || !also:
			return more == also
		}
		pattern, path = "/"+restOfPattern, "/"+rest
	}
}
