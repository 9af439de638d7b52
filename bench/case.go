package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// A benchCase is a kind of request. gw_echo answers with the last user message, so the
// system message sets the size of the prompt and the user message that of the answer.
type benchCase struct {
	name   string
	size   int // bytes of the body; 0: as small as the messages allow
	words  int // words in the answer, one chunk of a stream each
	stream bool

	upstream    string // the model server that answers
	fallback    bool   // the gateway tries a provider that does not listen first
	header      string // sent by clients of the gateway in addition to the usual headers, with CRLF
	connections int    // instead of those of the run; 0: the same
	rounds      int    // maximum; 0: those of the run
}

var cases = []benchCase{
	{name: "2KB", size: 2 << 10, words: 3, upstream: echo},
	{name: "20KB", size: 20 << 10, words: 3, upstream: echo},
	{name: "200KB", size: 200 << 10, words: 3, upstream: echo},
	{name: "2MB", size: 2 << 20, words: 3, upstream: echo},
	{name: "stream", words: 100, stream: true, upstream: echo},
	{name: "paced", words: 100, stream: true, upstream: paced, rounds: 10},
	{name: "slow", words: 20, stream: true, upstream: slow, connections: 1000, rounds: 1},
	{name: "anthropic", size: 2 << 10, words: 3, upstream: messages},
	{name: "anthropic-stream", words: 100, stream: true, upstream: messages},
	{name: "fallback", size: 2 << 10, words: 3, upstream: echo, fallback: true},
	{name: "hit", size: 2 << 10, words: 3, upstream: echo, header: "X-Gw-Cache: simple\r\n"}, // answered from the cache; plain Caddy forwards it
}

func caseNames() []string {
	names := make([]string, len(cases))
	for i, c := range cases {
		names[i] = c.name
	}
	return names
}

// options returns those of a run as the case wants them.
func (c *benchCase) options(o Options) Options {
	if c.connections > 0 {
		o.Connections = c.connections
	}
	if c.rounds > 0 {
		o.Rounds = min(o.Rounds, c.rounds)
	}
	return o
}

// answer is the text that the upstream echoes.
func (c *benchCase) answer() string {
	return strings.TrimSpace(strings.Repeat("word ", c.words))
}

// prose returns the text of a prompt: lines of words with some quotation marks, so that
// its JSON has about as many escapes as that of real prompts.
const prose = "You are a \"careful\" assistant: answer in plain words, and say so when you do not know.\n"

// body returns the JSON of the request, which has exactly the size of the case.
func (c *benchCase) body() []byte {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	request := struct {
		Model    string    `json:"model"`
		Messages []message `json:"messages"`
		Stream   bool      `json:"stream,omitempty"`
	}{"echo", []message{{"system", ""}, {"user", c.answer()}}, c.stream}
	encode := func() []byte {
		b, err := json.Marshal(request)
		if err != nil {
			panic(err) // strings always encode
		}
		return b
	}
	line, err := json.Marshal(prose)
	if err != nil {
		panic(err)
	}
	missing := max(c.size-len(encode()), 0)
	lines := missing / (len(line) - 2)
	request.Messages[0].Content = strings.Repeat(prose, lines) + strings.Repeat("x", missing-lines*(len(line)-2))
	return encode()
}

// check reads an answer to its end and returns an error if it is not the expected one.
func (c *benchCase) check(res *http.Response) error {
	if res.StatusCode != http.StatusOK {
		start, _ := io.ReadAll(io.LimitReader(res.Body, 300)) // as much as there is
		return fmt.Errorf("answered %s: %s", res.Status, start)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if c.stream {
		return checkStream(body, c.words)
	}
	// A plain proxy passes on what Anthropic's API answers, which calls it text.
	if !bytes.Contains(body, []byte(`"content":"`+c.answer()+`"`)) && !bytes.Contains(body, []byte(`"text":"`+c.answer()+`"`)) {
		return fmt.Errorf("the answer does not echo the last user message: %.300s", body)
	}
	return nil
}

// checkStream returns an error unless the server-sent events are at least want others
// followed by the last one of the API.
func checkStream(body []byte, want int) error {
	events, done := 0, false
	for line := range bytes.Lines(body) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			return fmt.Errorf("the stream ends inside the line %.100q", line)
		}
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue
		}
		data = bytes.TrimSpace(data)
		switch {
		case done:
			return fmt.Errorf("data after the end: %.100q", data)
		case string(data) == "[DONE]" || string(data) == messageStop:
			done = true
		case bytes.HasPrefix(data, []byte(`{"error"`)):
			return fmt.Errorf("an error in the stream: %.300s", data)
		default:
			events++
		}
	}
	switch {
	case !done:
		return fmt.Errorf("the stream of %d events ends without [DONE]", events)
	case events < want:
		return fmt.Errorf("the stream has %d events; expected at least %d", events, want)
	}
	return nil
}
