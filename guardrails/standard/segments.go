package standard

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// segmentBytes is about how long the parts are by which long texts are judged, so that what is in
// one of them is not lost in the rest.
const segmentBytes = 2 << 10

// segments are the parts of a text, which end between words where that is possible.
func segments(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(text) > segmentBytes+segmentBytes/2 {
			end := segmentBytes
			for end > segmentBytes-utf8.UTFMax && !utf8.RuneStart(text[end]) {
				end--
			}
			if at := strings.LastIndexFunc(text[segmentBytes/2:end], unicode.IsSpace); at >= 0 {
				end = segmentBytes/2 + at
			}
			if !yield(text[:end]) {
				return
			}
			text = text[end:]
		}
		yield(text)
	}
}
