// Package tokens counts the tokens of texts as OpenAI's models do. The ranks of their encodings are part
// of the program, and take up memory only once the first text is counted.
package tokens

import (
	"strings"
	"sync"

	"github.com/tiktoken-go/tokenizer/codec"
)

// An Encoding says which tokens a model makes of text.
type Encoding uint8

// The encodings of OpenAI's models. Of those of others, it is not known.
const (
	Unknown Encoding = iota
	O200k            // o200k_base
	Cl100k           // cl100k_base
)

// encodings are those of the models whose names begin like that, the first that fits.
var encodings = [...]struct {
	name string
	of   Encoding
}{
	{"gpt-4o", O200k},
	{"gpt-4.1", O200k},
	{"gpt-4.5", O200k},
	{"gpt-5", O200k},
	{"gpt-oss", O200k},
	{"chatgpt-4o", O200k},
	{"o1", O200k},
	{"o3", O200k},
	{"o4", O200k},
	{"gpt-4", Cl100k},
	{"gpt-3.5-turbo", Cl100k},
	{"gpt-35-turbo", Cl100k}, // on Azure
	{"davinci-002", Cl100k},
	{"babbage-002", Cl100k},
	{"text-embedding-3", Cl100k},
	{"text-embedding-ada-002", Cl100k},
}

// EncodingOf returns the encoding of a model, which may be one of a marketplace ("openai/gpt-4o") or a
// fine-tuned one ("ft:gpt-4o-mini:org::id").
func EncodingOf(model string) Encoding {
	model = strings.TrimPrefix(model[strings.LastIndexByte(model, '/')+1:], "ft:")
	for i := range encodings {
		if rest, ok := strings.CutPrefix(model, encodings[i].name); ok && (rest == "" || strings.IndexByte("-.:@", rest[0]) >= 0) {
			return encodings[i].of
		}
	}
	return Unknown
}

var (
	o200k  = sync.OnceValue(codec.NewO200kBase)
	cl100k = sync.OnceValue(codec.NewCl100kBase)
)

// Count returns how many tokens a text has; ok: they could be counted. Text that looks like a special token is
// text. A kilobyte takes less than a millisecond, but up to 14 of blanks and line ends by turns; the first text of an encoding takes up to 0.4 s more.
func Count(e Encoding, text string) (n int64, ok bool) {
	var c *codec.Codec
	switch e {
	case O200k:
		c = o200k()
	case Cl100k:
		c = cl100k()
	default:
		return 0, false
	}
	defer func() { // the text is anyone's, and a fault in counting it must not end the gateway
		if recover() != nil {
			n, ok = 0, false
		}
	}()
	count, err := c.Count(text)
	return int64(count), err == nil
}
