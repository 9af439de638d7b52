package audit

import (
	"fmt"
	"testing"
)

// Terms that were asked for least lately make room, and each is known as far as it was asked for.
func TestWhatIsKeptOfTermsIsBounded(t *testing.T) {
	var r recall
	blocks := func(n int) (all []block) {
		for i := range n {
			all = append(all, block{number: uint64(2 * i)})
		}
		return all
	}
	const each = maxRecalled/3 - 2
	for i := range 3 {
		r.put(fmt.Sprint(i), 0, 2*each, blocks(each))
	}
	if _, _, ok := r.get("0", 0); !ok {
		t.Error("a term is not kept though there is room")
	}
	r.put("3", 4, 2*each, blocks(each))
	for i, want := range []bool{true, false, true, true} {
		got, last, ok := r.get(fmt.Sprint(i), 7)
		if ok != want || ok && (last != 2*each || got[0].number != 8) {
			t.Errorf("term %d: %v, up to %d", i, ok, last)
		}
	}
	if _, _, ok := r.get("3", 3); ok {
		t.Error("blocks before the first known one are said to be known")
	}
	r.put("3", 4, 10, blocks(1)) // less than is kept
	if got, last, _ := r.get("3", 4); len(got) != each-2 || last != 2*each {
		t.Errorf("%d blocks are kept, up to %d", len(got), last)
	}
	r.put("many", 0, 4*maxRecalled, blocks(maxRecalled+1))
	if _, _, ok := r.get("many", 0); ok || r.kept > maxRecalled || len(r.terms) != r.used.Len() {
		t.Errorf("%d blocks of %d terms are kept", r.kept, len(r.terms))
	}
}
