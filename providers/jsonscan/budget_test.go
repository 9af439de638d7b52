package jsonscan

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestABoundedBodyHasSoManyElements(t *testing.T) {
	count := func(body string) (n int, err error) {
		r := Bounded([]byte(body))
		r.Object(func(Key) {
			list := r.Raw()
			inside := r.Within(list)
			inside.Array(func() { n++ })
		})
		return n, r.Err()
	}
	list := func(n int) string { return "[1" + strings.Repeat(",1", n-1) + "]" }
	if n, err := count(`{"a":` + list(FewElements-1) + `,"b":[1]}`); n != FewElements || err != nil {
		t.Errorf("%d elements, %v", n, err)
	}
	n, err := count(`{"a":` + list(FewElements) + `,"b":[1]}`)
	if limit := new(LimitError); n != FewElements || !errors.As(err, &limit) || limit.Limit != FewElements {
		t.Errorf("%d elements, %v", n, err)
	}
	if _, err = count(`{"a":` + list(FewElements+1) + `,"b":"` + strings.Repeat("x", BytesPerElement*2*FewElements) + `"}`); err != nil {
		t.Error("a large body may have more:", err)
	}
}

func TestAPathNamesAValue(t *testing.T) {
	body := `{"a":[{"b":1},{"c d":[2,[3],"here"]}]}`
	r := NewReader([]byte(body))
	r.i = strings.Index(body, `"here"`)
	if got := r.Path(); got != "a[1].c d[2]" {
		t.Error(got)
	}
}

func TestNamesAreEscaped(t *testing.T) {
	for _, name := range []string{"plain", `x":1,"prompt`, "\n\x00\\", "é"} {
		var b Builder
		b.Open('{')
		b.Key(name).Int(1)
		b.Close('}')
		var got map[string]int
		if err := json.Unmarshal(b, &got); err != nil || len(got) != 1 || got[name] != 1 {
			t.Errorf("%q: %s, %v", name, b, err)
		}
	}
}
