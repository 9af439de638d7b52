package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-gw/gateway/credentials"
)

// checkQuery refuses parameters that a request which reads does not have, or has twice, because a list that is
// not filtered looks like one that is, and a version that is not chosen like the one that was meant.
func checkQuery(op *huma.Operation, rawQuery string) *Error {
	if op.Method != http.MethodGet || rawQuery == "" {
		return nil
	}
	var known []string
	for _, p := range op.Parameters {
		if p.In == "query" {
			known = append(known, p.Name)
		}
	}
	what, list := "parameter", "Parameters of this request: "
	if slices.Contains(known, "page_size") {
		what, list = "filter", "Filters of this list: "
	}
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return invalid("query", "expected name=value, percent-encoded and separated by &")
	}
	var faults []string
	for name, values := range query {
		switch {
		case !slices.Contains(known, name) && !inPath(op, name):
			fault := credentials.Clip(name) + ": there is no such " + what
			if near := credentials.Nearest(name, known); near != "" {
				fault += " (did you mean " + near + "?)"
			}
			faults = append(faults, fault)
		case values[0] == "" && ofMany(op, name):
			faults = append(faults, credentials.Clip(name)+": expected values separated by commas; leave it out for all")
		case len(values) > 1:
			faults = append(faults, credentials.Clip(name)+": it is given twice; several values are separated by commas")
		}
	}
	if faults == nil {
		return nil
	}
	slices.Sort(faults)
	slices.Sort(known)
	if more := len(faults) - maxFaults; more > 0 {
		faults = append(faults[:maxFaults], fmt.Sprintf("and %d more", more))
	}
	if len(known) == 0 {
		return failure(http.StatusBadRequest, "%s. This request has no parameters", strings.Join(faults, "; "))
	}
	return failure(http.StatusBadRequest, "%s. %s%s", strings.Join(faults, "; "), list, strings.Join(known, ", "))
}

// strayWorkspace returns the workspace that the query of a request names which creates something, if the workspace is a member
// of the body there. It must not be created elsewhere than meant.
func strayWorkspace(op *huma.Operation, r *http.Request) string {
	known := slices.ContainsFunc(op.Parameters, func(p *huma.Param) bool { return p.In == "query" && p.Name == "workspace_id" })
	if op.Method != http.MethodPost || known || inPath(op, "workspace_id") {
		return ""
	}
	return r.URL.Query().Get("workspace_id")
}

// ofMany reports whether a parameter takes several values.
func ofMany(op *huma.Operation, name string) bool {
	return slices.ContainsFunc(op.Parameters, func(p *huma.Param) bool {
		return p.In == "query" && p.Name == name && (p.Schema.Type == huma.TypeArray || name == "ids")
	})
}

// inPath reports whether a parameter is also one of the path. Some clients send those twice, as
// workspaceId.
func inPath(op *huma.Operation, name string) bool {
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }
	return slices.ContainsFunc(op.Parameters, func(p *huma.Param) bool { return p.In == "path" && plain(p.Name) == plain(name) })
}
