package gemini

import (
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A token is one that was chosen, or an alternative.
type token struct {
	text        chat.Literal
	probability chat.Raw // its logarithm
}

// appendLogProbs reads and appends a logprobsResult in OpenAI's form, or nothing if it has no tokens.
func appendLogProbs(dst []byte, r *jsonscan.Reader) []byte {
	var chosen []token
	var top [][]token
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "chosenCandidates":
			chosen = readTokens(r)
		case "topCandidates":
			r.Array(func() {
				var tokens []token
				r.Object(func(key jsonscan.Key) {
					if key.Is("candidates") {
						tokens = readTokens(r)
					}
				})
				top = append(top, tokens)
			})
		}
	})
	if len(chosen) == 0 {
		return nil
	}
	b := jsonscan.Builder(dst)
	b.Open('{')
	b.Key("content").Open('[')
	for i := range chosen {
		b.Open('{')
		chosen[i].append(&b)
		b.Key("top_logprobs").Open('[')
		if i < len(top) {
			for k := range top[i] {
				b.Open('{')
				top[i][k].append(&b)
				b.Close('}')
			}
		}
		b.Close(']')
		b.Close('}')
	}
	b.Close(']')
	b.Key("refusal").Raw([]byte("null"))
	b.Close('}')
	return b
}

func readTokens(r *jsonscan.Reader) (tokens []token) {
	r.Array(func() {
		t := token{chat.Literal(`""`), chat.Raw("0")} // the API leaves out zero values
		r.Object(func(key jsonscan.Key) {
			switch string(key.Bytes()) {
			case "token":
				if s := r.String(); s != nil {
					t.text = s
				}
			case "logProbability":
				if r.Kind() == jsonscan.Number {
					t.probability = r.Raw()
				}
			}
		})
		tokens = append(tokens, t)
	})
	return tokens
}

func (t *token) append(b *jsonscan.Builder) {
	b.Key("token").Raw(t.text)
	b.Key("logprob").Raw(t.probability)
	b.Key("bytes").Open('[')
	for _, c := range []byte(t.text.Text()) {
		b.Int(int64(c))
	}
	b.Close(']')
}
