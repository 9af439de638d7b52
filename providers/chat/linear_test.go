package chat

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// What a body repeats is not read again for each time: with n of it, these take minutes if they take n² steps.
func TestBodiesTakeLinearTime(t *testing.T) {
	t.Parallel()
	const n = 200_000
	each := func(format string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = strings.ReplaceAll(format, "#", fmt.Sprint(i))
		}
		return strings.Join(all, ",")
	}
	const tools = `,"tools":[{"type":"function","function":{"name":"f"}}]}`
	for name, body := range map[string]string{
		"names before the role": `{"messages":[{` + each(`"name":" "`) + `,"role":"user"}]` + tools,
		"calls without results": `{"messages":[` + each(`{"role":"assistant","tool_calls":[{"id":"c#"}]},{"role":"tool","tool_call_id":"z"}`) + `]` + tools,
		"a turn of many calls":  `{"messages":[{"role":"assistant","tool_calls":[` + each(`{"id":"c#"}`) + `]},` + each(`{"role":"tool","tool_call_id":"c#"}`) + `]` + tools,
		"allowed tools": `{"tools":[` + each(`{"type":"function","function":{"name":"f#"}}`) + `],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[` +
			each(`{"type":"function","function":{"name":"g#"}}`) + `]}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Pass([]byte(body), Foreign{}, Limits{ToolName: 64, NoAllowedTools: true})
		})
	}
	t.Run("interruptions", func(t *testing.T) {
		t.Parallel()
		r := &Request{Messages: slices.Repeat([]Message{{Role: ToolResult}, {Role: User}}, n)}
		if r.separateResults(); len(r.Messages) != 3*n {
			t.Errorf("%d messages, want %d", len(r.Messages), 3*n)
		}
	})
}

// The type of an object is that of a whole reading, in whatever order and however often it is asked for.
func TestTypesOfNestedObjects(t *testing.T) {
	t.Parallel()
	var p Patch
	p.Start([]byte(`{"type":"a","x":{"y":{"type":"c"},"type":"b"},"z":[{"type":"d"},{"type":"e"}]}`))
	var got []string
	var visit func() bool
	visit = func() bool {
		if p.Kind() == jsonscan.Array {
			p.Elements(visit)
			return true
		}
		start := p.Peek()
		p.Members(func(key jsonscan.Key) bool {
			got = append(got, p.Type(start).Text()+"."+string(key.Bytes()))
			visit()
			got = append(got, p.Type(start).Text())
			return true
		})
		return true
	}
	visit()
	if want := "a.type a a.x b.y c.type c b b.type b a a.z d.type d e.type e a"; strings.Join(got, " ") != want {
		t.Errorf("types are %q, want %q", got, want)
	}
}

// Each call has the first result behind it that no earlier call has, and nothing is lost.
func TestResultsStandBehindTheirCalls(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.SampledFrom([]Literal{nil, Literal(`"a"`), Literal(`"b"`), Literal(`"\u0061"`), Literal(`"c"`)})
		all := make([]Message, rapid.IntRange(0, 12).Draw(t, "messages"))
		for i := range all {
			all[i] = Message{Role: rapid.SampledFrom([]Role{User, Assistant, ToolResult}).Draw(t, "role"), Parts: []Part{{Text: Literal(fmt.Sprint(i))}}}
			switch all[i].Role {
			case ToolResult:
				all[i].CallID = id.Draw(t, "of")
			case Assistant:
				for range rapid.IntRange(0, 3).Draw(t, "calls") {
					all[i].Calls = append(all[i].Calls, Call{ID: id.Draw(t, "call")})
				}
			}
		}
		got := ResultsFirst(all)
		var order []string
		at := make(map[string]int)
		for i, m := range got {
			order = append(order, string(m.Parts[0].Text))
			at[order[i]] = i
		}
		if len(at) != len(all) {
			t.Fatalf("%v of %d messages", order, len(all))
		}
		if inPlace(all) {
			if len(all) > 0 && &got[0] != &all[0] {
				t.Fatalf("moved, though all are in place: %v", order)
			}
			return
		}
		taken := make(map[int]bool)
		for i, m := range all {
			var own []int
			for _, c := range m.Calls {
				k := slices.IndexFunc(all, func(m Message) bool { return m.Role == ToolResult && m.CallID.Text() == c.ID.Text() && !c.ID.Empty() })
				for ; k >= 0 && k < len(all); k++ {
					if r := all[k]; k > i && !taken[k] && r.Role == ToolResult && r.CallID.Text() == c.ID.Text() {
						own, taken[k] = append(own, k), true
						break
					}
				}
			}
			for _, k := range own {
				turn, result := at[fmt.Sprint(i)], at[fmt.Sprint(k)]
				between := slices.ContainsFunc(got[min(turn+1, result):result], func(m Message) bool { return m.Role != ToolResult })
				if result < turn || between {
					t.Fatalf("result %d does not stand behind message %d in %v", k, i, order)
				}
			}
		}
	})
}
