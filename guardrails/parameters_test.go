package guardrails

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
)

type always bool

func (a always) Judge(context.Context, *Subject) (Result, error) {
	return Result{Verdict: bool(a)}, nil
}

var sample = Kind{ID: "acme.sample", Parameters: []Parameter{
	{Name: "rule", Required: true},
	{Name: "mode", OneOf: []string{"any", "all"}, Default: `"any"`},
	{Name: "words", Type: Texts},
	{Name: "most", Type: Integer, Min: 1, Max: 9},
	{Name: "share", Type: Number},
	{Name: "not", Type: Boolean},
	{Name: "schema", Type: Object},
}, New: func(*Parameters) (Check, error) { return always(true), nil }}

func TestFaultsNameTheParameter(t *testing.T) {
	for _, c := range [][2]string{
		{`{"rule":"a"}`, ""},
		{`{"rule":"a","mode":"all","words":["x"],"most":9,"share":0.5,"not":true,"schema":{},"id":"x","failOnError":true}`, ""},
		{`{"rule":"a","words":null}`, ""},
		{``, "parameters.rule: required: a string"},
		{`{}`, "parameters.rule: required: a string"},
		{`{"rule":""}`, "parameters.rule: expected a string that is not empty"},
		{`{"rule":1}`, "parameters.rule: expected a string"},
		{`{"rule":"a","mode":"some"}`, "parameters.mode: expected one of any, all"},
		{`{"rule":"a","words":"x"}`, "parameters.words: expected a list of strings"},
		{`{"rule":"a","words":[1]}`, "parameters.words: expected a list of strings"},
		{`{"rule":"a","most":1.5}`, "parameters.most: expected an integer"},
		{`{"rule":"a","most":10}`, "parameters.most: expected a number from 1 to 9"},
		{`{"rule":"a","share":"1"}`, "parameters.share: expected a number"},
		{`{"rule":"a","not":1}`, "parameters.not: expected true or false"},
		{`{"rule":"a","schema":[]}`, "parameters.schema: expected an object"},
		{`{"rule":"a","rulez":1}`, "parameters.rulez: unknown parameter of acme.sample"},
		{`[]`, "parameters: expected an object"},
		{`{"rule":"` + strings.Repeat("a", maxParameters) + `"}`, "parameters: expected at most 1024 KiB"},
	} {
		var got []string
		for _, fault := range sample.Faults(json.RawMessage(c[0])) {
			got = append(got, fault.Error())
		}
		if s := strings.Join(got, "; "); s != c[1] {
			t.Errorf("%.60s: %q, want %q", c[0], s, c[1])
		}
	}
}

func TestUnknownParametersDoNotKeepACheckFromRunning(t *testing.T) {
	if _, err := sample.Make(json.RawMessage(`{"rule":"a","future":1}`)); err != nil {
		t.Error(err)
	}
	if _, err := sample.Make(json.RawMessage(`{"future":1}`)); err == nil {
		t.Error("a required parameter is missing, and nobody minds")
	}
}

func TestParametersAreReadWithTheirDefaults(t *testing.T) {
	p, faults := parse(sample.ID, sample.Parameters, json.RawMessage(`{"rule":"a\u00e9","words":["x","y"],"most":3,"share":0.25,"not":true}`))
	if faults != nil || p.Text("rule") != "aé" || p.Text("mode") != "any" || len(p.Texts("words")) != 2 || p.Integer("most") != 3 ||
		p.Number("share") != 0.25 || !p.Boolean("not") || p.Given("schema") {
		t.Errorf("%v, %v", p, faults)
	}
}

func TestExcerptsEndBetweenCharacters(t *testing.T) {
	if got := Excerpt(strings.Repeat("é", 101)); got != strings.Repeat("é", 100)+"..." {
		t.Errorf("got %q", got)
	}
	if got := Excerpt(strings.Repeat("é", 100)); got != strings.Repeat("é", 100) {
		t.Errorf("got %q", got)
	}
}

func FuzzParameters(f *testing.F) {
	for _, seed := range []string{`{"rule":"a"}`, `{"rule":"a","most":1e400}`, `{"rule":null,"words":[null]}`, `{"rule":"\ud800"}`, `{`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, faults := parse(sample.ID, sample.Parameters, raw)
		if len(faults) == 0 && p.Text("rule") == "" {
			t.Fatalf("%q has no rule and no fault", raw)
		}
	})
}
