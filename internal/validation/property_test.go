package validation

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestWhatATableAllowsIsAccepted(t *testing.T) {
	for _, table := range tables {
		t.Run(table.Name, rapid.MakeCheck(func(t *rapid.T) {
			body := generator{t}.object(table.Fields)
			if _, err := Check(table, []byte(body)); err != nil {
				t.Fatalf("refused %s: %v", body, err)
			}
		}))
	}
}

func TestOneFieldOutOfRangeIsRefusedByItsName(t *testing.T) {
	for _, table := range tables {
		t.Run(table.Name, rapid.MakeCheck(func(t *rapid.T) {
			g := generator{t}
			members := g.members(table.Fields)
			row := rapid.SampledFrom(table.Fields.rows).Draw(t, "row")
			mutations := g.invalid(&row.Value)
			if row.Need == Required {
				mutations = append(mutations, mutation{"null", ""})
			}
			if len(mutations) == 0 {
				return
			}
			m := rapid.SampledFrom(mutations).Draw(t, "mutation")
			members[row.Name] = m.value
			body := spellObject(t, members)
			_, err := Check(table, []byte(body))
			var fault *Error
			if !errors.As(err, &fault) || fault.Param != row.Name+m.param || fault.Message == "" {
				t.Fatalf("got %v for %s, want a fault of %s", err, body, row.Name+m.param)
			}
		}))
	}
}

func TestDecimalsCompareExactly(t *testing.T) {
	number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,5})(\.[0-9]{1,6})?([eE][+-]?[0-9]{1,2})?`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		if rapid.Bool().Draw(t, "the same, spelled otherwise") {
			b = rational(a).FloatString(120)
		}
		if got, want := parseDecimal([]byte(a)).compare(parseDecimal([]byte(b))), rational(a).Cmp(rational(b)); got != want {
			t.Fatalf("%s against %s: got %d, want %d", a, b, got, want)
		}
		if got, want := isInteger([]byte(a)), rational(a).IsInt(); got != want {
			t.Fatalf("%s is an integer: got %v", a, got)
		}
	})
}

func TestKeysFoldAsStringsEqualFoldDoes(t *testing.T) {
	key := rapid.StringMatching(`[sSkKſKtToOpPeErRmMaAuUiIİıdDlL_ ]{1,12}`)
	rapid.Check(t, func(t *rapid.T) {
		k := key.Draw(t, "key")
		if rapid.Bool().Draw(t, "a name") {
			k = rapid.SampledFrom(variants(rapid.SampledFrom(Chat.Fields.rows).Draw(t, "row").Name)).Draw(t, "variant")
		}
		want := -1
		for i := range Chat.Fields.rows {
			if strings.EqualFold(k, Chat.Fields.rows[i].Name) {
				want = i
			}
		}
		got := Chat.Fields.find([]byte(k))
		if got < 0 {
			got = Chat.Fields.findFolded([]byte(k))
		}
		if got != want {
			t.Fatalf("%q: got row %d, want %d", k, got, want)
		}
	})
}
