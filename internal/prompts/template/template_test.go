package template_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/prompts/template"
)

// partials are the partials of the tests by name.
var partials = map[string]string{
	"greeting":   "Hello {{name}}",
	"greeting@2": "Hi {{name}}, \"friend\"\n",
	"outer":      "[{{>greeting}}]",
	"loop":       "a{{>pool}}",
	"pool":       "b{{>loop}}",
	"message":    `{"role":"user","content":"{{name}}"}`,
}

// render renders text with variables, either as text or as a raw template.
func render(t testing.TB, raw bool, text, variables string) (string, error) {
	t.Helper()
	parse := template.Text
	if raw {
		parse = template.Raw
	}
	parsed, err := parse(text)
	if err != nil {
		return "", err
	}
	v, err := template.ReadVariables([]byte(variables))
	if err != nil {
		return "", err
	}
	r := &template.Renderer{Limit: 1 << 20, Partial: func(name string) *template.Partial {
		if text, ok := partials[name]; ok {
			p, err := template.ParsePartial(text)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		return nil
	}}
	r.Reset(&v)
	out, err := r.Append(nil, parsed)
	if err != nil || raw {
		return string(out), err
	}
	var s string
	if err := json.Unmarshal([]byte(`"`+string(out)+`"`), &s); err != nil {
		t.Fatalf("%s over %s comes to %s: %v", text, variables, out, err)
	}
	return s, nil
}

func TestTextsAreRendered(t *testing.T) {
	for _, c := range []struct{ text, variables, want string }{
		{"plain \"text\"\n", `{}`, "plain \"text\"\n"},
		{"Hi {{name}}!", `{"name":"Ann"}`, "Hi Ann!"},
		{"{{ name }}{{{name}}}{{& name}}", `{"name":"<&>"}`, "<&><&><&>"},
		{"{{a}}{{b}}{{c}}", `{"a":"say \"hi\"\\\n","b":"\u00e9é","c":"{{a}}"}`, "say \"hi\"\\\néé{{a}}"},
		{"{{missing}}{{nothing}}{{a.b}}", `{"nothing":null,"a":"text"}`, ""},
		{"{{n}} {{f}} {{t}}", `{"n":1.50,"f":false,"t":true}`, "1.50 false true"},
		{"{{list}}", `{"list":[1, "a\"b", {"k" : [ true ]}]}`, `1,"a\"b",{"k":[true]}`},
		{"{{object}}", `{"object":{ "a b" : "c \\ d", "e":null }}`, `{"a b":"c \\ d","e":null}`},
		{"{{a.b.c}} {{a.list.1}} {{a.list.9}}", `{"a":{"b":{"c":"deep"},"list":["x","y"]}}`, "deep y "},
		{"{{a}}", `{"a":"first","a":"last"}`, "last"},

		{"{{#on}}yes{{/on}}{{^on}}no{{/on}}", `{"on":true}`, "yes"},
		{"{{#on}}yes{{/on}}{{^on}}no{{/on}}", `{"on":"false"}`, "yes"},
		{"{{#on}}yes{{/on}}{{^on}}no{{/on}}", `{}`, "no"},
		{"{{#on}}yes{{/on}}{{^on}}no{{/on}}", `{"on":[ ]}`, "no"},
		{"{{#on}}yes{{/on}}{{^on}}no{{/on}}", `{"on":""}`, "no"},
		{"{{#on}}yes{{/on}}{{^on}}no{{/on}}", `{"on":0.0}`, "no"},
		{"{{#on}}yes{{/on}}{{^on}}no{{/on}}", `{"on":{}}`, "yes"},
		{"{{#xs}}<{{.}}>{{/xs}}", `{"xs":["a",1,true]}`, "<a><1><true>"},
		{"{{#xs}}{{name}} of {{town}};{{/xs}}", `{"town":"Ulm","xs":[{"name":"a"},{"name":"b","town":"Bonn"}]}`, "a of Ulm;b of Bonn;"},
		{"{{#a}}{{#b}}{{c}}{{/b}}{{/a}}", `{"a":{"b":[{"c":"x"},{"c":"y"}]}}`, "xy"},
		{"{{#a.b}}x{{/a.b}}", `{"a":{"b":1}}`, "x"},
		{"a\n{{#on}}\nb\n{{/on}}\nc", `{"on":true}`, "a\n\nb\n\nc"},

		{"a{{! a comment }}b{{!c}}d{{! {{x}}e", `{}`, "abde"},
		{"{{=<% %>=}}<% name %>{{name}}<%={{ }}=%>{{name}}", `{"name":"x"}`, "x{{name}}x"},
		{"{{=<%=}}", `{}`, "{{=<%=}}"},
		{"{{name", `{"name":"x"}`, "{{name"},
		{"{{#a}}b", `{"a":true}`, "{{#a}}b"},
		{"b{{/a}}c", `{}`, "b{{/a}}c"},
		{"{{#a}}x{{#b}}y{{/a}}z{{/b}}", `{"a":true}`, "x{{#b}}yz{{/b}}"},
		{"{{ if {{name}}", `{"name":"x"}`, "{{ if x"},
		{"{{{name}}", `{"name":"x"}`, "{x"},
		{`{"a":{"b":1}} {{name}}`, `{"name":"x"}`, `{"a":{"b":1}} x`},

		{"{{>greeting}}.", `{"name":"Ann"}`, "Hello Ann."},
		{"{{> greeting@2 }}", `{"name":"Ann"}`, "Hi Ann, \"friend\"\n"},
		{"{{>outer}}", `{"name":"Ann"}`, "[Hello Ann]"},
		{"{{>>which}}", `{"which":"greeting","name":"Ann"}`, "Hello Ann"},
		{"{{#xs}}{{>greeting}} {{/xs}}", `{"xs":[{"name":"a"},{"name":"b"}]}`, "Hello a Hello b "},
		{"{{#off}}{{>nowhere}}{{/off}}", `{}`, ""},
	} {
		if got, err := render(t, false, c.text, c.variables); err != nil || got != c.want {
			t.Errorf("%s over %s comes to %q (%v), expected %q", c.text, c.variables, got, err, c.want)
		}
	}
}

// A raw template is rendered before it is parsed, so values are inserted as JSON.
func TestRawTemplatesAreRendered(t *testing.T) {
	for _, c := range []struct{ text, variables, want string }{
		{`["{{a}}"]`, `{"a":"x\",\"y"}`, `["x\",\"y"]`},
		{`["{{a}}"]`, `{"a":["x",{"k":"v"}]}`, `["\"x\",{\"k\":\"v\"}"]`},
		{`["\{{a}}"]`, `{"a":"\",\"y"}`, `["\\\",\"y"]`},
		{`["\\{{a}}"]`, `{"a":"\"y"}`, `["\\\"y"]`},
		{`["\{{a}}","x"]`, `{}`, `["\\","x"]`},
		{`["{{#a}}\{{/a}}","x"]`, `{"a":true}`, `["\\","x"]`},
		{`["\{{#a}}y{{/a}}","x"]`, `{}`, `["\\","x"]`},
		{`[{{a}}]`, `{"a":"x, 1"}`, `["x, 1"]`},
		{`[{{a}}]`, `{"a":"12"}`, `[12]`},
		{`[{{a}}]`, `{"a":" true"}`, `[true]`},
		{`[{{a}}]`, `{"a":["x", 1]}`, `["x",1]`},
		{`[{{a}}]`, `{"a":{"k": 1}}`, `[{"k":1}]`},
		{
			`[{{#xs}}{"role":"user","content":"{{.}}"},{{/xs}}{"role":"user","content":"end"}]`, `{"xs":["a\"","b"]}`,
			`[{"role":"user","content":"a\""},{"role":"user","content":"b"},{"role":"user","content":"end"}]`,
		},
		{`[{{>message}}]`, `{"name":"A\"nn"}`, `[{"role":"user","content":"A\"nn"}]`},
		{`["{{>message}}"]`, `{"name":"Ann"}`, `["{\"role\":\"user\",\"content\":\"Ann\"}"]`},
		{`["{{>greeting@2}}"]`, `{"name":"Ann"}`, `["Hi Ann, \"friend\"\n"]`},
	} {
		if got, err := render(t, true, c.text, c.variables); err != nil || got != c.want {
			t.Errorf("%s over %s comes to %s (%v), expected %s", c.text, c.variables, got, err, c.want)
		}
	}
}

func TestEveryTextOfAJSONTemplateIsOne(t *testing.T) {
	parsed, err := template.JSON([]byte(`[ {"role":"user","content":[{"type":"text","text":"{{a}} \"x\""},{"type":"image_url","image_url":{"url":"https://h/{{a}}.png"}}],` +
		`"{{a}}":1.0, "n":null, "open":"{{#a}}", "close":"{{/a}}"} ]`))
	if err != nil {
		t.Fatal(err)
	}
	v, err := template.ReadVariables([]byte(`{"a":"\"}],"}`))
	if err != nil {
		t.Fatal(err)
	}
	r := &template.Renderer{Limit: 1 << 20}
	r.Reset(&v)
	got, err := r.Append([]byte("x"), parsed)
	const want = `x[{"role":"user","content":[{"type":"text","text":"\"}], \"x\""},{"type":"image_url","image_url":{"url":"https://h/\"}],.png"}}],` +
		`"{{a}}":1.0,"n":null,"open":"{{#a}}","close":"{{/a}}"}]`
	if err != nil || string(got) != want {
		t.Errorf("got %s (%v)\nexpected %s", got, err, want)
	}
}

func TestWhatCannotBeRenderedIsRefused(t *testing.T) {
	nested := strings.Repeat("{{#a}}", template.MaxSections+1) + strings.Repeat("{{/a}}", template.MaxSections+1)
	many := `{"a":[` + strings.Repeat("1,", 5000) + `1]}`
	for _, c := range []struct{ text, variables, code, message string }{
		{"{{>nowhere}}{{>nowhere}}{{>else}}", `{}`, "missing_partials", "Missing prompt partials: nowhere, else"},
		{"{{>>which}}", `{}`, "missing_partials", "Missing variable partials: which"},
		{"{{>>which}}", `{"which":"nowhere"}`, "missing_partials", "Missing prompt partials: nowhere"},
		{"{{>loop}}", `{}`, "partial_cycle", "loop → pool → loop"},
		{nested, `{}`, "invalid_template", "at most 64 sections"},
		{strings.Repeat("{{a}}", template.MaxTags+1), `{}`, "invalid_template", "at most 20000 tags"},
		{"{{#a}}{{#a}}{{/a}}{{/a}}", many, "prompt_too_large", "steps"},
		{"{{#a}}" + strings.Repeat("x", 1000) + "{{/a}}", many, "prompt_too_large", "larger than 1048576 bytes"},
		{"x", `[]`, "invalid_type", "expected an object"},
	} {
		_, err := render(t, false, c.text, c.variables)
		var e *template.Error
		if !errors.As(err, &e) || e.Code != c.code || !strings.Contains(e.Message, c.message) {
			t.Errorf("%.80s over %.80s: %v, expected %s %q", c.text, c.variables, err, c.code, c.message)
		}
	}
	tooMany := "{" + strings.Repeat(`"a":1,`, template.MaxVariables) + `"a":1}`
	if _, err := template.ReadVariables([]byte(tooMany)); err == nil {
		t.Errorf("%d variables are read", template.MaxVariables+1)
	}
}

func TestATemplateNamesWhatItUses(t *testing.T) {
	parsed, err := template.Text("{{a}}{{a}}{{#s}}{{b.c}}{{.}}{{#t}}{{/t}}{{/s}}{{d}}{{>p@1}}{{>>v}}")
	if err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(parsed.Uses())
	const want = `{"Variables":["a","d"],"Sections":["s","t"],"SectionVariables":["b.c","."],"Partials":["p@1"],"VariablePartials":["v"]}`
	if string(got) != want {
		t.Errorf("got %s, expected %s", got, want)
	}
}

// values generates JSON values whose strings contain everything that is special in
// JSON.
func values(t *rapid.T) string {
	text := rapid.Custom(func(t *rapid.T) any {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{`"`, `\`, "\n", "{", "}", "[", "]", ",", ":", "{{a}}", "u0022", "x", "1", "true", "é"}), 0, 6).Draw(t, "parts"), "")
	})
	value := rapid.OneOf(text, rapid.Map(rapid.SliceOfN(text, 0, 3), func(s []any) any { return s }),
		rapid.Map(text, func(s any) any { return map[string]any{"k": s} }), rapid.Just[any](1), rapid.Just[any](nil))
	b, err := json.Marshal(map[string]any{"a": value.Draw(t, "a"), "b": value.Draw(t, "b")})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// No value ends the string or the value that it is inserted into: the structure of the
// result does not depend on the values.
func TestNoValueBreaksOut(t *testing.T) {
	t.Parallel()
	raw := []string{`[{"role":"user","content":"{{a}}"},"{{b}}"]`, `[{"role":"user","content":"\\{{a}}\\"},"\{{b}}{{a}}"]`, `[{"role":"user","content":"{{>message}}{{a}}"},"{{#a}}{{.}}{{/a}}"]`}
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.SampledFrom(raw).Draw(rt, "template")
		variables := strings.Replace(values(rt), "{", `{"name":"\"}",`, 1)
		out, err := render(t, true, text, variables)
		if err != nil {
			rt.Fatal(err)
		}
		var got []any
		if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != 2 {
			rt.Fatalf("%s over %s comes to %s: %v", text, variables, out, err)
		}
		message, ok := got[0].(map[string]any)
		_, isText := got[1].(string)
		if !ok || len(message) != 2 || message["role"] != "user" || !isText {
			rt.Fatalf("%s over %s comes to %s", text, variables, out)
		}
	})
}

// Any text with any values renders to a part of a JSON string.
func FuzzTemplate(f *testing.F) {
	for _, text := range []string{"{{a}}", "{{#a}}{{.}}{{/a}}{{^a}}{{/b}}", "{{=<% %>=}}<%a%>", "{{{a}}}{{&a}}", "{{>outer}}{{>>a}}", "{{#a}}{{#b}}{{/a}}", "\\{{a}}\"", "{{{{{{", "{{=", "{{! }}"} {
		f.Add(text, `{"a":["x",{"b":"\"\\"}]}`)
		f.Add(text, `{"a":"greeting"}`)
	}
	f.Fuzz(func(t *testing.T, text, variables string) {
		if !json.Valid([]byte(variables)) {
			return
		}
		_, _ = render(t, false, text, variables)
		_, _ = render(t, true, text, variables)
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if parsed, err := template.JSON(quoted); err == nil {
			v, err := template.ReadVariables([]byte(variables))
			if err != nil {
				return
			}
			r := &template.Renderer{Limit: 1 << 20}
			r.Reset(&v)
			if out, err := r.Append(nil, parsed); err == nil && !json.Valid(out) {
				t.Fatalf("%q over %s comes to %s", text, variables, out)
			}
		}
	})
}

// Parsing a text with many tags that are not closed takes linear time.
func TestUnclosedTagsTakeLinearTime(t *testing.T) {
	for _, tag := range []string{"{{", "{{{", "{{=", "{{ {{{a}} ", "{{#a}}"} {
		if _, err := template.Text(strings.Repeat(tag, 200_000)); err != nil && !strings.Contains(err.Error(), "at most") {
			t.Error(err)
		}
	}
}

// Whatever is looked at of the variables counts, also where nothing comes of it: with steps alone, a call could take
// minutes that cannot be given up.
func TestRenderingLooksAtNoMoreThanItsSteps(t *testing.T) {
	t.Parallel()
	spaces := strings.Repeat(" ", 1<<20)
	long := strings.Repeat("n", 1<<20)
	for name, c := range map[string]struct{ tag, variables string }{
		"values of which nothing is appended":   {"{{a}}", `{"a":[` + spaces + `]}`},
		"values in which there is nothing":      {"{{^a}}{{/a}}", `{"a":[` + spaces + `]}`},
		"numbers":                               {"{{#a}}{{/a}}", `{"a":0.` + strings.Repeat("0", 1<<20) + `}`},
		"names of partials":                     {"{{>>a}}", `{"a":"` + long + `"}`},
		"names of variables that are not there": {"{{a}}", `{"` + long + `":1}`},
		"names with escapes":                    {"{{a}}", `{"\u0061` + long + `":1}`},
	} {
		parsed, err := template.Text(strings.Repeat(c.tag, 500))
		if err != nil {
			t.Fatal(err)
		}
		v, err := template.ReadVariables([]byte(c.variables))
		if err != nil {
			t.Fatal(err)
		}
		r := &template.Renderer{Limit: 1 << 20, Partial: func(string) *template.Partial { return nil }}
		r.Reset(&v)
		if _, err := r.Append(nil, parsed); err == nil || !strings.Contains(err.Error(), "too many steps") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The names of a template with many tags are returned in linear time.
func TestUsesTakesLinearTime(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range template.MaxTags {
		fmt.Fprintf(&text, "{{v%d}}", i)
	}
	all := make([]*template.Template, 50)
	for i := range all {
		parsed, err := template.Text(strings.ReplaceAll(text.String(), "v", fmt.Sprint("v", i, "_")))
		if err != nil {
			t.Fatal(err)
		}
		all[i] = parsed
	}
	if n := len(template.UsesOf(append(all, all...)).Variables); n != len(all)*template.MaxTags {
		t.Errorf("%d names", n)
	}
}

func BenchmarkRender(b *testing.B) {
	text := strings.Repeat("You answer questions about orders, kindly and in short. ", 36)
	for i := range 10 {
		text = strings.Replace(text, "orders", "{{v"+string(rune('0'+i))+"}}", 1)
	}
	messages, err := json.Marshal([]map[string]string{{"role": "system", "content": text + "{{>greeting}}"}, {"role": "user", "content": "{{>greeting@2}} {{v0}}"}})
	if err != nil {
		b.Fatal(err)
	}
	parsed, err := template.JSON(messages)
	if err != nil {
		b.Fatal(err)
	}
	loaded := make(map[string]*template.Partial)
	for name, text := range partials {
		if loaded[name], err = template.ParsePartial(text); err != nil {
			b.Fatal(err)
		}
	}
	variables := []byte(`{"name":"Ann","v0":"a \"quoted\" value","v1":"b","v2":"c","v3":4,"v4":"d","v5":"e","v6":"f","v7":["g"],"v8":"h","v9":"i"}`)
	r := &template.Renderer{Limit: 1 << 20, Partial: func(name string) *template.Partial { return loaded[name] }}
	var v template.Variables
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		if err := v.Read(variables); err != nil {
			b.Fatal(err)
		}
		r.Reset(&v)
		if out, err = r.Append(out[:0], parsed); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(out)), "bytes")
}

// What is said of the size of a template is what it takes: caches count by it.
func TestSizeIsWhatATemplateTakes(t *testing.T) {
	for name, text := range map[string]string{"tags": strings.Repeat("{{a}}", 20_000), "text": strings.Repeat("text ", 20_000), "paths": strings.Repeat("{{a.b.c.d}}", 9_000)} {
		const n = 50
		all := make([]*template.Template, n)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		said := 0
		for i := range all {
			parsed, err := template.Text(text)
			if err != nil {
				t.Fatal(err)
			}
			all[i] = parsed
			said += parsed.Size()
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		took := int(after.HeapAlloc) - int(before.HeapAlloc)
		if took > said*5/4 || said > took*5/4 {
			t.Errorf("%s: %d bytes, and it takes %d", name, said/n, took/n)
		}
		runtime.KeepAlive(all)
	}
}
