package admin

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Adding a route without scopes, or a change without an audit record, panics.
func TestARouteNeedsAScopeAndAChangeAnAuditRecord(t *testing.T) {
	for want, add := range map[string]func(*API){
		"GET /toys has no scope": func(a *API) {
			list[string, WorkspaceFilter](a, &resource[string]{path: "/toys", noun: "toy", kind: "toys"}, nil, func(_ *call, s *string) string { return *s })
		},
		"DELETE /toys/{id} has no scope": func(a *API) {
			remove(a, &resource[string]{path: "/toys", param: "id", noun: "toy", kind: "toys"}, "Delete", func(*call, *string) error { return nil })
		},
		"POST /toys leaves no audit record": func(a *API) {
			register(a, route{method: http.MethodPost, path: "/toys", kind: "toys", scopes: []string{"toys.create"}}, func(*call, *struct{}) (*empty, error) { return &empty{}, nil })
		},
		"GET /toys has no type": func(a *API) {
			register(a, route{method: http.MethodGet, path: "/toys", scopes: []string{"toys.list"}}, func(*call, *struct{}) (*empty, error) { return &empty{}, nil })
		},
	} {
		a := New(Services{Now: time.Now})
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("got %q, want %q", got, want)
				}
			}()
			add(a)
		}()
	}
}

func TestNounsHaveArticlesAndPlurals(t *testing.T) {
	for noun, want := range map[string]string{
		"config": "a config, configs", "API key": "an API key, API keys", "rate-limit policy": "a rate-limit policy, rate-limit policies",
	} {
		r := resource[string]{noun: noun, param: "id"}
		if got := r.aNoun() + ", " + plural(noun); got != want {
			t.Errorf("%s: %s", noun, got)
		}
	}
	if got := (&resource[string]{noun: "organisation"}).aNoun(); got != "the organisation" {
		t.Error(got)
	}
}
