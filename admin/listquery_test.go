package admin_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// A list that is not filtered looks like one that is, so that what it does not filter by is refused: by every route that
// reads, whatever it is of.
func TestEveryRouteThatReadsRefusesParametersThatItDoesNotHave(t *testing.T) {
	a := newAPI(t)
	lists, others := 0, 0
	parameter := regexp.MustCompile(`\{[^}]+\}`)
	a.do("GET", "/v1/openapi.json", "").get("paths").ForEach(func(path, operations gjson.Result) bool {
		get := operations.Get("get")
		if !get.Exists() || path.Str == "/v1/admin/health" {
			return true
		}
		known, what, list := get.Get(`parameters.#(in=="query")#.name`).Array(), "parameter", "Parameters of this request: "
		switch {
		case get.Get(`parameters.#(name=="page_size")`).Exists():
			what, list = "filter", "Filters of this list: "
			lists++
		default:
			others++
		}
		at := parameter.ReplaceAllString(path.Str, "x")
		cases := map[string]string{
			"there_is_none=1": "there_is_none: there is no such " + what + ". " + list,
			"a=%zz":           "query: expected name=value",
			strings.Repeat("y", 5000) + "=1&" + strings.Repeat("%2C", 10): "yyy",
		}
		if len(known) == 0 {
			cases["there_is_none=1"] = "there_is_none: there is no such parameter. This request has no parameters"
		} else {
			one := known[0].Str
			cases[one+"=1&"+one+"=2"] = one + ": it is given twice"
			cases[one[:len(one)-1]+"=2"] = one[:len(one)-1] + ": there is no such " + what + " (did you mean " + one + "?). " + list
		}
		for query, want := range cases {
			got := a.do("GET", at+"?"+query, "")
			if message := got.message(); got.status != 400 || got.code() != "AB01" || !strings.HasPrefix(message, want) && want != "yyy" || len(message) > 2000 {
				t.Errorf("%s?%.40s: %d %s", at, query, got.status, got.body)
			}
		}
		return true
	})
	if lists < 20 || others < 30 {
		t.Errorf("%d lists and %d others", lists, others)
	}
	// Clients may repeat what is in the path.
	w := a.s.Directory.DefaultWorkspace().ID
	a.ok("GET", "/v1/admin/workspaces/"+w+"/users?workspaceId="+w+"&page_size=1", "")
	a.ok("GET", "/v1/admin/users?pageSize=1&currentPage=0", "")
}
