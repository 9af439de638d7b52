package responses

import (
	"slices"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Append appends the response, whose answer has ended.
func (w *Response) Append(dst []byte) []byte {
	w.closeAll(nil)
	b := jsonscan.Builder(dst)
	w.object(&b, w.status())
	return b
}

// status returns the status of an answer that has ended.
func (w *Response) status() string {
	switch {
	case w.failed != nil:
		return "failed"
	case w.finish == chat.Length, w.finish == chat.ContentFilter:
		return "incomplete"
	}
	return "completed"
}

var null = []byte("null")

// object writes the response.
func (w *Response) object(b *jsonscan.Builder, status string) {
	b.Open('{')
	b.Key("id").Text(w.ID)
	b.Key("object").Text("response")
	b.Key("created_at").Int(w.Created)
	b.Key("status").Text(status)
	b.Key("error")
	if w.failed != nil {
		b.Open('{')
		b.Key("code").Raw(orElse(w.failed.Name, `"server_error"`))
		b.Key("message").Raw(orElse(w.failed.Text, `"The provider ended its answer with an error"`))
		b.Close('}')
	} else {
		b.Raw(null)
	}
	b.Key("incomplete_details")
	if status == "incomplete" {
		b.Open('{')
		b.Key("reason").Text(map[chat.FinishReason]string{chat.Length: "max_output_tokens", chat.ContentFilter: "content_filter"}[w.finish])
		b.Close('}')
	} else {
		b.Raw(null)
	}
	if w.model == nil {
		w.model = chat.Quote(w.Model)
	}
	b.Key("model").Raw(w.model)
	b.Key("output").Open('[')
	for i := range w.items {
		w.item(b, &w.items[i])
	}
	b.Close(']')
	if len(w.Echo) > 0 {
		b.Raw(w.Echo)
	}
	b.Key("usage")
	if w.used {
		usage(b, &w.usage)
	} else {
		b.Raw(null)
	}
	b.Close('}')
}

func orElse(l chat.Literal, other string) []byte {
	if l.Empty() {
		return []byte(other)
	}
	return l
}

// item writes an item as it is so far.
func (w *Response) item(b *jsonscan.Builder, it *item) {
	status := it.status
	if !it.done {
		status = "in_progress"
	}
	b.Open('{')
	b.Key("id").Text(it.id)
	b.Key("type").Text(kindNames[it.kind])
	switch it.kind {
	case messageItem:
		b.Key("status").Text(status)
		b.Key("role").Text("assistant")
		b.Key("content").Open('[')
		for i := range it.part {
			it.part[i].append(b)
		}
		b.Close(']')
	case callItem, customItem:
		b.Key("status").Text(status)
		b.Key("call_id").Raw(it.callID)
		b.Key("name").Raw(orElse(it.name, `""`))
		if it.namespace != nil {
			b.Key("namespace").Raw(it.namespace)
		}
		switch {
		case it.kind == callItem:
			b.Key("arguments").Quoted(it.arguments)
		case it.done:
			b.Key("input").Quoted(it.arguments)
		default:
			b.Key("input").Text("")
		}
		it.sign(b)
	case searchItem:
		b.Key("status").Text(status)
		b.Key("call_id").Raw(it.callID)
		b.Key("execution").Text("client")
		b.Key("arguments").Raw((&chat.Call{Arguments: slices.Concat([]byte{'"'}, it.arguments, []byte{'"'})}).Input())
		it.sign(b)
	case webItem:
		b.Key("status").Text(status)
		b.Key("action").Open('{')
		b.Key("type").Text("search")
		b.Key("query").Quoted(it.arguments)
		b.Close('}')
	case reasoningItem:
		b.Key("summary").Open('[')
		if it.summary != nil {
			summaryPart(b, it.summary)
		}
		b.Close(']')
		if it.seal != nil {
			kind := chat.Thinking
			if it.redacted {
				kind = chat.Redacted
			}
			b.Key("encrypted_content").Quoted(chat.AppendSeal(nil, sealKinds[kind], w.Dialect, it.seal))
		}
	}
	b.Close('}')
}

// sign writes the signature of a call, which Google's models expect back.
func (it *item) sign(b *jsonscan.Builder) {
	if it.signature == nil {
		return
	}
	b.Key("extra_content").Open('{')
	b.Key("google").Open('{')
	b.Key("thought_signature").Raw(it.signature)
	b.Close('}')
	b.Close('}')
}

func summaryPart(b *jsonscan.Builder, text []byte) {
	b.Open('{')
	b.Key("type").Text("summary_text")
	b.Key("text").Quoted(text)
	b.Close('}')
}

func (p *part) append(b *jsonscan.Builder) {
	b.Open('{')
	b.Key("type").Text(p.kind())
	if p.refusal {
		b.Key("refusal").Quoted(p.text)
	} else {
		b.Key("text").Quoted(p.text)
		array(b.Key("annotations"), p.annotations)
		array(b.Key("logprobs"), p.logProbs)
	}
	b.Close('}')
}

// array writes an array of encoded elements.
func array(b *jsonscan.Builder, elements []byte) {
	b.Open('[')
	*b = append(*b, elements...)
	b.Close(']')
}

func usage(b *jsonscan.Builder, u *chat.Usage) {
	total := u.Total
	if total == 0 {
		total = u.Prompt + u.Completion
	}
	b.Open('{')
	b.Key("input_tokens").Int(u.Prompt)
	b.Key("input_tokens_details").Open('{')
	b.Key("cached_tokens").Int(u.CacheRead)
	u.AppendPromptDetails(b)
	b.Close('}')
	b.Key("output_tokens").Int(u.Completion)
	b.Key("output_tokens_details").Open('{')
	b.Key("reasoning_tokens").Int(u.Reasoning)
	u.AppendCompletionDetails(b)
	b.Close('}')
	b.Key("total_tokens").Int(total)
	b.Close('}')
}
