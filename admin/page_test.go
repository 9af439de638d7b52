package admin

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// A page without left-out rows is that of a filter that keeps all, and only its rows are looked
// at.
func TestAPageLooksAtItsRowsOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := make([]*int, rapid.IntRange(0, 50).Draw(t, "rows"))
		for i := range rows {
			rows[i] = &i
		}
		p := Paging{PageSize: rapid.IntRange(0, 12).Draw(t, "size"), CurrentPage: rapid.OneOf(rapid.IntRange(0, 12), rapid.Just(math.MaxInt)).Draw(t, "page")}
		shown := 0
		show := func(n *int) string {
			shown++
			return fmt.Sprint(*n)
		}
		ahead := rapid.IntRange(0, len(rows)).Draw(t, "ahead")
		all := choice[int]{first: rows[:ahead], rows: rows[ahead:]}
		kept := all
		kept.only(func(*int) bool { return true })
		want := pageOf(&kept, p, show)
		shown = 0
		got := pageOf(&all, p, show)
		if !reflect.DeepEqual(got, want) || shown > p.PageSize {
			t.Fatalf("%+v: got %+v, want %+v; %d were shown", p, got, want, shown)
		}
	})
}
