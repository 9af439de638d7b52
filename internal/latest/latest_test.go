package latest

import "testing"

func TestTheLatestValueThatIsNotReleasedCounts(t *testing.T) {
	var v Value[string]
	expect := func(want string) {
		t.Helper()
		if got := v.Get(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	expect("")
	first := v.Use("first")
	failed := v.Use("failed")
	expect("failed")
	failed()
	expect("first")
	v.Use("second")
	first()
	first()
	expect("second")
}
