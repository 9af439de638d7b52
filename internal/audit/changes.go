package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of what the trail keeps of the changes of an object.
const (
	MaxChanges = 64
	maxField   = 255  // bytes of the name of a member
	maxValue   = 1024 // bytes of a value before, and of one after
)

// A Comparison finds what has changed between two values that [Decode] returned.
type Comparison struct {
	Ignored  []string                // members, wherever they are, whose changes are left out
	Elements bool                    // of arrays, it finds which elements have changed
	Empty    bool                    // what is empty (an object, an array, a string) differs from what is not there
	Hide     func(raw string) string // secrets in a value in JSON; nil: there are none
	Max      int                     // changes that are returned; 0: all
}

// A Masked is a value that stands for a secret, or has some in it. Two that look the same differ if their secrets do.
type Masked struct {
	Shown  any // a value that [Decode] returned
	secret [sha256.Size]byte
}

// Mask returns what is shown of a secret.
func Mask(shown any, secret string) Masked { return Masked{shown, sha256.Sum256([]byte(secret))} }

// Decode returns a value in JSON as encoding/json does, with its numbers as they are written.
func Decode(raw []byte) (value any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return value, d.Decode(&value)
}

// Changes returns what has changed, by the names of members.
func (c *Comparison) Changes(before, after any) []Change {
	var changes []Change
	c.compare(&changes, "", before, after)
	return changes
}

func (c *Comparison) compare(changes *[]Change, at string, before, after any) {
	if from, ok := before.(map[string]any); ok {
		if to, ok := after.(map[string]any); ok {
			c.members(changes, at, from, to)
			return
		}
	}
	if from, ok := before.([]any); ok && c.Elements {
		if to, ok := after.([]any); ok {
			for i := range max(len(from), len(to)) {
				c.compare(changes, at+"["+strconv.Itoa(i)+"]", element(from, i), element(to, i))
			}
			return
		}
	}
	was, masked := before.(Masked)
	is, still := after.(Masked)
	exchanged := masked && still && was.secret != is.secret
	from, to := c.text(before), c.text(after)
	if from == to && !exchanged || c.Max > 0 && len(*changes) == c.Max {
		return
	}
	change := Change{Field: Shorten(at, maxField), From: c.shown(from), To: c.shown(to)}
	if change.From == change.To { // secrets, or long texts
		change.To = `"(another)"`
	}
	*changes = append(*changes, change)
}

func (c *Comparison) members(changes *[]Change, at string, before, after map[string]any) {
	if at != "" {
		at += "."
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(before)), maps.Keys(after))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !slices.Contains(c.Ignored, name) {
			c.compare(changes, at+name, before[name], after[name])
		}
	}
}

func element(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// text returns a value as JSON; "" for none.
func (c *Comparison) text(value any) string {
	if m, ok := value.(Masked); ok {
		value = m.Shown
	}
	empty := false
	switch v := value.(type) {
	case nil:
		return ""
	case map[string]any:
		empty = len(v) == 0
	case []any:
		empty = len(v) == 0
	case string:
		empty = v == ""
	}
	if empty && !c.Empty {
		return ""
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(value) != nil {
		return "" // it came out of JSON
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (c *Comparison) shown(raw string) string {
	if c.Hide != nil {
		raw = c.Hide(raw)
	}
	return Shorten(raw, maxValue)
}

// Shorten cuts a text to some bytes, at a character.
func Shorten(s string, most int) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) <= most {
		return s
	}
	const more = "…"
	end := most - len(more)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + more
}
