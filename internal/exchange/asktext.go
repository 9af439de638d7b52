package exchange

import (
	"bytes"

	"github.com/caddy-gw/gateway/internal/tokens"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// TextTokens counts the tokens that the text of the prompt has at most: that of the whole body, whose names and
// punctuation are more than what a provider puts around messages, without the data of files.
func (a *Attempt) TextTokens() (n int64) {
	body, reason := a.Payload().untranslated()
	if reason != "" {
		return 0
	}
	encoding := tokens.EncodingOf(a.Model)
	for _, text := range textsOf(body) {
		n += textTokens(encoding, text)
	}
	return n
}

// textTokens counts the tokens that a part of a body has at most, as far as it is not too long for that.
func textTokens(e tokens.Encoding, text []byte) int64 {
	counted := text
	if len(text) > tokens.MaxCounted {
		counted = text[:bytes.LastIndexByte(text[:tokens.MaxCounted], ' ')+1] // a blank is no part of an escape
	}
	return tokens.Bound(e, jsonscan.AppendUnescaped(make([]byte, 0, len(counted)), counted)) + int64(len(text)-len(counted))
}

// textsOf returns the parts of a body that are not the data of files.
func textsOf(body []byte) (texts [][]byte) {
	var data [][]byte
	c := content{data: &data}
	c.files(body)
	for _, d := range data {
		if before, after, ok := bytes.Cut(body, d); ok {
			texts, body = append(texts, before), after
		}
	}
	return append(texts, body)
}
