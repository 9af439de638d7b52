package exchange

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/prices"
)

func newSession() (*Session, *Attempt) {
	a := new(Attempt)
	return &Session{attempt: a, open: make(map[string]*openResponse)}, a
}

const (
	asks = `>{"type":"response.create"}`
	done = `{"type":"response.done","response":{"id":"r","status":"completed","usage":{"total_tokens":30,"input_tokens":20,"output_tokens":10,"input_token_details":{"audio_tokens":5},"output_token_details":{"audio_tokens":4}}}}`
)

// What a session used is what its events say, and of responses that are not done, what came of them and what they read.
func TestSessionsUseWhatCame(t *testing.T) {
	t.Parallel()
	reported := prices.Usage{Prompt: 20, AudioIn: 5, Completion: 10, AudioOut: 4}
	for name, c := range map[string]struct {
		messages            []string // those of the client after ">"
		reported, estimated prices.Usage
		known               bool
	}{
		"nothing": {},
		"only text of the client": {
			messages: []string{`>{"type":"conversation.item.create","item":{"content":[{"type":"input_text","text":"hello"}]}}`},
		},
		"a response": {
			messages: []string{asks, `{"type":"response.created","response":{"id":"r"}}`, `{"type":"response.output_text.delta","response_id":"r","delta":"hello"}`, done},
			reported: reported, known: true,
		},
		"a response of a provider without ids": {
			messages: []string{asks, `{"type":"response.created","response":{"id":"r"}}`, `{"type":"response.output_text.delta","delta":"hello"}`, `{"type":"response.done","response":{"usage":{"input_tokens":2,"output_tokens":1}}}`},
			reported: prices.Usage{Prompt: 2, Completion: 1}, known: true,
		},
		"a response of a provider that does not say that it begins": {
			messages: []string{asks, `{"type":"response.output_text.delta","delta":"hello"}`, done},
			reported: reported, known: true,
		},
		"a response that was cut": {
			messages:  []string{asks, `{"type":"response.created","response":{"id":"r"}}`, `{"type":"response.output_text.delta","response_id":"r","delta":"12345678901234567890"}`, `{"type":"response.function_call_arguments.delta","response_id":"r","delta":"1234567890"}`},
			estimated: prices.Usage{Prompt: 6, Completion: 9},
		},
		"a response that nobody asked for": {
			messages:  []string{`{"type":"response.output_text.delta","response_id":"r","delta":"123456"}`},
			estimated: prices.Usage{Completion: 2},
		},
		"audio that was cut": {
			messages:  []string{`{"type":"response.output_audio.delta","response_id":"r","delta":"` + fmt.Sprintf("%06398d", 0) + `"}`},
			estimated: prices.Usage{Completion: 2, AudioOut: 2},
		},
		"audio of a telephone": {
			messages:  []string{`>{"type":"session.update","session":{"output_audio_format":"g711_ulaw"}}`, `{"type":"response.audio.delta","response_id":"r","delta":"` + fmt.Sprintf("%01064d", 0) + `"}`},
			estimated: prices.Usage{Prompt: 17, Completion: 2, AudioOut: 2},
		},
		"what was heard": {
			messages:  []string{`>{"type":"input_audio_buffer.append","audio":"` + fmt.Sprintf("%06400d", 0) + `"}`, `{"type":"response.created","response":{"id":"r"}}`},
			estimated: prices.Usage{Prompt: 1, AudioIn: 1},
		},
		"what was heard, spelled differently": {
			messages:  []string{`>{"type":"input_audio_buffer.append", "aud\u0069o" :	"` + fmt.Sprintf("%06400d", 0) + `"}`, `{"type":"response.created","response":{"id":"r"}}`},
			estimated: prices.Usage{Prompt: 1, AudioIn: 1},
		},
		"audio of a telephone, as long as the provider does not say otherwise": {
			messages: []string{
				`>{"type":"session.update","session":{"output_audio_format":"g711_ulaw"}}`, `>{"type":"session.update","session":{}}`,
				`{"type":"response.audio.delta","response_id":"r","delta":"` + fmt.Sprintf("%01064d", 0) + `"}`,
			},
			estimated: prices.Usage{Prompt: 27, Completion: 2, AudioOut: 2},
		},
		"a response that was asked for": {
			messages:  []string{`>{"type":"conversation.item.create","item":{"text":"01234567890123456789"}}`, asks},
			estimated: prices.Usage{Prompt: 25},
		},
		"a response that was refused": {messages: []string{asks, `{"type":"error","error":{}}`}},
		"a response that failed":      {messages: []string{asks, `{"type":"response.created","response":{"id":"r"}}`, `{"type":"response.done","response":{"id":"r","status":"failed"}}`}},
		"a second response that was cut reads the first": {
			messages: []string{asks, done, asks, `{"type":"response.created","response":{"id":"s"}}`, `{"type":"response.text.delta","response_id":"s","delta":"12"}`},
			reported: reported, known: true, estimated: prices.Usage{Prompt: 36, AudioIn: 9, Completion: 1},
		},
		"a response that was cancelled, without a usage": {
			messages:  []string{`{"type":"response.text.delta","response_id":"r","delta":"12345678"}`, `{"type":"response.done","response":{"id":"r","status":"cancelled","usage":null}}`},
			estimated: prices.Usage{Completion: 3},
		},
		"a transcription": {
			messages: []string{`{"type":"conversation.item.input_audio_transcription.completed","usage":{"type":"tokens","total_tokens":26,"input_tokens":17,"input_token_details":{"audio_tokens":17},"output_tokens":9}}`},
			reported: prices.Usage{Prompt: 17, AudioIn: 17, Completion: 9}, known: true,
		},
		"a transcription by its duration": {
			messages: []string{`{"type":"conversation.item.input_audio_transcription.completed","usage":{"type":"duration","seconds":1.5}}`},
			reported: prices.Usage{Milliseconds: 1500},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, a := newSession()
			for _, m := range c.messages {
				if m[0] == '>' {
					s.ClientEvent([]byte(m[1:]))
				} else {
					s.ServerEvent([]byte(m))
				}
			}
			s.End()
			s.ServerEvent([]byte(done)) // too late
			s.End()
			if ended, err := s.Check(); !ended || err != nil {
				t.Errorf("a session that has ended is checked again: %v", err)
			}
			if a.Usage.Usage != c.reported || a.Usage.Known != c.known || a.estimated != c.estimated {
				t.Errorf("said %+v (%v), not said %+v; want %+v, %+v", a.Usage.Usage, a.Usage.Known, a.estimated, c.reported, c.estimated)
			}
		})
	}
}

