package echo

import (
	"math"
	"strconv"

	"github.com/tidwall/gjson"
)

// maxInputs is the maximum number of texts in a request, as with OpenAI.
const maxInputs = 2048

// textsOf reads a prompt or an input: a string, an array of strings, an array of tokens
// or an array of token arrays. An array of tokens becomes one text, with the numbers
// separated by spaces.
func textsOf(name string, v gjson.Result) ([]string, error) {
	if v.Type == gjson.String {
		return []string{v.Str}, nil
	}
	if !v.IsArray() {
		return nil, wrongInput(name)
	}
	if v.Get("0").Type == gjson.Number {
		text, err := joinTokens(name, v)
		return []string{text}, err
	}

	var texts []string
	var err error
	v.ForEach(func(_, item gjson.Result) bool {
		var text string
		switch {
		case len(texts) == maxInputs:
			err = badRequest("%s has more than %d texts", name, maxInputs)
		case item.IsArray():
			text, err = joinTokens(name, item)
		case item.Type == gjson.String:
			text = item.Str
		default:
			err = wrongInput(name)
		}
		texts = append(texts, text)
		return err == nil
	})
	if err == nil && len(texts) == 0 {
		err = wrongInput(name)
	}
	return texts, err
}

func joinTokens(name string, tokens gjson.Result) (string, error) {
	var b []byte
	var err error
	tokens.ForEach(func(_, token gjson.Result) bool {
		var n int
		if err = setInt(&n, name, token, 0, math.MaxInt32); err != nil {
			return false
		}
		if len(b) > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, int64(n), 10)
		return true
	})
	if err == nil && len(b) == 0 {
		err = wrongInput(name)
	}
	return string(b), err
}

func wrongInput(name string) error {
	return badRequest("%s must be a string, an array of strings, an array of tokens or an array of token arrays, and not empty", name)
}
