package echo

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/tidwall/gjson"
)

const (
	defaultDimensions = 8
	maxDimensions     = 3072
)

// answerEmbedding answers each text with a unit vector that depends only on the text
// and the number of dimensions.
func answerEmbedding(body gjson.Result, _ stamp) (answer, error) {
	model, format, dimensions := "echo", "float", defaultDimensions
	var input gjson.Result
	err := eachMember(body, func(name string, v gjson.Result) error {
		switch name {
		case "model":
			return setString(&model, name, v)
		case "encoding_format":
			return setString(&format, name, v)
		case "dimensions":
			return setInt(&dimensions, name, v, 1, maxDimensions)
		case "input":
			input = v
		}
		return nil
	})
	if err != nil {
		return answer{}, err
	}
	appendVector, ok := vectorFormats[format]
	if !ok {
		return answer{}, badRequest("encoding_format must be float or base64")
	}
	texts, err := textsOf("input", input)
	if err != nil {
		return answer{}, err
	}

	tokens := 0
	vector := make([]float32, dimensions)
	b := append([]byte(nil), `{"object":"list","data":[`...)
	for i, text := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"object":"embedding","index":`...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, `,"embedding":`...)
		fillVector(vector, text)
		b = append(appendVector(b, vector), '}')
		tokens += count(text).tokens
	}
	b = append(b, `],"model":`...)
	b = appendString(b, model)
	b = append(b, `,"usage":{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(tokens), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(tokens), 10)
	return answer{body: append(b, "}}"...)}, nil
}

// fillVector fills a unit vector from a hash of text.
func fillVector(vector []float32, text string) {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(text)) // never fails
	source := rand.NewPCG(hash.Sum64(), 0)
	squares := 0.0
	for i := range vector {
		// An odd number, and so never 0: the vector must have a length.
		x := float64(int64(source.Uint64()|1)) / (1 << 63)
		vector[i] = float32(x)
		squares += float64(x * x) // not fused, so that it is the same on every machine
	}
	length := float32(math.Sqrt(squares))
	for i := range vector {
		vector[i] /= length
	}
}

// vectorFormats are the values of encoding_format.
var vectorFormats = map[string]func(b []byte, vector []float32) []byte{
	"float":  appendFloats,
	"base64": appendBase64,
}

func appendFloats(b []byte, vector []float32) []byte {
	b = append(b, '[')
	for i, x := range vector {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendFloat(b, float64(x), 'g', -1, 32)
	}
	return append(b, ']')
}

// appendBase64 appends the vector as little-endian float32 in base64, which OpenAI's
// clients ask for by default.
func appendBase64(b []byte, vector []float32) []byte {
	raw := make([]byte, 0, 4*len(vector))
	for _, x := range vector {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, raw)
	return append(b, '"')
}
