package bedrock

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/jsonscan"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
)

// An embedding is what a call of Embeddings asks for.
type embedding struct {
	texts      []chat.Literal
	tokens     bool // the input is of token numbers, which mean nothing to others
	dimensions chat.Raw
	base64     bool
	inputType  chat.Raw // Cohere's
	truncate   chat.Raw // Cohere's
	normalize  chat.Raw // Titan's
}

func embed(c *providers.Call) (*providers.Request, error) {
	var e embedding
	r := jsonscan.NewReader(c.Body)
	r.Object(func(key jsonscan.Key) { e.member(r, key) })
	if err := r.Err(); err != nil {
		return nil, &providers.Refusal{Code: "invalid_json", Message: "Invalid request body: " + err.Error()}
	}
	if e.tokens || len(e.texts) == 0 {
		return nil, &providers.Refusal{Param: "input", Code: "unsupported_parameter", Message: "Bedrock embeds text: 'input' must be a text or, for Cohere's models, texts"}
	}
	var body []byte
	switch {
	case strings.Contains(foundation(c), "amazon.titan-embed"):
		if len(e.texts) > 1 {
			return nil, &providers.Refusal{Param: "input", Code: "unsupported_parameter", Message: "Titan embeds one text a call: send 'input' as one text, and " +
				strconv.Itoa(len(e.texts)) + " texts as so many calls"}
		}
		body = e.titan(foundation(c))
	case strings.Contains(foundation(c), "cohere.embed"):
		body = e.cohere()
	default:
		return nil, &providers.Refusal{Param: "model", Code: "unsupported_model", Message: "Provider " + c.Provider.Name +
			" serves embeddings of amazon.titan-embed-… and cohere.embed-…"}
	}
	q, err := call(c, c.Model, "invoke", mediaJSON, body)
	if err != nil {
		return nil, err
	}
	model, encoded := c.Model, e.base64
	q.Answer = &providers.Answer{
		Whole: func(dst, body []byte, h http.Header) ([]byte, error) {
			return appendEmbeddings(dst, body, h, model, encoded)
		},
		Failure: readFailure,
	}
	return q, nil
}

func (e *embedding) member(r *jsonscan.Reader, key jsonscan.Key) {
	switch string(key.Bytes()) {
	case "input":
		if r.Kind() != jsonscan.Array {
			e.text(r)
			return
		}
		r.Array(func() { e.text(r) })
	case "dimensions":
		e.dimensions = r.Value()
	case "encoding_format":
		e.base64 = chat.Literal(r.String()).Is("base64")
	case "input_type":
		e.inputType = r.Value()
	case "truncate":
		e.truncate = r.Value()
	case "normalize":
		e.normalize = r.Value()
	}
}

func (e *embedding) text(r *jsonscan.Reader) {
	if s := r.String(); s != nil {
		e.texts = append(e.texts, s)
	} else {
		e.tokens = true
	}
}

func (e *embedding) titan(model string) []byte {
	var b jsonscan.Builder
	b.Open('{')
	b.Key("inputText").Raw(e.texts[0])
	switch {
	case strings.Contains(model, "titan-embed-image"):
		if e.dimensions != nil {
			b.Key("embeddingConfig").Open('{')
			b.Key("outputEmbeddingLength").Raw(e.dimensions)
			b.Close('}')
		}
	default:
		b.Member("dimensions", e.dimensions)
		b.Member("normalize", e.normalize)
	}
	b.Close('}')
	return b
}

func (e *embedding) cohere() []byte {
	var b jsonscan.Builder
	b.Open('{')
	chat.AppendTexts(b.Key("texts"), e.texts)
	if e.inputType != nil {
		b.Key("input_type").Raw(e.inputType)
	} else {
		b.Key("input_type").Text("search_document") // one is needed
	}
	b.Key("embedding_types").Raw([]byte(`["float"]`))
	b.Member("truncate", e.truncate)
	b.Member("output_dimension", e.dimensions)
	b.Close('}')
	return b
}

// appendEmbeddings writes OpenAI's list: of Titan's one embedding, or of those of Cohere's,
// by type or not.
func appendEmbeddings(dst, body []byte, h http.Header, model string, encoded bool) ([]byte, error) {
	r := jsonscan.NewReader(body)
	var vectors []chat.Raw
	var tokens int64
	list := func() { r.Array(func() { vectors = append(vectors, r.Raw()) }) }
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "embedding":
			if v := r.Value(); v != nil {
				vectors = append(vectors, v)
			}
		case "inputTextTokenCount":
			tokens = chat.Int(r.Value())
		case "embeddings":
			if r.Kind() == jsonscan.Array {
				list()
				return
			}
			r.Object(func(key jsonscan.Key) {
				if key.Is("float") {
					list()
				}
			})
		}
	})
	if err := r.Err(); err != nil {
		return dst, err
	}
	if n := chat.Int([]byte(h.Get("X-Amzn-Bedrock-Input-Token-Count"))); tokens == 0 {
		tokens = n
	}
	b := jsonscan.Builder(dst)
	b.Open('{')
	b.Key("object").Text("list")
	b.Key("data").Open('[')
	for i, v := range vectors {
		b.Open('{')
		b.Key("object").Text("embedding")
		b.Key("index").Int(int64(i))
		if encoded {
			bytes, err := floats(v)
			if err != nil {
				return dst, err
			}
			b.Key("embedding").Quoted(base64.StdEncoding.AppendEncode(nil, bytes))
		} else {
			b.Key("embedding").Raw(v)
		}
		b.Close('}')
	}
	b.Close(']')
	b.Key("model").Text(model)
	b.Key("usage").Open('{')
	b.Key("prompt_tokens").Int(tokens)
	b.Key("total_tokens").Int(tokens)
	b.Close('}')
	b.Close('}')
	return b, nil
}

// floats are the numbers of an array as OpenAI packs them: 32 bits each, the least
// significant byte first.
func floats(v chat.Raw) (packed []byte, err error) {
	r := jsonscan.NewReader(v)
	ok := r.Array(func() {
		f, wrong := strconv.ParseFloat(string(r.Raw()), 32)
		if wrong != nil && err == nil {
			err = wrong
		}
		packed = binary.LittleEndian.AppendUint32(packed, math.Float32bits(float32(f)))
	})
	if !ok && err == nil {
		err = errors.New("an embedding is not an array of numbers")
	}
	return packed, err
}
