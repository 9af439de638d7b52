package admin_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// A list that is not filtered looks like one that is, so that what it does not filter by is refused.
func TestEveryListRefusesFiltersThatItDoesNotHave(t *testing.T) {
	a := newAPI(t)
	lists := 0
	parameter := regexp.MustCompile(`\{[^}]+\}`)
	a.do("GET", "/v1/openapi.json", "").get("paths").ForEach(func(path, operations gjson.Result) bool {
		if !operations.Get(`get.parameters.#(name=="page_size")`).Exists() {
			return true
		}
		lists++
		at := parameter.ReplaceAllString(path.Str, "x")
		for query, want := range map[string]string{
			"there_is_none=1&page_size=2": "there_is_none: there is no such filter. Filters of this list: ",
			"page_siz=2":                  "page_siz: there is no such filter (did you mean page_size?). Filters of this list: ",
			"page_size=1&page_size=2":     "page_size: it is given twice",
			"page_size=%zz":               "query: expected name=value",
			strings.Repeat("y", 5000) + "=1&" + strings.Repeat("%2C", 10): "yyy",
		} {
			got := a.do("GET", at+"?"+query, "")
			if message := got.message(); got.status != 400 || got.code() != "AB01" || !strings.HasPrefix(message, want) && want != "yyy" || len(message) > 2000 {
				t.Errorf("%s?%.40s: %d %s", at, query, got.status, got.body)
			}
		}
		return true
	})
	if lists < 20 {
		t.Errorf("%d lists", lists)
	}
	// Clients may repeat what is in the path.
	w := a.s.Directory.DefaultWorkspace().ID
	a.ok("GET", "/v1/admin/workspaces/"+w+"/users?workspaceId="+w+"&page_size=1", "")
	a.ok("GET", "/v1/admin/users?pageSize=1&currentPage=0", "")
}
