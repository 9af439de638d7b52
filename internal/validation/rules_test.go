package validation

import (
	"strings"
	"testing"
)

// Values of every kind, and what a field that is of one kind refuses.
var (
	notText    = []string{`1`, `true`, `[]`, `{}`}
	notBoolean = []string{`"true"`, `1`, `[]`, `{}`}
	notInteger = []string{`"1"`, `1.5`, `1e-1`, `true`, `[]`, `{}`}
	notNumber  = []string{`"1"`, `true`, `[]`, `{}`}
	notObject  = []string{`"x"`, `1`, `true`, `[]`}
)

// A rule is what a row of a table says: values just inside of it, and just outside.
// A value is that of the field, or, if it starts with a comma, members.
type rule struct {
	field   string
	inside  []string
	badType []string
	outside map[string]string // to the code; with another param: "code param"
}

// testRules puts each value into base, which is the end of a body.
func testRules(t *testing.T, table *Table, base string, rules []rule) {
	t.Helper()
	body := func(field, value string) string {
		members := value
		if !strings.HasPrefix(value, ",") {
			members = `,"` + field + `":` + value
		}
		return strings.Replace(base, "}END", members+"}", 1)
	}
	for _, r := range rules {
		for _, value := range append(r.inside, "null") {
			mustAccept(t, table, body(r.field, value))
		}
		for _, value := range r.badType {
			mustRefuse(t, table, body(r.field, value), r.field, InvalidType)
		}
		for value, code := range r.outside {
			code, param, ok := strings.Cut(code, " ")
			if !ok {
				param = r.field
			}
			mustRefuse(t, table, body(r.field, value), param, code)
		}
	}
}

func list(n int, element string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
}

func pairs(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,"k` + strings.Repeat("x", i) + `":"v"`)
	}
	return "{" + strings.TrimPrefix(b.String(), ",") + "}"
}

// The rules that several tables share.
var (
	penalty = map[string]string{`-2.01`: DecimalBelowMin, `2.01`: DecimalAboveMax, `-3`: DecimalBelowMin, `1e1`: DecimalAboveMax}

	samplingRules = []rule{
		{"model", []string{`""`, `"gpt-4o"`, `"@slug/x"`}, notText, nil},
		{"temperature", []string{`0`, `0.0`, `-0`, `2`, `2.000`, `2e0`, `0.7`}, notNumber, map[string]string{`-0.01`: DecimalBelowMin, `2.01`: DecimalAboveMax, `2.00000000000000000000001`: DecimalAboveMax, `1e400`: DecimalAboveMax}},
		{"top_p", []string{`0`, `1`, `1.0`, `10e-1`, `0.5`}, notNumber, map[string]string{`-1e-9`: DecimalBelowMin, `1.01`: DecimalAboveMax}},
	}
	generationRules = append([]rule{
		{"frequency_penalty", []string{`-2`, `2`, `0.5`}, notNumber, penalty},
		{"presence_penalty", []string{`-2`, `2`, `0.5`}, notNumber, penalty},
		{"logit_bias", []string{`{}`, `{"50256":-100}`, `{"1":100,"2":0.5}`}, notObject, map[string]string{
			`{"1":-100.1}`: DecimalBelowMin + " logit_bias.1", `{"0":0,"50256":101}`: DecimalAboveMax + " logit_bias.50256",
			`{"1":"x"}`: InvalidType + " logit_bias.1", `{"1":null}`: InvalidType + " logit_bias.1",
		}},
		{"n", []string{`1`, `128`, `1.0`, `1e2`, `12.8e1`}, notInteger, map[string]string{`0`: IntegerBelowMin, `129`: IntegerAboveMax, `-1`: IntegerBelowMin, `1e99999999999999999999`: IntegerAboveMax}},
		{"stop", []string{`"x"`, `""`, `[]`, list(4, `"x"`)}, []string{`1`, `true`, `{}`}, map[string]string{list(5, `"x"`): ArrayAboveMax, `["x",7]`: InvalidType + " stop[1]", `[null]`: InvalidType + " stop[0]"}},
		{"stream", []string{`true`, `false`}, notBoolean, nil},
		{"stream_options", []string{`,"stream_options":{"include_usage":true},"stream":true`, `,"stream":true,"stream_options":{}`, `,"stream":false,"stream_options":null`}, notObject, map[string]string{
			`{}`:                                   InvalidValue,
			`,"stream":false,"stream_options":{}`:  InvalidValue,
			`,"stream_options":{},"stream":null`:   InvalidValue,
			`,"stream":"yes","stream_options":{}`:  InvalidType + " stream",
			`,"stream":true,"stream_options":true`: InvalidType,
		}},
		{"user", []string{`""`, `"u"`}, notText, nil},
		{"metadata", []string{`{}`, `"x"`, `7`}, nil, nil},
	}, samplingRules...)
	metadataRule = rule{"metadata", []string{
		`{}`, `{"k":"v"}`, pairs(16),
		`{"` + strings.Repeat("é", 64) + `":"` + strings.Repeat("€", 512) + `"}`,
		`{"k":"` + strings.Repeat(`\u00e9`, 512) + `"}`, `{"k":"` + strings.Repeat(`\ud83d\ude00`, 512) + `"}`, `{"` + strings.Repeat(`\u00e9`, 64) + `":""}`,
	}, notObject, map[string]string{
		pairs(17): ObjectAboveMax,
		`{"` + strings.Repeat("é", 65) + `":""}`:              StringAboveMax,
		`{"` + strings.Repeat(`\u00e9`, 65) + `":""}`:         StringAboveMax,
		`{"k":"` + strings.Repeat("€", 513) + `"}`:            StringAboveMax + " metadata.k",
		`{"k":"` + strings.Repeat(`\ud83d\ude00`, 513) + `"}`: StringAboveMax + " metadata.k",
		`{"k":7}`:    InvalidType + " metadata.k",
		`{"k":null}`: InvalidType + " metadata.k",
	}}
)

func TestEveryFieldMayBeGivenOnce(t *testing.T) {
	for _, table := range tables {
		base := minimal[table]
		for _, row := range table.Fields.rows {
			name := row.Name
			again := `"` + name + `":null,"` + name + `":null`
			escaped := `"` + name + `":null,"\u00` + hex(name[0]) + name[1:] + `":null`
			if row.Need == Required { // it is there already
				again, escaped = `"`+name+`":null`, `"\u00`+hex(name[0])+name[1:]+`":null`
			}
			mustRefuse(t, table, with(base, again), name, DuplicateField)
			mustRefuse(t, table, with(base, escaped), name, DuplicateField)
			for _, other := range variants(name) {
				mustRefuse(t, table, with(base, `"`+other+`":null`), other, DuplicateField)
			}
		}
	}
}

// with is a body with more members.
func with(body, members string) string {
	if body != "{}" {
		members = "," + members
	}
	return body[:len(body)-1] + members + "}"
}

func hex(c byte) string { return string("0123456789abcdef"[c>>4]) + string("0123456789abcdef"[c&15]) }

// variants are spellings of a name that strings.EqualFold takes for it.
func variants(name string) []string {
	v := []string{strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:]}
	for _, fold := range [][2]string{{"s", "ſ"}, {"k", "K"}} {
		if strings.Contains(name, fold[0]) {
			v = append(v, strings.Replace(name, fold[0], fold[1], 1))
		}
	}
	return v
}
