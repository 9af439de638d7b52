package inference

import (
	"bytes"
	"cmp"
	"strconv"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// lastOf is the last piece of a text among those of an event, or -1.
func lastOf(pieces []hooks.Piece, t hooks.Track) int {
	for i := len(pieces) - 1; i >= 0; i-- {
		if pieces[i].Track == t && !pieces[i].Alone {
			return i
		}
	}
	return -1
}

// note keeps the latest event, whose other members an inserted one has.
func (w *windowed) note(data []byte) {
	if w.endpoint == "chatComplete" || w.endpoint == "complete" {
		w.latest = append(w.latest[:0], data...)
	}
}

// like keeps of the latest event of a text of a response what an inserted one has, too: which text
// it is, and nothing that its provider said in it.
func (w *windowed) like(old, data []byte) []byte {
	if w.endpoint != exchange.CreateResponse {
		return []byte{}
	}
	b := jsonscan.Builder(old[:0])
	b.Open('{')
	_ = jsonscan.Members(data, func(m jsonscan.Member) error { // it was read before
		switch name := m.Key.String(); name {
		case "type", "sequence_number", "item_id", "output_index", "content_index", "summary_index":
			b.Key(name).Raw(data[m.Start:m.End])
		}
		return nil
	})
	b.Close('}')
	return b
}

// keep keeps what was let go of a text of a response, which later events repeat.
func (w *windowed) keep(t hooks.Track, text string) {
	if w.endpoint == exchange.CreateResponse {
		w.texts[t] += text
	}
}

// store stores a response that is complete, if the gateway itself stores it.
func (w *windowed) store(data []byte) error {
	if !w.res.Stores() || w.endpoint != exchange.CreateResponse {
		return nil
	}
	response := gjson.GetBytes(data, "response")
	if kind := gjson.GetBytes(data, "type").Str; kind != "response.completed" && kind != "response.incomplete" || !response.IsObject() {
		return nil
	}
	w.res.Replace([]byte(response.Raw))
	if err := w.res.Store(); err != nil {
		return &cut{kind: "response_not_stored", why: "could not be stored: " + err.Error()}
	}
	return nil
}

// bare removes from an event what repeats its texts.
func (w *windowed) bare(data []byte) []byte {
	drop := func(path string) {
		if gjson.GetBytes(data, path).Exists() {
			if out, err := sjson.DeleteBytes(data, path); err == nil {
				data = out
			}
		}
	}
	switch w.endpoint {
	case "chatComplete", "complete":
		if !jsonscan.Mentions(data, `logprobs"`, `content_blocks"`, `audio"`) {
			return data
		}
		for i := range gjson.GetBytes(data, "choices.#").Int() {
			choice := "choices." + strconv.FormatInt(i, 10)
			drop(choice + ".logprobs")
			for _, message := range [...]string{".delta", ".message"} {
				drop(choice + message + ".content_blocks")
				drop(choice + message + ".audio.data")
			}
		}
	case exchange.CreateResponse:
		data = hooks.WithoutResponseOutputText(data)
		if jsonscan.Mentions(data, `logprobs"`) {
			drop("logprobs")
			drop("part.logprobs")
			data = withoutLogprobs(data, "item.content")
			for i := range gjson.GetBytes(data, "response.output.#").Int() {
				data = withoutLogprobs(data, "response.output."+strconv.FormatInt(i, 10)+".content")
			}
		}
	}
	return data
}

func withoutLogprobs(data []byte, list string) []byte {
	for i := range gjson.GetBytes(data, list+".#").Int() {
		if path := list + "." + strconv.FormatInt(i, 10) + ".logprobs"; gjson.GetBytes(data, path).Exists() {
			if out, err := sjson.DeleteBytes(data, path); err == nil {
				data = out
			}
		}
	}
	return data
}

// insert writes an event with a piece of text that the provider's events do not have, unless it is
// empty.
func (w *windowed) insert(t hooks.Track, text string) {
	if text == "" {
		return
	}
	w.gave = true
	var b jsonscan.Builder
	switch w.endpoint {
	case "chatComplete", "complete":
		b.Open('[')
		b.Open('{')
		b.Key("index").Int(int64(t.Index))
		if w.endpoint == "complete" {
			b.Key("text").Text(text)
		} else {
			b.Key("delta").Open('{')
			appendDelta(&b, t, text)
			b.Close('}')
		}
		b.Key("finish_reason").Raw([]byte("null"))
		b.Close('}')
		b.Close(']')
		if event, err := sjson.SetRawBytes(bytes.Clone(w.latest), "choices", b); err == nil {
			if gjson.GetBytes(event, "usage").Exists() {
				event, _ = sjson.DeleteBytes(event, "usage")
			}
			w.write("", event)
		}
	case providers.Messages:
		kind := map[string]string{"partial_json": "input_json_delta", "content": "compaction_delta"}[t.Kind]
		b.Open('{')
		b.Key("type").Text("content_block_delta")
		b.Key("index").Int(int64(t.Index))
		b.Key("delta").Open('{')
		b.Key("type").Text(cmp.Or(kind, t.Kind+"_delta"))
		b.Key(t.Kind).Text(text)
		b.Close('}')
		b.Close('}')
		w.write("content_block_delta", b)
	case exchange.CreateResponse:
		like := w.deltas[t]
		if len(like) == 0 {
			return // the event that has all of the text follows
		}
		if event, err := sjson.SetBytes(bytes.Clone(like), "delta", text); err == nil {
			w.write(gjson.GetBytes(event, "type").Str, event)
			w.inserted++
		}
	}
}

// appendDelta appends the member of a chat's delta that has a piece of a text.
func appendDelta(b *jsonscan.Builder, t hooks.Track, text string) {
	switch t.Kind {
	case "arguments":
		b.Key("tool_calls").Open('[')
		b.Open('{')
		b.Key("index").Int(int64(t.Part))
		b.Key("function").Open('{')
		b.Key("arguments").Text(text)
		b.Close('}')
		b.Close('}')
		b.Close(']')
	case "function_call":
		b.Key(t.Kind).Open('{')
		b.Key("arguments").Text(text)
		b.Close('}')
	case "transcript":
		b.Key("audio").Open('{')
		b.Key("transcript").Text(text)
		b.Close('}')
	case "reasoning_details":
		b.Key(t.Kind).Open('[')
		b.Open('{')
		b.Key("index").Int(int64(t.Part))
		b.Key("type").Text("reasoning.text")
		b.Key("text").Text(text)
		b.Close('}')
		b.Close(']')
	default:
		b.Key(t.Kind).Text(text)
	}
}

// write writes an event. Those of a response are numbered.
func (w *windowed) write(name string, data []byte) {
	w.let += textIn(data, nil)
	if w.inserted > 0 && w.endpoint == exchange.CreateResponse {
		if n := gjson.GetBytes(data, "sequence_number"); n.Exists() {
			if out, err := sjson.SetBytes(data, "sequence_number", n.Int()+w.inserted); err == nil {
				data = out
			}
		}
	}
	if name != "" {
		w.out = append(append(append(w.out, "event: "...), name...), '\n')
	}
	w.out = append(w.out, "data: "...)
	w.out = append(w.out, bytes.ReplaceAll(data, []byte{'\n'}, []byte{' '})...)
	w.out = append(w.out, "\n\n"...)
}
