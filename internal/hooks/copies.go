package hooks

import (
	"strconv"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// withoutCopies removes from an answer what repeats texts of it that were replaced: probabilities
// of tokens, blocks of content and speech.
func withoutCopies(answer []byte) []byte {
	drop := func(list, members string, copies ...string) {
		gjson.GetBytes(answer, list).ForEach(func(i, v gjson.Result) bool {
			for _, name := range copies {
				if v.Get(members + name).Exists() {
					if out, err := sjson.DeleteBytes(answer, list+"."+strconv.FormatInt(i.Int(), 10)+"."+members+name); err == nil {
						answer = out
					}
				}
			}
			return true
		})
	}
	drop("choices", "", "logprobs")
	drop("choices", "message.", "content_blocks", "audio")
	for i := range gjson.GetBytes(answer, "output.#").Int() {
		drop("output."+strconv.FormatInt(i, 10)+".content", "", "logprobs")
	}
	return answer
}

// outputText is the member of a response that repeats the texts of its messages. OpenAI's clients
// make it themselves; some servers send it, and nothing keeps them from saying something else in it.
const outputText = "output_text"

// WithoutOutputText returns a response without the copy of its texts, which no hook judges. The body
// is valid JSON, and is returned as it is if it has none.
func WithoutOutputText(response []byte) []byte {
	has := false
	_ = jsonscan.Members(response, func(m jsonscan.Member) error {
		has = has || m.Key.Is(outputText)
		return nil
	})
	if !has {
		return response
	}
	return rebuilt(response, func(m jsonscan.Member) []byte {
		if m.Key.Is(outputText) {
			return nil
		}
		return response[m.Start:m.End]
	})
}

// WithoutResponseOutputText does the same with the response in an event of a stream.
func WithoutResponseOutputText(event []byte) []byte {
	has := false
	_ = jsonscan.Members(event, func(m jsonscan.Member) error {
		has = has || m.Key.Is("response") && len(WithoutOutputText(event[m.Start:m.End])) < m.End-m.Start
		return nil
	})
	if !has {
		return event
	}
	return rebuilt(event, func(m jsonscan.Member) []byte {
		if m.Key.Is("response") {
			return WithoutOutputText(event[m.Start:m.End])
		}
		return event[m.Start:m.End]
	})
}

// rebuilt returns an object with other values of its members, without those whose value is nil.
func rebuilt(object []byte, value func(jsonscan.Member) []byte) []byte {
	b := make(jsonscan.Builder, 0, len(object))
	b.Open('{')
	_ = jsonscan.Members(object, func(m jsonscan.Member) error { // it was read before
		if v := value(m); v != nil {
			b.Key(m.Key.String()).Raw(v)
		}
		return nil
	})
	b.Close('}')
	return b
}
