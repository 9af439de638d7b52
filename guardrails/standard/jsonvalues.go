package standard

import (
	"errors"
	"strings"

	"github.com/caddy-gw/gateway/internal/jsonscan"
)

const maxValues = 100

// jsonValues returns the JSON values in a text: the text itself, if it is one, or those in fenced
// blocks, or the objects between other words.
func jsonValues(text string) (values []string) {
	if whole := strings.TrimSpace(text); whole != "" && (whole[0] == '{' || whole[0] == '[') && isJSON(whole) {
		return []string{whole}
	}
	for _, b := range fencedBlocks(text) {
		if inside := strings.TrimSpace(b.inside); len(values) < maxValues && isJSON(inside) {
			values = append(values, inside)
		}
	}
	if len(values) > 0 {
		return values
	}
	s := jsonscan.Scanner(text)
	left := 4*len(text) + 1<<16 // bytes to scan, as an object that is not closed is scanned up to its end from every brace in it
	for at := 0; len(values) < maxValues && left > 0; {
		next := strings.IndexByte(text[at:], '{')
		if next < 0 {
			break
		}
		at += next
		end, err := s.Value(at, 0)
		if err == nil {
			values = append(values, text[at:end])
			left -= end - at
			at = end
			continue
		}
		if broken := new(jsonscan.SyntaxError); errors.As(err, &broken) {
			left -= broken.Offset - at
		}
		at++
	}
	return values
}

func isJSON(text string) bool {
	if text == "" {
		return false
	}
	end, err := jsonscan.Scanner(text).Value(0, 0)
	return err == nil && end == len(text)
}
