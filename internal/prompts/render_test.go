//go:build !race

// The race detector allocates, too.

package prompts_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/alloctest"
	"github.com/caddy-gw/gateway/internal/prompts"
)

// rendering renders a prompt of 2 KB with ten variables and two partials, as a call does.
func rendering(t testing.TB) func() {
	s, db := open(t)
	add(t, s, db, prompts.Prompt{Slug: "greeting", Partial: true}, prompts.Content{String: "Say hello to {{v0}}."}, prompts.Content{String: "Greet {{v1}}."})
	text := strings.Repeat("You answer questions about orders, kindly and in short. ", 36)
	variables := make(map[string]any)
	for i := range 10 {
		text = strings.Replace(text, "orders", fmt.Sprintf("{{v%d}}", i), 1)
		variables[fmt.Sprint("v", i)] = fmt.Sprintf("a \"value\" of %d", i)
	}
	messages, err := json.Marshal([]map[string]string{{"role": "system", "content": text + "{{>greeting}}"}, {"role": "user", "content": "{{>greeting@2}} {{v0}}"}})
	if err != nil {
		t.Fatal(err)
	}
	add(t, s, db, prompts.Prompt{Slug: "p"}, prompts.Content{String: string(messages), Parameters: []byte(`{"model":"m","temperature":0.5}`)})
	body, err := json.Marshal(map[string]any{"variables": variables, "max_tokens": 9})
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	ctx := t.Context()
	return func() {
		p, v, ok := s.Find("w", "p", false)
		if !ok {
			t.Fatal("there is no prompt")
		}
		c, err := s.Compiled(ctx, p, v)
		if err == nil {
			out, err = s.Render(ctx, out[:0], "w", c, body)
		}
		if err != nil || len(out) < 2000 {
			t.Fatalf("%s, %v", out, err)
		}
	}
}

// A call parses nothing of its prompt, and allocates next to nothing.
func TestRenderingAllocatesLittle(t *testing.T) {
	const most = 3
	alloctest.AtMost(t, most, 100, rendering(t))
}

func BenchmarkRenderOfACall(b *testing.B) {
	render := rendering(b)
	b.ReportAllocs()
	for b.Loop() {
		render()
	}
}
