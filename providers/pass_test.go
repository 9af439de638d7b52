package providers

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/providers/chat"
)

var renamed = map[string]chat.Literal{"f_g_0a1b2c3d": chat.Literal(`"f.g"`), "h_0a1b2c3d": chat.Literal(`"h\u00e9"`)}

// A name that was replaced is restored where it is a string of its own, and nowhere else.
func TestNamesOfToolsAreRestored(t *testing.T) {
	for body, want := range map[string]string{
		`{"name":"f_g_0a1b2c3d","x":"f_g_0a1b2c3d_"}`:             `{"name":"f.g","x":"f_g_0a1b2c3d_"}`,
		`["f_g_0a1b2c3d","h_0a1b2c3d"]`:                           `["f.g","h\u00e9"]`,
		`{"arguments":"{\"a\":\"f_g_0a1b2c3d\"}"}`:                `{"arguments":"{\"a\":\"f_g_0a1b2c3d\"}"}`,
		`{"content":"call \"f_g_0a1b2c3d"}`:                       `{"content":"call \"f_g_0a1b2c3d"}`,
		`{"content":"\\\"f_g_0a1b2c3d"}`:                          `{"content":"\\\"f_g_0a1b2c3d"}`,
		`{"content":"\\","name":"f_g_0a1b2c3d"}`:                  `{"content":"\\","name":"f.g"}`,
		`{"f_g_0a1b2c3":"","":"f_g_0a1b2c3d`:                      `{"f_g_0a1b2c3":"","":"f_g_0a1b2c3d`,
		"event: x\ndata: {\"name\":\"f_g_0a1b2c3d\"}\n\n: \"f_g_": "event: x\ndata: {\"name\":\"f.g\"}\n\n: \"f_g_",
	} {
		a := WithNames(nil, renamed)
		if got, err := a.Body(nil, []byte(body), nil); err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
		for size := 1; size <= len(body); size++ {
			stream := WithNames(nil, renamed).Stream
			var got []byte
			for rest := body; rest != ""; rest = rest[min(size, len(rest)):] {
				got, _ = stream.Translate(got, []byte(rest[:min(size, len(rest))]))
			}
			if got, err := stream.End(got); err != nil || string(got) != want {
				t.Errorf("in pieces of %d: got %s, %v, want %s", size, got, err, want)
			}
		}
	}
	if WithNames(nil, nil) != nil {
		t.Error("an answer without renamed tools is changed")
	}
}

// Whatever an answer is, the same is decoded from it, but for the names.
func TestRestoredAnswersAreTheSame(t *testing.T) {
	text := rapid.OneOf(rapid.SampledFrom([]string{"f_g_0a1b2c3d", "h_0a1b2c3d", `\`, `"`, `"f_g_0a1b2c3d"`, `\"f_g_0a1b2c3d`, "f_g_0a1b2c3d,", ""}), rapid.String())
	was := map[string]string{"f_g_0a1b2c3d": "f.g", "h_0a1b2c3d": "hé"}
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOf(text).Draw(t, "texts")
		body, err := json.Marshal(texts)
		if err != nil {
			t.Fatal(err)
		}
		out, err := WithNames(nil, renamed).Body([]byte("["), body, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		if err := json.Unmarshal(out[1:], &got); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		for i, want := range texts {
			if name, ok := was[want]; ok {
				want = name
			}
			if got[i] != want && json.Valid([]byte(want)) == json.Valid([]byte(got[i])) && strings.ToValidUTF8(want, "") == want {
				t.Fatalf("%q became %q", texts[i], got[i])
			}
		}
	})
}

// What an answer becomes first, such as a stream of Bedrock, is not lost.
func TestNamesAreRestoredInWhatAnAnswerBecomes(t *testing.T) {
	a := WithNames(&Answer{
		Body: func(dst, body []byte, _ http.Header) ([]byte, error) {
			return append(append(dst, `"f_g_`...), body...), nil
		},
		Stream: doubled{},
	}, renamed)
	if got, err := a.Body([]byte("x"), []byte(`0a1b2c3d"`), nil); err != nil || string(got) != `x"f.g"` {
		t.Errorf("got %s, %v", got, err)
	}
	got, err := a.Stream.Translate([]byte("x"), []byte(`"f_g_0a1b2c3d"`))
	if err != nil || string(got) != `x"f.g""f.g"` {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err = a.Stream.End(nil); string(got) != `"f.g"` || err != chat.ErrCut {
		t.Errorf("got %s, %v", got, err)
	}
}

type doubled struct{}

func (doubled) Translate(dst, src []byte) ([]byte, error) {
	return append(append(dst, src...), src...), nil
}

func (doubled) End(dst []byte) ([]byte, error) {
	return append(dst, `"f_g_0a1b2c3d"`...), chat.ErrCut
}
