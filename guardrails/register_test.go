package guardrails

import "testing"

func TestIDsAreFoundInAnyCase(t *testing.T) {
	Register(Kind{ID: "acme.isLoud", Aliases: []string{"acme.loud"}, New: sample.New})
	for _, id := range []string{"acme.isLoud", "ACME.isloud", "acme.loud"} {
		if k := Lookup(id); k == nil || k.ID != "acme.isLoud" {
			t.Errorf("%s is %v", id, k)
		}
	}
	if Lookup("acme.quiet") != nil {
		t.Error("an unknown id has a kind")
	}
	for _, id := range []string{"acme.LOUD", "acme", "acme.", "a b.c", ".x"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("the id %q is accepted", id)
				}
			}()
			Register(Kind{ID: id, New: sample.New})
		}()
	}
}
