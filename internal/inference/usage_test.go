package inference

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/providers/chat"
)

func TestEachCountOfATranslatedAnswerIsPriced(t *testing.T) {
	t.Parallel()
	var of chat.Usage
	from := reflect.ValueOf(&of).Elem()
	for i := range from.NumField() {
		from.Field(i).SetInt(int64(i + 1))
	}
	to := reflect.ValueOf(tokensOf(&of))
	for i := range from.NumField() {
		name := from.Type().Field(i).Name
		if name == "Total" { // the sum of the others
			continue
		}
		if got := to.FieldByName(name); !got.IsValid() || got.Int() != int64(i+1) {
			t.Errorf("%s is not what is priced", name)
		}
	}
}

// An answer whose usage is missing, cannot be read or is nothing at all counts as what came of it, in one piece
// and as a stream.
func TestWhatCameCountsWhereNoUsageIsSaid(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("word", 1000)
	picture := `"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("A", 1<<16) + `"}}]`
	const reserved = 4096 // for an answer without a maximum
	for name, c := range map[string]struct {
		message, usage string
		completion     int64
		estimated      bool
	}{
		"told":              {`"content":"` + text + `"`, `{"prompt_tokens":5,"completion_tokens":6}`, 6, false},
		"without":           {`"content":"` + text + `"`, `null`, 1000, true},
		"zeros":             {`"content":"` + text + `"`, `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`, 1000, true},
		"half unreadable":   {`"content":"` + text + `"`, `{"prompt_tokens":5.5,"completion_tokens":1e30}`, 1000, true},
		"negative":          {`"content":"` + text + `"`, `{"prompt_tokens":5,"completion_tokens":-7,"total_tokens":-2}`, 1000, true},
		"in words":          {`"content":"` + text + `"`, `{"prompt_tokens":5,"completion_tokens":"7"}`, 1000, true},
		"a picture":         {picture, `null`, reserved, true},
		"zeros and no text": {`"content":null`, `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`, 0, false},
	} {
		for _, stream := range []bool{false, true} {
			b := newBench(t)
			body, media, call := `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{`+c.message+`},"finish_reason":"stop"}],"usage":`+c.usage+`}`, "application/json", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
			if stream {
				body = `data: {"id":"c","choices":[{"index":0,"delta":{` + c.message + `},"finish_reason":"stop"}]}` + "\n\n" + `data: {"id":"c","choices":[],"usage":` + c.usage + "}\n\ndata: [DONE]\n\n"
				media, call = "text/event-stream", strings.Replace(call, "{", `{"stream":true,`, 1)
			}
			b.answers["one"] = func() *http.Response { return answering(200, media, body) }
			_, x := b.call(t, call, nil, "X-Gw-Provider", "@one")
			x.Book()
			u, known, estimated := x.Latest().Used()
			if u.Completion != c.completion || estimated != c.estimated || known == estimated {
				t.Errorf("%s, stream %v: %+v, known %v, estimated %v", name, stream, u, known, estimated)
			}
		}
	}
}
