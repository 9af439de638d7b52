package admin_test

import (
	"hash/fnv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// A routeCase is a route of the OpenAPI document, and a request for it that succeeds.
type routeCase struct {
	*api         // of its own, which has the objects that the request is about
	name         string
	method, path string
	target, sent string // of the request: path with ids and query, and body
	operation    gjson.Result
}

// everyRoute runs a test, in parallel, for each route that accept takes. There are at least so many of them.
func everyRoute(t *testing.T, least int, accepts func(r *routeCase) bool, test func(t *testing.T, r *routeCase)) {
	tried := 0
	for path, methods := range newAPI(t).paths() {
		for method, operation := range methods.Map() {
			r := &routeCase{method: strings.ToUpper(method), path: path, operation: operation}
			if r.name = r.method + " " + path; !accepts(r) {
				continue
			}
			tried++
			if leftOut(r.name) {
				continue
			}
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				r.api = newAPI(t)
				r.target, r.sent = r.prepare(r.method, path)
				if own, ok := callBodies[r.name]; ok {
					r.sent = own
				}
				test(t, r)
			})
		}
	}
	if tried < least {
		t.Errorf("only %d routes", tried)
	}
}

// leftOut reports whether a generated test leaves out a route: with -short, it has a fifth of them, as
// properties have a fifth of their draws.
func leftOut(route string) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(route))
	return testing.Short() && h.Sum32()%5 != 0
}
