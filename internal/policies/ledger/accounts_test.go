package ledger

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// Accounts are found by their keys, also if their hashes are the same.
func TestAccountsAreFoundByTheirKeys(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, model := make(accounts), map[string]*account{}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			n := rapid.IntRange(0, 9).Draw(t, "key")
			key, hash := fmt.Sprint(n), uint64(n%3)
			if a := model[key]; a != nil {
				m.remove(a)
				delete(model, key)
			} else {
				a := &account{key: key, hash: hash}
				m.add(a)
				model[key] = a
			}
			all := map[string]*account{}
			for a := range m.all() {
				all[a.key] = a
			}
			if len(all) != len(model) {
				t.Fatalf("%d accounts, want %d", len(all), len(model))
			}
			for n := range 10 {
				if key := fmt.Sprint(n); m.get(uint64(n%3), key) != model[key] || all[key] != model[key] {
					t.Fatalf("account %s is not found as it should be", key)
				}
			}
		}
	})
}
