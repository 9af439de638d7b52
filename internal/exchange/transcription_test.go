package exchange

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/prices"
)

// What is transcribed belongs to the model that the provider transcribed it by, whatever the client names afterwards, and what was said of which nothing
// is reported counts by its duration.
func TestTranscriptionsBelongToTheModelThatMadeThem(t *testing.T) {
	t.Parallel()
	const (
		second = 64_000 // bytes of base64
		a, b   = "gpt-4o-transcribe", "gpt-4o-mini-transcribe"
	)
	say := `>{"type":"input_audio_buffer.append","audio":"` + strings.Repeat("A", second) + `"}`
	names := func(model string) string {
		return `>{"type":"session.update","session":{"audio":{"input":{"transcription":{"model":"` + model + `"}}}}}`
	}
	is := func(model string) string {
		return `{"type":"session.updated","session":{"audio":{"input":{"transcription":{"model":"` + model + `"}}}}}`
	}
	commit := func(id string) string { return `{"type":"input_audio_buffer.committed","item_id":"` + id + `"}` }
	completed := func(id string) string {
		return `{"type":"conversation.item.input_audio_transcription.completed","item_id":"` + id + `","usage":{"type":"tokens","input_tokens":10,"output_tokens":4,"total_tokens":14}}`
	}
	failed := func(id string) string {
		return `{"type":"conversation.item.input_audio_transcription.failed","item_id":"` + id + `"}`
	}
	unheard := func(seconds int64) prices.Usage {
		return prices.Usage{Prompt: 10 * seconds, AudioIn: 10 * seconds, Completion: (10*seconds + 2) / 3, Milliseconds: 1000 * seconds}
	}
	told := prices.Usage{Prompt: 10, Completion: 4}
	for name, c := range map[string]struct {
		messages                       []string // those of the client after ">"
		ofA, ofB, own                  prices.Usage
		unheardA, unheardB, unheardOwn prices.Usage
	}{
		"one":                                   {messages: []string{names(a), is(a), say, commit("1"), completed("1")}, ofA: told},
		"another is named before it is done":    {messages: []string{names(a), is(a), say, commit("1"), names(b), is(b), completed("1")}, ofA: told},
		"another is named that is refused":      {messages: []string{names(a), is(a), names(b), `{"type":"error","error":{}}`, say, commit("1"), completed("1")}, ofA: told},
		"the client goes back":                  {messages: []string{names(a), is(a), names(b), is(b), names(a), is(a), say, commit("1"), completed("1")}, ofA: told},
		"the provider never says":               {messages: []string{names(a), say, completed("1")}, ofA: told},
		"a dated version":                       {messages: []string{names(a), is(a + "-2025-03-20"), say, commit("1"), completed("1")}, ofA: told},
		"cut before it is done":                 {messages: []string{names(a), is(a), say, say, commit("1")}, unheardA: unheard(2)},
		"cut before it is an item":              {messages: []string{names(a), is(a), say}, unheardA: unheard(1)},
		"cut before the provider says anything": {messages: []string{names(a), say}, unheardA: unheard(1)},
		"one is done, one is cut":               {messages: []string{names(a), is(a), say, commit("1"), names(b), is(b), say, commit("2"), completed("1")}, ofA: told, unheardB: unheard(1)},
		"cut by its own model":                  {messages: []string{names("own"), is("own"), say, commit("1")}, unheardOwn: unheard(1)},
		"done by its own model":                 {messages: []string{names("own"), is("own"), say, commit("1"), completed("1")}, own: told},
		"failed":                                {messages: []string{names(a), is(a), say, commit("1"), failed("1")}},
		"cleared":                               {messages: []string{names(a), is(a), say, `{"type":"input_audio_buffer.cleared"}`}},
		"not transcribed":                       {messages: []string{say, commit("1")}},
		"switched off":                          {messages: []string{names(a), `{"type":"session.updated","session":{"audio":{"input":{"transcription":null}}}}`, say, commit("1")}},
	} {
		s, own := newSession()
		own.Model = "own"
		made := make(map[string]*transcriber)
		for _, m := range c.messages {
			if m[0] != '>' {
				s.ServerEvent([]byte(m))
				continue
			}
			for _, model := range []string{a, b} { // as Messages does
				switch named := strings.Contains(m, `"`+model+`"`); {
				case named && made[model] == nil:
					made[model] = &transcriber{Attempt: &Attempt{Model: model, booked: new(booked)}}
					s.startTranscriber(made[model])
				case named:
					s.resumeTranscriber(model)
				}
			}
			s.ClientEvent([]byte(m[1:]))
		}
		s.End()
		of := func(model string) (said, unsaid prices.Usage) {
			if made[model] == nil {
				return said, unsaid
			}
			return made[model].Usage.Usage, made[model].estimated
		}
		saidA, unsaidA := of(a)
		saidB, unsaidB := of(b)
		got := fmt.Sprintf("%+v", []prices.Usage{saidA, saidB, own.Usage.Usage, unsaidA, unsaidB, own.estimated})
		if want := fmt.Sprintf("%+v", []prices.Usage{c.ofA, c.ofB, c.own, c.unheardA, c.unheardB, c.unheardOwn}); got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
}

// What is kept of items is bounded, and nothing of them is lost.
func TestManyItemsThatAreNotTranscribedCount(t *testing.T) {
	t.Parallel()
	s, own := newSession()
	own.Model = "own"
	s.ServerEvent([]byte(`{"type":"session.updated","session":{"input_audio_transcription":{"model":"own"}}}`))
	for i := range 10 * maxItems {
		s.ClientEvent([]byte(`{"type":"input_audio_buffer.append","audio":"` + strings.Repeat("A", 6400) + `"}`))
		s.ServerEvent(fmt.Appendf(nil, `{"type":"input_audio_buffer.committed","item_id":"i%d"}`, i))
	}
	if n := len(s.items); n > maxItems+1 {
		t.Errorf("%d items are kept", n)
	}
	s.End()
	if own.estimated.Prompt != 10*maxItems {
		t.Errorf("%d tokens, want %d", own.estimated.Prompt, 10*maxItems)
	}
}
