// Package embedding represents calls for embeddings independently of any provider. It
// parses OpenAI's request and writes OpenAI's answer.
package embedding

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A Request is a request for embeddings.
type Request struct {
	Model      chat.Literal
	Input      []chat.Literal
	Dimensions chat.Raw
	Base64     bool // encoding_format: 32-bit little-endian floats in base64
	Extra      []chat.Member
}

// Parse parses the body of a request. Token lists as inputs are refused: they belong to the
// tokenizer of one model, so other providers cannot use them.
func Parse(body []byte) (*Request, error) {
	out := new(Request)
	r := jsonscan.Bounded(body)
	tokens := false
	r.Object(func(key jsonscan.Key) {
		switch name := key.String(); name {
		case "model":
			// copied, because the answer needs it when the body's memory may have been
			// reused
			out.Model = slices.Clone(r.String())
		case "input":
			out.Input, tokens = nil, false
			if r.Kind() == jsonscan.String {
				out.Input = []chat.Literal{r.String()}
				return
			}
			r.Array(func() {
				if r.Kind() != jsonscan.String {
					tokens = true
					return
				}
				out.Input = append(out.Input, r.String())
			})
		case "dimensions":
			out.Dimensions = r.Value()
		case "encoding_format":
			out.Base64 = chat.Literal(r.String()).Is("base64")
		default:
			if v := r.Value(); v != nil && r.Spend() {
				out.Extra = append(out.Extra, chat.Member{Name: name, Value: v})
			}
		}
	})
	if err := r.Err(); err != nil {
		return nil, chat.Refused(err)
	}
	if tokens || len(out.Input) == 0 {
		return nil, errTokens
	}
	return out, nil
}

var errTokens = &chat.Unsupported{Param: "input", Message: "Invalid value for 'input': the provider takes a text or a list of texts, not tokens"}

// Lookup returns the extra member with the given name, or nil.
func (r *Request) Lookup(name string) chat.Raw {
	for i := range r.Extra {
		if r.Extra[i].Name == name {
			return r.Extra[i].Value
		}
	}
	return nil
}

// Pass passes an answer in OpenAI's form on unchanged, after checking that it has
// embeddings.
func Pass(dst, body []byte, _ http.Header) ([]byte, error) {
	found, missing := false, false
	r := jsonscan.NewReader(body)
	r.Object(func(key jsonscan.Key) {
		if !key.Is("data") {
			return
		}
		r.Array(func() {
			var vector chat.Raw
			r.Object(func(key jsonscan.Key) {
				if key.Is("embedding") {
					vector = r.Value()
				}
			})
			found, missing = true, missing || len(vector) <= len("[]")
		})
	})
	switch err := r.Err(); {
	case err != nil:
		return dst, err
	case !found:
		return dst, errors.New("no embeddings: " + chat.NoAnswer(body, "it has no data").Text.Text())
	case missing:
		return dst, errNoNumbers
	}
	return append(dst, body...), nil
}

// Append appends OpenAI's answer. The vectors are JSON arrays of numbers, in the order of
// the inputs; tokens are those of the prompt. It returns an error if the number of vectors
// is not that of the inputs.
func (r *Request) Append(dst []byte, vectors []chat.Raw, tokens int64, provider string) ([]byte, error) {
	if len(vectors) != len(r.Input) {
		return dst, fmt.Errorf("%d embeddings of %d inputs", len(vectors), len(r.Input))
	}
	for _, v := range vectors {
		if len(v) <= len("[]") || v[0] != '[' {
			return dst, errNoNumbers
		}
	}
	b := jsonscan.Builder(dst)
	b.Open('{')
	b.Key("object").Text("list")
	b.Key("data").Open('[')
	for i, v := range vectors {
		b.Open('{')
		b.Key("object").Text("embedding")
		b.Key("index").Int(int64(i))
		b.Key("embedding")
		if r.Base64 {
			packed, err := pack(v)
			if err != nil {
				return dst, err
			}
			b.Text(packed)
		} else {
			b.Raw(v)
		}
		b.Close('}')
	}
	b.Close(']')
	if r.Model == nil {
		b.Key("model").Text("")
	} else {
		b.Key("model").Raw(r.Model)
	}
	b.Key("usage").Open('{')
	b.Key("prompt_tokens").Int(tokens)
	b.Key("total_tokens").Int(tokens)
	b.Close('}')
	b.Key("provider").Text(provider)
	b.Close('}')
	return b, nil
}

var errNoNumbers = errors.New("an embedding that is not a list of numbers")

// pack encodes a vector in base64 as OpenAI does.
func pack(vector chat.Raw) (string, error) {
	var packed []byte
	var wrong error
	r := jsonscan.NewReader(vector)
	r.Array(func() {
		f, err := strconv.ParseFloat(string(r.Raw()), 32)
		if err != nil {
			wrong = err
		}
		packed = binary.LittleEndian.AppendUint32(packed, math.Float32bits(float32(f)))
	})
	if err := r.Err(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(packed), wrong
}