// Whatever the order of events: what is reported is what the done responses say, each that is not done counts its text, and
// nothing counts twice.
func TestSessionsCountEachResponseOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, a := newSession()
		open := make(map[string]int64) // bytes of text
		var prompt, completion int64
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			id := fmt.Sprint("r", rapid.IntRange(0, 5).Draw(t, "response"))
			_, begun := open[id]
			switch rapid.IntRange(0, 2).Draw(t, "event") {
			case 0:
				if !begun {
					open[id] = 0
				}
				s.ServerEvent([]byte(`{"type":"response.created","response":{"id":"` + id + `"}}`))
			case 1:
				n := rapid.IntRange(0, 50).Draw(t, "text")
				open[id] += int64(n) + 2
				s.ServerEvent(fmt.Appendf(nil, `{"type":"response.output_text.delta","response_id":%q,"delta":"%s"}`, id, fmt.Sprintf("%050d", 0)[:n]))
			case 2:
				if !begun {
					continue
				}
				in, out := rapid.Int64Range(0, 1000).Draw(t, "in"), rapid.Int64Range(0, 1000).Draw(t, "out")
				prompt, completion = prompt+in, completion+out
				delete(open, id)
				s.ServerEvent(fmt.Appendf(nil, `{"type":"response.done","response":{"id":%q,"usage":{"input_tokens":%d,"output_tokens":%d,"total_tokens":%d}}}`, id, in, out, in+out))
			}
		}
		s.End()
		var text int64
		for _, n := range open {
			text += (n + 3) / 4
		}
		if a.Usage.Prompt != prompt || a.Usage.Completion != completion || a.estimated.Completion != text {
			t.Fatalf("said %+v, not said %+v; want %d and %d, and %d of text", a.Usage.Usage, a.estimated, prompt, completion, text)
		}
	})
}

// Whatever either side sends, what is counted is never negative, and parts are never more than the whole.
func FuzzSession(f *testing.F) {
	f.Add([]byte(asks[1:]), []byte(done))
	f.Add([]byte(`{"type":"input_audio_buffer.append","audio":"AAAA"}`), []byte(`{"type":"response.output_audio.delta","delta":"AAAA"}`))
	f.Fuzz(func(t *testing.T, sent, reported []byte) {
		s, a := newSession()
		for range 3 {
			s.ClientEvent(sent)
			s.ServerEvent(reported)
		}
		s.End()
		for _, u := range []prices.Usage{a.Usage.Usage, a.estimated} {
			bounded := u
			if bounded.Bound(); u.Prompt < 0 || u.Completion < 0 || u.AudioIn < 0 || u.AudioOut < 0 || bounded != u {
				t.Fatalf("%+v", u)
			}
		}
	})
}
