package chat

import (
	"bytes"
	"slices"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Foreign says which members of a Chat Completions body a provider refuses that did not
// create them.
type Foreign struct {
	Signatures      bool // extra_content of calls
	Reasoning       bool // reasoning_content of messages
	ReturnReasoning bool // thinking in content_blocks is converted to reasoning_content
	OfCalls         bool // settings of Anthropic's API
	OfMessages      bool // its members of messages and tools
}

// Members of Anthropic's API that OpenAI's does not have.
var (
	foreignOfCalls = []string{"output_config", "mcp_servers", "context_management", "cache_control", "inference_geo"}
	foreignOfTools = []string{"cache_control", "defer_loading", "allowed_callers", "input_examples", "eager_input_streaming"}
	foreignOfParts = []string{"cache_control"}
)

// ForeignMembers are the members that StripForeign may remove.
var ForeignMembers = slices.Concat([]string{"content_blocks", "reasoning_content", "extra_content"}, foreignOfCalls, foreignOfTools)

// StripForeign returns a body without members that only other providers understand, or nil
// if it has none. content_blocks are the gateway's own.
func StripForeign(body []byte, f Foreign) []byte {
	drop := []string{"content_blocks"}
	if f.Reasoning {
		drop = append(drop, "reasoning_content")
	}
	if f.Signatures {
		drop = append(drop, "extra_content")
	}
	var ofCalls, ofTools []string
	if f.OfCalls {
		ofCalls = foreignOfCalls
	}
	if f.OfMessages {
		drop, ofTools = append(drop, foreignOfParts...), foreignOfTools
	}
	if !slices.ContainsFunc(slices.Concat(drop, ofCalls, ofTools), func(name string) bool { return jsonscan.Mentions(body, name+`"`) }) {
		return nil
	}
	e := Editor{Reader: jsonscan.NewReader(body), Out: make([]byte, 0, len(body))}
	e.Object(func(name string) bool {
		switch {
		case slices.Contains(ofCalls, name):
			e.Reader.Raw()
			return true
		case name == "tools" && f.OfMessages:
			e.Key(name)
			e.Array(func() { e.Object(func(name string) bool { return e.dropped(name, ofTools) }) })
			return true
		case name != "messages":
			return false
		}
		e.Key(name)
		e.Array(func() {
			start := e.Reader.Peek()
			e.Object(func(name string) bool { return e.messageMember(name, drop, f.OfMessages) })
			if f.ReturnReasoning {
				e.addThoughts(e.Reader.Since(start))
			}
		})
		return true
	})
	if e.Reader.Err() != nil { // the caller of the reader reports it
		return nil
	}
	return e.Out
}

func (e *Editor) messageMember(name string, drop []string, parts bool) bool {
	switch {
	case e.dropped(name, drop):
		return true
	case name == "content" && parts:
		drop = foreignOfParts
	case name != "tool_calls":
		return false
	}
	e.Key(name)
	e.Array(func() {
		e.Object(func(name string) bool { return e.dropped(name, drop) })
	})
	return true
}

func (e *Editor) dropped(name string, drop []string) bool {
	if slices.Contains(drop, name) {
		e.Reader.Raw()
		return true
	}
	return false
}

// addThoughts adds the thinking of a message's content blocks to the message that was just
// written, unless it has reasoning_content.
func (e *Editor) addThoughts(message []byte) {
	p := &parser{r: jsonscan.NewReader(message)}
	var found blocks
	has := false
	p.r.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("reasoning_content"):
			has = p.r.Value() != nil
		case key.Is("content_blocks"):
			found = p.blocks()
		}
	})
	thought := thoughts(found.parts)
	if has || thought == nil || !bytes.HasSuffix(e.Out, []byte("}")) {
		return
	}
	e.Out = e.Out[:len(e.Out)-1]
	e.Out.Key("reasoning_content").Raw(thought)
	e.Out.Close('}')
}

// An Editor copies a JSON value, with callbacks that rewrite some of its members.
type Editor struct {
	Reader *jsonscan.Reader
	Out    jsonscan.Builder
}

// Key writes the key of a member.
func (e *Editor) Key(name string) {
	e.Out.Raw(jsonscan.AppendQuoted(nil, name))
	e.Out = append(e.Out, ':')
}

// Object copies an object, except for the members that edit reads itself. Other values are
// copied unchanged.
func (e *Editor) Object(edit func(name string) bool) {
	if e.Reader.Kind() != jsonscan.Object {
		e.Out.Raw(e.Reader.Raw())
		return
	}
	e.Out.Open('{')
	e.Reader.Object(func(key jsonscan.Key) {
		if name := key.String(); !edit(name) {
			value := e.Reader.Raw()
			e.Key(name)
			e.Out = append(e.Out, value...)
		}
	})
	e.Out.Close('}')
}

// Array copies an array, calling element for each element. Other values are copied
// unchanged.
func (e *Editor) Array(element func()) {
	if e.Reader.Kind() != jsonscan.Array {
		e.Out.Raw(e.Reader.Raw())
		return
	}
	e.Out.Open('[')
	e.Reader.Array(element)
	e.Out.Close(']')
}
