package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// The model servers. All but the last are sites of gw_echo in a process of their own.
const (
	echo     = "echo"
	paced    = "paced"    // a chunk every 20 ms
	slow     = "slow"     // a chunk every 500 ms
	messages = "messages" // Anthropic's Messages API, which the gateway translates
)

// echoDelays are the chunk delays of the sites of gw_echo.
var echoDelays = map[string]time.Duration{echo: 0, paced: 20 * time.Millisecond, slow: 500 * time.Millisecond}

// upstreams are the names of the model servers, sorted.
var upstreams = []string{echo, messages, paced, slow}

// messageStop is the data of the last event of a stream of Anthropic's.
const messageStop = `{"type":"message_stop"}`

// serveMessages answers as Anthropic's Messages API does, with a text of as many words as
// the last user message of the request has, until the context is done. It knows the
// cases only, so that it takes little of the machine's time.
func serveMessages(ctx context.Context, address string) error {
	answers := make(map[int][2][]byte) // by words: whole, and streamed
	for _, c := range cases {
		if c.upstream == messages {
			answers[c.words] = [2][]byte{messageOf(c.answer()), messageEvents(c.answer())}
		}
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: answerTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		var request struct{ Stream bool }
		_ = json.Unmarshal(body, &request) // what does not parse has no stream, and no answer below
		for words, answer := range answers {
			if !strings.Contains(string(body), `"`+strings.TrimSpace(strings.Repeat("word ", words))+`"`) {
				continue
			}
			if request.Stream {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = w.Write(answer[1])
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(answer[0])
			return
		}
		http.Error(w, "the request is of no case", http.StatusBadRequest)
	})}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(l) }() // ends when the server is closed
	return nil
}

const messageHead = `"id":"msg_01","type":"message","role":"assistant","model":"echo"`

func messageOf(text string) []byte {
	return fmt.Appendf(nil, `{%s,"content":[{"type":"text","text":"%s"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":400,"output_tokens":3}}`, messageHead, text)
}

func messageEvents(text string) []byte {
	var b []byte
	event := func(name, data string) { b = fmt.Appendf(b, "event: %s\ndata: %s\n\n", name, data) }
	event("message_start", `{"type":"message_start","message":{`+messageHead+`,"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":400,"output_tokens":1}}}`)
	event("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
	for word := range strings.FieldsSeq(text) {
		event("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`+word+` "}}`)
	}
	event("content_block_stop", `{"type":"content_block_stop","index":0}`)
	event("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":100}}`)
	event("message_stop", messageStop)
	return b
}
