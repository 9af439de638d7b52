package validation

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"pgregory.net/rapid"
)

// A generator draws values that a table allows, and values that it does not, from
// the table itself.
type generator struct{ t *rapid.T }

func (g generator) pick(label string, from ...string) string {
	return rapid.SampledFrom(from).Draw(g.t, label)
}

// valid draws a value that v allows.
func (g generator) valid(v *Value) string {
	if v.Kinds == 0 {
		return g.pick("anything", `null`, `7`, `"x"`, `{"model":1}`, `[[]]`)
	}
	var kinds []Kinds
	for _, k := range kindNames {
		if v.Kinds&k.kind != 0 {
			kinds = append(kinds, k.kind)
		}
	}
	switch kind := rapid.SampledFrom(kinds).Draw(g.t, "kind"); kind {
	case Boolean:
		return g.pick("boolean", "true", "false")
	case Integer, Number:
		return g.number(v, kind == Integer)
	case String:
		return g.text(v)
	case Array:
		return g.array(v)
	default:
		if v.Fields != nil {
			return g.object(v.Fields)
		}
		return g.pairs(v)
	}
}

func (g generator) number(v *Value, whole bool) string {
	least, most := -1e6, 1e6
	if v.Range != nil {
		least, most = max(least, v.Range.Min), min(most, v.Range.Max)
	}
	f := rapid.Float64Range(least, most).Draw(g.t, "number")
	f = rapid.SampledFrom([]float64{f, math.Ceil(least), math.Floor(most), 0, 1}).Draw(g.t, "bound or between")
	if whole {
		f = math.Round(f)
	}
	f = min(max(f, least), most)
	return g.spell(f)
}

// spell writes a number in one of the ways that mean it.
func (g generator) spell(f float64) string {
	plain := strconv.FormatFloat(f, 'f', -1, 64)
	spellings := []string{plain, strconv.FormatFloat(f, 'e', -1, 64)}
	if f != 0 && !strings.Contains(plain, ".") {
		spellings = append(spellings, plain+".0", plain+"0E-1")
	}
	return g.pick("spelling", spellings...)
}

func (g generator) text(v *Value) string {
	switch {
	case v.OneOf != nil:
		return `"` + rapid.SampledFrom(v.OneOf).Draw(g.t, "one of") + `"`
	case v.Document:
		return g.pick("document", `"https://e.example/a.pdf"`, `"data:application/pdf;base64,AA=="`)
	case v.Letters != "":
		return `"` + strings.TrimSpace(v.Letters) + `"`
	}
	unit := g.pick("letter", "x", "é", `\u00e9`, `\ud83d\ude00`, `\"`)
	n := 3
	if v.MaxLength > 0 {
		n = rapid.SampledFrom([]int{0, 1, v.MaxLength}).Draw(g.t, "length")
	}
	return `"` + strings.Repeat(unit, n) + `"`
}

