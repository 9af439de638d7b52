package responses

import (
	"bytes"
	"errors"
	"strings"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// idDigits is the length of the unique part of a response's id. The ids of its items start
// with it.
const idDigits = 32

// Owner returns the id of the stored response that an item belongs to, or "" if the item's
// id has another form.
func Owner(itemID string) string {
	_, rest, _ := strings.Cut(itemID, "_")
	if len(rest) <= idDigits {
		return ""
	}
	return "resp_" + rest[:idDigits]
}

// MaxExpanded bounds an input with its references resolved, in bytes.
const MaxExpanded = 32 << 20

// ErrExpanded means that an input is larger than that.
var ErrExpanded = errors.New("the input refers to more than is put together")

// Expand replaces the references in an input by the items that find returns. References for
// which find returns nil are kept. The result is nil if nothing changes.
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
// omitted.
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
