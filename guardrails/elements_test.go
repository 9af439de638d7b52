package guardrails

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

func TestElementsAreThoseOfAnArrayWithoutAListOfThem(t *testing.T) {
	for _, text := range []string{`[]`, `[1,"a",{"b":[2]},null]`, `"a"`, `{"a":1}`, `null`, ``} {
		v := gjson.Parse(text)
		all := v.Array()
		n := 0
		for i, e := range Elements(v) {
			if i != n || e.Raw != all[i].Raw {
				t.Errorf("%s: %d is %s", text, i, e.Raw)
			}
			n++
		}
		if n != len(all) {
			t.Errorf("%s: %d elements", text, n)
		}
	}
	v := gjson.Parse("[1" + strings.Repeat(",1", 10_000) + "]")
	if n := testing.AllocsPerRun(10, func() {
		for range Elements(v) {
			continue
		}
	}); n > 8 {
		t.Errorf("%v allocations", n)
	}
}