func (g generator) array(v *Value) string {
	most := v.MaxItems
	if most == 0 {
		most = v.MinItems + 3
	}
	n := rapid.SampledFrom([]int{v.MinItems, min(v.MinItems+1, most), most}).Draw(g.t, "length")
	if v.Items == nil {
		return list(n, "1")
	}
	if !v.Uniform {
		var items []string
		for range min(n, 3) {
			items = append(items, g.valid(v.Items))
		}
		for len(items) < n {
			items = append(items, items[0])
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	return list(n, g.valid(v.Items))
}

func (g generator) pairs(v *Value) string {
	if v.Each == nil {
		return g.pick("object", `{}`, `{"type":"x","Type":[1]}`)
	}
	n := 3
	if v.MaxPairs > 0 {
		n = rapid.SampledFrom([]int{0, 1, v.MaxPairs}).Draw(g.t, "pairs")
	}
	var members []string
	for i := range n {
		members = append(members, fmt.Sprintf(`"%d":%s`, i, g.valid(v.Each)))
	}
	return "{" + strings.Join(members, ",") + "}"
}

func (g generator) object(f *Fields) string { return spellObject(g.t, g.members(f)) }

// members draws the members of an object, by name.
func (g generator) members(f *Fields) map[string]string {
	members := map[string]string{}
	for i := range f.rows {
		row := &f.rows[i]
		if row.Need == Required || rapid.IntRange(0, 2).Draw(g.t, row.Name) == 0 {
			members[row.Name] = g.valid(&row.Value)
		} else if rapid.IntRange(0, 5).Draw(g.t, row.Name+" is null") == 0 {
			members[row.Name] = "null"
		}
	}
	given := func(name string) bool { return name != "" && members[name] != "" && members[name] != "null" }
	for i := range f.rows { // what fields ask of their siblings
		row := &f.rows[i]
		if given(row.Name) && row.OnlyWith != "" {
			members[row.OnlyWith] = "true"
		}
		if r := row.RequiredWith; r.Field != "" && !given(row.Name) && members[r.Field] == `"`+r.Value+`"` {
			members[row.Name] = g.valid(&row.Value)
		}
	}
	for i := range f.rows { // and what they do not go with
		row := &f.rows[i]
		excluded := row.NotWith != "" && members[row.NotWith] == "true"
		if given(row.Name) && (excluded || given(row.Above) && rational(members[row.Name]).Cmp(rational(members[row.Above])) <= 0) {
			delete(members, row.Name)
		}
	}
	return members
}

func spellObject(t *rapid.T, members map[string]string) string {
	names := slices.Sorted(maps.Keys(members))
	if len(names) > 0 {
		names = rapid.Permutation(names).Draw(t, "order")
	}
	var parts []string
	for _, name := range names {
		parts = append(parts, `"`+name+`":`+members[name])
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// A mutation is a value that v does not allow, and where in it the fault is.
type mutation struct{ value, param string }

func (g generator) invalid(v *Value) (m []mutation) {
	if v.Kinds == 0 {
		return nil
	}
	for _, wrong := range []struct {
		kinds Kinds
		value string
	}{{String, `"x"`}, {Number | Integer, "1"}, {Boolean, "true"}, {Array, "[]"}, {Object, "{}"}} {
		if v.Kinds&wrong.kinds == 0 {
			m = append(m, mutation{wrong.value, ""})
		}
	}
	if v.Kinds&Integer != 0 && v.Kinds&Number == 0 {
		m = append(m, mutation{"1.5", ""}, mutation{"15e-1", ""})
	}
	if r := v.Range; r != nil {
		by := 1.0
		if v.Kinds&Number != 0 {
			by = 1e-9
		}
		if !math.IsInf(r.Min, 0) {
			m = append(m, mutation{offset(r.Min, -by), ""})
		}
		if !math.IsInf(r.Max, 0) {
			m = append(m, mutation{offset(r.Max, by), ""})
		}
	}
	if v.Document {
		m = append(m, mutation{`"http://e.example/a.pdf"`, ""}, mutation{`""`, ""})
	}
	if v.OneOf != nil {
		m = append(m, mutation{`"nothing of the kind"`, ""})
	}
	if v.MaxLength > 0 {
		m = append(m, mutation{`"` + strings.Repeat("é", v.MaxLength+1) + `"`, ""})
	}
	if v.MinItems > 0 {
		m = append(m, mutation{"[]", ""})
	}
	if v.MaxItems > 0 {
		m = append(m, mutation{list(v.MaxItems+1, g.valid(v.Items)), ""})
	}
	if v.MaxPairs > 0 {
		m = append(m, mutation{pairs(v.MaxPairs + 1), ""})
	}
	if v.Items != nil {
		for _, inner := range g.invalid(v.Items) {
			m = append(m, mutation{"[" + inner.value + "]", "[0]" + inner.param})
		}
	}
	if v.Each != nil {
		for _, inner := range g.invalid(v.Each) {
			m = append(m, mutation{`{"k":` + inner.value + "}", ".k" + inner.param})
		}
	}
	if v.Fields != nil {
		for i := range v.Fields.rows {
			row := &v.Fields.rows[i]
			members := g.members(v.Fields)
			for _, inner := range g.invalid(&row.Value) {
				members[row.Name] = inner.value
				m = append(m, mutation{spellObject(g.t, members), "." + row.Name + inner.param})
			}
			if row.Need == Required {
				delete(members, row.Name)
				m = append(m, mutation{spellObject(g.t, members), "." + row.Name})
			}
		}
	}
	return m
}

func offset(bound, by float64) string {
	sum := new(big.Float).SetPrec(200).SetFloat64(by)
	spec, _, err := big.ParseFloat(format(bound), 10, 200, big.ToNearestEven)
	if err != nil {
		panic(err)
	}
	return sum.Add(sum, spec).Text('f', 12)
}

// rational is the exact value of a number, which the checker must agree with.
func rational(number string) *big.Rat {
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		panic("not a number: " + number)
	}
	return r
}
