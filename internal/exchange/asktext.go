package exchange

import (
	"bytes"

	"github.com/caddy-gw/gateway/internal/tokens"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// TextTokens counts the tokens that the text of the prompt has at most: that of the whole body, whose names and
// punctuation are more than what a provider puts around messages, without the data of files. counted: they could be.
func (a *Attempt) TextTokens() (n int64, counted bool) {
	body, reason := a.Payload().untranslated()
	if reason != "" || body == nil {
		return 0, false
	}
	return tokensOfTexts(tokens.EncodingOf(a.Model), textsOf(body)), true
}

// tokensOfTexts counts the tokens that parts of a body have at most. What is beyond [tokens.MaxCounted] bytes of all of them has a token for each byte.
func tokensOfTexts(e tokens.Encoding, texts [][]byte) (n int64) {
	room := tokens.MaxCounted
	for _, text := range texts {
		counted := text
		if len(text) > room {
			counted = text[:bytes.LastIndexByte(text[:room], ' ')+1] // a blank is no part of an escape
		}
		room -= len(counted)
		n += tokens.Bound(e, jsonscan.AppendUnescaped(make([]byte, 0, len(counted)), counted)) + int64(len(text)-len(counted))
	}
	return n
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
