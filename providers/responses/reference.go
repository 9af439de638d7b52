package responses

import (
	"bytes"
	"errors"
	"strings"

	"github.com/caddy-gw/gateway/internal/jsonscan"
	"github.com/caddy-gw/gateway/providers/chat"
)

// idDigits is the length of what is unique in the id of a response, and begins those of
// its items.
const idDigits = 32

// Owner is the response that an item of a kept response belongs to, by the item's id; ""
// where it cannot be one.
func Owner(itemID string) string {
	_, rest, _ := strings.Cut(itemID, "_")
	if len(rest) <= idDigits {
		return ""
	}
	return "resp_" + rest[:idDigits]
}

// MaxExpanded bounds an input with all that it refers to, in bytes.
const MaxExpanded = 32 << 20

// ErrExpanded is that an input has more than that.
var ErrExpanded = errors.New("the input refers to more than is put together")

// Expand puts items in the place of references to them in an input. What find returns
// nil for stays. The result is nil where nothing changes.
func Expand(input []byte, find func(id string) ([]byte, error)) ([]byte, error) {
	if !bytes.Contains(input, []byte(`"id"`)) || input[0] != '[' {
		return nil, nil
	}
	var failed error
	changed := false
	b := jsonscan.Builder(nil)
	b.Open('[')
	r := jsonscan.NewReader(input)
	r.Array(func() {
		start := r.Peek()
		id := reference(r)
		item := r.Since(start)
		if id != "" && failed == nil {
			found, err := find(id)
			if failed = err; found != nil {
				item, changed = found, true
			}
		}
		switch {
		case failed != nil:
		case len(b)+len(item) > MaxExpanded:
			failed = ErrExpanded
		default:
			b.Raw(item)
		}
	})
	b.Close(']')
	if !changed || failed != nil {
		return nil, failed
	}
	return b, nil
}

// reference reads an item and returns the id that it refers to, or "". Its type may be
// left out.
func reference(r *jsonscan.Reader) string {
	var id chat.Literal
	refers := true
	r.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("id"):
			id = r.String()
		case key.Is("type"):
			if v := r.Value(); v != nil && !chat.Literal(v).Is("item_reference") {
				refers = false
			}
		default:
			refers = false
		}
	})
	if !refers {
		return ""
	}
	return id.Text()
}
