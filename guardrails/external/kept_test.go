package external

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// Whatever others put, a workspace loses nothing while some other has more than it.
func TestNoWorkspaceDisplacesWhatAnotherHasFewerOf(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 20).Draw(t, "most")
		k := newKept[int](most)
		model := make(map[string][]int)
		key := func(workspace string, n int) [sha256.Size]byte {
			return sha256.Sum256([]byte(fmt.Sprint(workspace, " ", n)))
		}
		for n := range rapid.IntRange(0, 100).Draw(t, "puts") {
			workspace := rapid.SampledFrom([]string{"a", "a", "a", "b", "c"}).Draw(t, "workspace")
			before := make(map[string]int)
			for other, list := range model {
				before[other] = len(list)
			}
			k.put(workspace, key(workspace, n+1), n+1)
			model[workspace] = append(model[workspace], n+1)
			total, lost := 0, 0
			for other, list := range model {
				held := list[:0:0]
				for _, v := range list {
					if got := k.get(key(other, v)); got == v {
						held = append(held, v)
					} else if got != 0 {
						t.Fatalf("%s %d: got %d", other, v, got)
					}
				}
				if len(held) < len(list) && other != workspace {
					for third, n := range before {
						if n > before[other] {
							t.Fatalf("%s had %d and lost one, while %s had %d", other, before[other], third, n)
						}
					}
				}
				model[other] = held
				total += len(held)
				lost += len(list) - len(held)
				if len(held) > 0 && held[0] != list[len(list)-len(held)] {
					t.Fatalf("%s had %v, and has %v", other, list, held)
				}
			}
			if total != len(k.of) || total > most || lost > 1 {
				t.Fatalf("%d are kept, of %d at most: %v", len(k.of), most, model)
			}
		}
	})
}
