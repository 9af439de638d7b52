package inference

import (
	"bytes"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A frame is an event that was scanned and changed nothing in what is known of its stream. An
// event with the same bytes around its text, whatever its text, is JSON too and changes
// nothing either. Most chunks of most streams differ from the one before in their text alone.
type frame struct {
	event      []byte
	start, end int // of the text in it, without its quotes; 0: there is no frame
	copies     textCopy
	misses     int // events in a row that did not fit
}

const (
	maxFrame  = 1 << 10 // bytes of an event that is kept as a frame
	maxMisses = 8       // then no frame is kept, since the stream's events differ elsewhere too
)

// texts are the keys of the texts in chunks, up to where the text begins. Quotes inside a
// string are escaped, so that the last quote begins a string wherever one of these is found.
var texts = [...][]byte{[]byte(`"content":"`), []byte(`"text":"`), []byte(`"arguments":"`), []byte(`"partial_json":"`), []byte(`"reasoning_content":"`)}

// fits reports whether an event is the frame with another text.
func (f *frame) fits(event []byte) bool {
	after := len(f.event) - f.end
	if f.start == 0 || len(event) < f.start+after || string(event[:f.start]) != string(f.event[:f.start]) ||
		string(event[len(event)-after:]) != string(f.event[f.end:]) {
		return false
	}
	end, _, err := jsonscan.Scanner(event).String(f.start - 1)
	if err != nil || end != len(event)-after+1 { // the quote is the first byte of what comes after
		return false
	}
	f.misses = 0
	return true
}

// text returns the text of an event that fits, as the inside of a JSON string.
func (f *frame) text(event []byte) []byte { return event[f.start : len(event)-(len(f.event)-f.end)] }

// take makes an event the frame, if it has a text, which is of a copy. It was scanned.
func (f *frame) take(event []byte, copies textCopy) {
	f.start, f.copies = 0, copies
	if f.misses++; f.misses > maxMisses || len(event) > maxFrame {
		return
	}
	for _, key := range texts {
		if at := bytes.Index(event, key); at >= 0 {
			start := at + len(key)
			if end, _, err := jsonscan.Scanner(event).String(start - 1); err == nil {
				f.event, f.start, f.end = append(f.event[:0], event...), start, end-1
			}
			return
		}
	}
}
