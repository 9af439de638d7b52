package routing

import (
	"encoding/json"
	"go/ast"
	goparser "go/parser"
	gotoken "go/token"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A schemaNode is what the tests read of docs/config.schema.json.
type schemaNode struct {
	Properties       map[string]*schemaNode `json:"properties"`
	Defs             map[string]*schemaNode `json:"$defs"`
	Required         []string               `json:"required"`
	Enum             []string               `json:"enum"`
	Minimum          *float64               `json:"minimum"`
	ExclusiveMinimum *float64               `json:"exclusiveMinimum"`
	Maximum          *float64               `json:"maximum"`
	MaxLength        int                    `json:"maxLength"`
	Examples         []json.RawMessage      `json:"examples"`
}

func schemaOf(t *testing.T) *schemaNode {
	t.Helper()
	b, err := os.ReadFile("../../docs/config.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	s := new(schemaNode)
	if err := json.Unmarshal(b, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// casesOf are the texts for which the switches in a method of the parser have a case.
func casesOf(t *testing.T, file, method string) []string {
	t.Helper()
	f, err := goparser.ParseFile(gotoken.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, decl := range f.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Name.Name != method {
			continue
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			if c, ok := n.(*ast.CaseClause); ok {
				for _, e := range c.List {
					if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == gotoken.STRING {
						s, _ := strconv.Unquote(lit.Value)
						keys = append(keys, s)
					}
				}
			}
			return true
		})
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func TestTheSchemaHasTheKeysThatAreRead(t *testing.T) {
	s := schemaOf(t)
	for _, c := range []struct{ def, file, method string }{
		{"settings", "target.go", "target"},
		{"retry", "target.go", "retry"},
		{"cache", "target.go", "cache"},
		{"strategy", "strategy.go", "strategy"},
		{"cb_config", "strategy.go", "breaker"},
		{"sticky", "strategy.go", "sticky"},
		{"condition", "query.go", "conditions"},
	} {
		want := casesOf(t, c.file, c.method)
		got := slices.Sorted(maps.Keys(s.Defs[c.def].Properties))
		if c.def == "settings" {
			want = append(want, VendorKeys...)
			want = slices.DeleteFunc(want, func(name string) bool { return name == "options" }) // which is refused
			got = append(got, slices.Collect(maps.Keys(s.Properties))...)
			slices.Sort(want)
			slices.Sort(got)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the schema has %v, and %s reads %v", c.def, got, c.method, want)
		}
	}
}

// configWith is a config in which a key of a definition has a value.
func configWith(def, key, value string) string {
	const targets = `"targets":[{"name":"cheap","provider":"@a","weight":1},{"name":"good","provider":"@b"}]`
	member := `"` + key + `":` + value
	strategy := func(inside string) string { return `{"strategy":{` + inside + `},` + targets + `}` }
	switch def {
	case "settings", "root":
		switch key {
		case "strategy", "targets":
			return `{"strategy":{"mode":"fallback"},"targets":` + map[bool]string{true: value, false: `[{"provider":"@a"}]`}[key == "targets"] + `}`
		case "provider":
			return "{" + member + "}"
		case "api_key", "custom_host":
			return `{"provider":"openai",` + member + `}`
		case "virtual_key":
			return "{" + member + "}"
		}
		return `{"provider":"@a",` + member + `}`
	case "retry", "cache":
		if def == "cache" && key != "mode" {
			member += `,"mode":"simple"`
		}
		return `{"provider":"@a","` + def + `":{` + member + `}}`
	case "condition":
		other := map[string]string{"query": `"then":"good"`, "then": `"query":{"metadata.a":"b"}`}[key]
		return strategy(`"mode":"conditional","conditions":[{` + member + `,` + other + `}]`)
	case "cb_config":
		if key != "failure_threshold" {
			member += `,"failure_threshold":5`
		}
		return strategy(`"mode":"fallback","cb_config":{` + member + `}`)
	case "sticky":
		if key != "enabled" {
			member += `,"enabled":true`
		}
		return strategy(`"mode":"loadbalance","sticky":{` + member + `}`)
	}
	switch key { // of a strategy
	case "mode":
		if value == `"conditional"` {
			member += `,"conditions":[{"query":{"metadata.a":"b"},"then":"good"}]`
		}
		return strategy(member)
	case "conditions":
		return strategy(`"mode":"conditional",` + member)
	case "default":
		return strategy(`"mode":"conditional","conditions":[{"query":{"metadata.a":"b"},"then":"good"}],` + member)
	case "sticky":
		return strategy(`"mode":"loadbalance",` + member)
	}
	return strategy(`"mode":"fallback",` + member)
}

func TestTheSchemaSaysWhatIsAccepted(t *testing.T) {
	s := schemaOf(t)
	options := Options{Saved: true, Semantic: true}
	all := maps.Clone(s.Defs)
	all["root"] = &schemaNode{Properties: s.Properties}
	delete(all, "target")
	tried := 0
	for def, d := range all {
		for key, p := range d.Properties {
			check := func(value string, good bool) {
				t.Helper()
				tried++
				config := configWith(def, key, value)
				if _, faults := Parse([]byte(config), options); (len(faults) == 0) != good {
					t.Errorf("%s.%s: %s, as the schema has it: %v, %v", def, key, config, good, faults)
				}
			}
			for _, example := range p.Examples {
				check(string(example), true)
			}
			for _, e := range p.Enum {
				check(strconv.Quote(e), true)
			}
			if p.Enum != nil {
				check(`"nonsense"`, false)
			}
			number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
			if p.Minimum != nil {
				check(number(*p.Minimum), true)
				check(number(*p.Minimum-1), false)
			}
			if p.ExclusiveMinimum != nil {
				check(number(*p.ExclusiveMinimum), false)
			}
			if p.MaxLength > 0 && slices.Contains([]string{"name", "provider", "virtual_key", "api_key"}, key) {
				check(strconv.Quote("@"+strings.Repeat("a", p.MaxLength-1)), true)
				check(strconv.Quote("@"+strings.Repeat("a", p.MaxLength)), false)
			}
			if p.Maximum != nil {
				check(number(*p.Maximum), true)
				check(number(*p.Maximum+1), false)
			}
		}
	}
	if tried < 80 {
		t.Errorf("only %d values tried", tried)
	}
	for _, def := range []string{"strategy", "condition", "sticky", "cache"} {
		if len(s.Defs[def].Required) == 0 {
			t.Errorf("%s requires nothing", def)
		}
	}
}
