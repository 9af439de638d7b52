package inference

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// textMembers are the members of answers and of their events that hold text, as strings; inputMembers are those with
// what a tool is called with, as strings or objects.
var (
	textMembers  = [...]string{"content", "text", "arguments", "partial_json", "reasoning_content", "reasoning", "thinking", "delta", "refusal", "transcript"}
	inputMembers = [...]string{"input", "args"}
)

// interpreterCall is the type of an item whose member "code" is text. That of errors is not.
const interpreterCall = "code_interpreter_call"

// maxTextMember is how long these are at most.
const maxTextMember = len(interpreterCall)

// A textKind says what the value of a member is.
type textKind uint8

const (
	noText     textKind = iota
	stringText          // text, if it is a string
	inputText           // text, if it is a string or an object
)

// kindOf is what the value of a member is, by its name.
func kindOf(name []byte) textKind {
	for _, n := range textMembers {
		if string(name) == n {
			return stringText
		}
	}
	for _, n := range inputMembers {
		if string(name) == n {
			return inputText
		}
	}
	return noText
}

// textIn returns how long the texts of an answer or of an event are together. It takes an object that a tool is called
// with for text as a whole. A [tap] finds the same. Texts that are strings are added to the sample of an attempt, unless that is nil.
func textIn(answer []byte, sample *exchange.Attempt) (n int) {
	if bytes.Contains(answer, []byte(`audio.delta"`)) { // whose delta is no text
		return 0
	}
	interprets := false
	for rest := answer; ; {
		i := bytes.IndexByte(rest, '"')
		if i < 0 {
			return n
		}
		rest = rest[i+1:]
		if len(rest) == 0 || strings.IndexByte("ctaprdi", rest[0]) < 0 {
			continue
		}
		end := bytes.IndexByte(rest[:min(len(rest), maxTextMember+1)], '"')
		if end < 0 {
			continue
		}
		interprets = interprets || string(rest[:end]) == interpreterCall
		kind := kindOf(rest[:end])
		if interprets && string(rest[:end]) == "code" {
			kind = stringText
		}
		value, isMember := bytes.CutPrefix(bytes.TrimLeft(rest[end+1:], " \t"), []byte(":"))
		if value = bytes.TrimLeft(value, " \t"); kind == noText || !isMember || len(value) == 0 {
			continue
		}
		switch {
		case value[0] == '"':
			if end, _, err := jsonscan.Scanner(value).String(0); err == nil {
				n += end - len(`""`)
				if sample != nil {
					sample.Sample(value[1 : end-1])
				}
				rest = value[end:]
			}
		case value[0] == '{' && kind == inputText:
			if end, err := jsonscan.Scanner(value).Value(0, 0); err == nil {
				n += end
				rest = value[end:]
			}
		}
	}
}

// textOf returns how long the texts of a stream's events are together.
func textOf(stream []byte) (n int) {
	var c textCount
	for line := range bytes.Lines(stream) {
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			n += c.add(copyOf([]byte(gjson.GetBytes(data, "type").Raw)), textIn(data, nil))
		}
	}
	return n
}

// A textCopy says which copy of the answer's texts an event belongs to. The Responses API sends each text several
// times: in portions, whole, with its part, with its item, and with the response.
type textCopy uint8

const (
	inPortions textCopy = iota
	inText
	inPart
	inItem
	inResponse
	textCopies
)

// copyOf is the copy that an event with a type, which is a JSON string or nothing, belongs to.
func copyOf(eventType []byte) textCopy {
	switch string(eventType) {
	case `"response.content_part.done"`, `"response.reasoning_summary_part.done"`:
		return inPart
	case `"response.output_item.done"`:
		return inItem
	case `"response.completed"`, `"response.incomplete"`, `"response.failed"`:
		return inResponse
	}
	if bytes.HasPrefix(eventType, []byte(`"response.`)) && bytes.HasSuffix(eventType, []byte(`.done"`)) {
		return inText
	}
	return inPortions
}

// A textCount counts the texts of a stream once, although it may have several copies of them.
type textCount struct{ of [textCopies]int }

// add counts n bytes of a copy, and returns by how much the longest copy has grown.
func (c *textCount) add(of textCopy, n int) (more int) {
	before := slices.Max(c.of[:])
	c.of[of] += n
	return max(0, c.of[of]-before)
}
