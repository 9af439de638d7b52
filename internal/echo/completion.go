package echo

import "github.com/tidwall/gjson"

// answerCompletion answers with the prompt. Without max_tokens it is complete, because
// OpenAI's default of 16 tokens would make a poor echo. Several prompts are answered
// with n choices each, in order; without a prompt, the text is empty.
func answerCompletion(body gjson.Result, at stamp) (answer, error) {
	g := generation{
		options: defaultOptions(),
		id:      "cmpl-echo-" + at.nonce,
		created: at.created,
		object:  "text_completion",
		chunk:   "text_completion",
		choice:  plainText{},
	}
	prompts := []string{""}
	err := eachMember(body, func(name string, v gjson.Result) (err error) {
		if name == "prompt" {
			prompts, err = textsOf(name, v)
			return err
		}
		return g.set(name, v)
	})
	if err != nil {
		return answer{}, err
	}
	texts := make([]counted, len(prompts))
	for i, prompt := range prompts {
		texts[i] = count(prompt)
		g.promptTokens += texts[i].tokens
	}
	if err := g.echo(texts...); err != nil {
		return answer{}, err
	}
	return g.answer(), nil
}

// plainText is a choice of a text completion.
type plainText struct{}

func (plainText) complete(b []byte, _ int, text string) []byte {
	return appendString(append(b, `"text":`...), text)
}

func (plainText) first(int) string { return "" }

func (p plainText) delta(b []byte, text string) []byte { return p.complete(b, 0, text) }

func (plainText) last() string { return `"text":""` }
