package guardrails

import (
	"iter"

	"github.com/tidwall/gjson"
)

// Elements are those of an array, one after the other; a value that is none is the only one, and
// null has none. gjson's Array makes a list of all of them, which takes a hundred times the size
// of an array such as [1,1,1].
func Elements(v gjson.Result) iter.Seq2[int, gjson.Result] {
	return func(yield func(int, gjson.Result) bool) {
		if !v.IsArray() {
			if v.Type != gjson.Null {
				yield(0, v)
			}
			return
		}
		i := -1
		v.ForEach(func(_, element gjson.Result) bool {
			i++
			return yield(i, element)
		})
	}
}
