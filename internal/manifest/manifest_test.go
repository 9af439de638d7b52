package manifest

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

func newSealer(t *testing.T, key string) *Sealer {
	t.Helper()
	s, err := NewSealer([]byte(strings.Repeat(key, KeySize)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestASecretIsSealedForItsObject(t *testing.T) {
	t.Parallel()
	one, other := newSealer(t, "a"), newSealer(t, "b")
	rapid.Check(t, func(t *rapid.T) {
		of, secret := rapid.String().Draw(t, "of"), rapid.String().Draw(t, "secret")
		sealed := one.Seal(of, secret)
		if again := one.Seal(of, secret); again != sealed {
			t.Fatalf("%q and %q", sealed, again)
		}
		if got, err := one.Open(of, sealed); err != nil || got != secret {
			t.Fatalf("%q %v", got, err)
		}
		if secret != "" && one.Seal(of, secret+"x")[:20] == sealed[:20] {
			t.Fatal("two secrets have the same nonce")
		}
		for _, wrong := range []func() (string, error){
			func() (string, error) { return other.Open(of, sealed) },
			func() (string, error) { return one.Open(of+"x", sealed) },
			func() (string, error) { return one.Open(of, sealed[:len(sealed)-1]) },
			func() (string, error) { return one.Open(of, strings.TrimPrefix(sealed, sealedPrefix)) },
		} {
			if _, err := wrong(); !errors.Is(err, ErrWrongKey) {
				t.Fatalf("got %v", err)
			}
		}
	})
	if _, err := NewSealer(nil); err == nil {
		t.Error("a sealer without a key")
	}
}

func TestDifferencesHaveNoSecrets(t *testing.T) {
	t.Parallel()
	s := newSealer(t, "a")
	before := `{"a":1,"b":{"c":"x","key":"` + s.Seal("o", "1") + `"},"list":[1,{"d":2}],"gone":true}`
	after := `{"a":1,"b":{"c":"y","key":"` + s.Seal("o", "2") + `"},"list":[1,{"d":3},4],"new":{"key":"` + s.Seal("o", "3") + `"}}`
	changes, err := difference([]byte(before), []byte(after))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range changes {
		got = append(got, c.Field+" "+c.From+" "+c.To)
	}
	want := []string{`b.c "x" "y"`, `b.key "(secret)" "(another)"`, `list[1].d 2 3`, `gone true `, `list[2]  4`, `new  {"key":"(secret)"}`}
	for _, w := range want {
		found := false
		for _, g := range got {
			found = found || g == w
		}
		if !found {
			t.Errorf("no %q in %q", w, got)
		}
	}
	same, err := difference([]byte(after), []byte(after))
	if len(got) != len(want) || len(same) != 0 || err != nil {
		t.Errorf("%q; none: %v, %v", got, same, err)
	}
}

// FuzzDocument reads anything.
func FuzzDocument(f *testing.F) {
	f.Add([]byte(`{"format":1,"users":[{"id":"x"}]}`))
	f.Add([]byte(`{"format":1,"users":7}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var d Document
		if json.Unmarshal(text, &d) != nil {
			return
		}
		out, err := json.Marshal(d)
		var again Document
		if err == nil {
			err = json.Unmarshal(out, &again)
		}
		if err != nil {
			t.Fatalf("%s: %v", out, err)
		}
	})
}
