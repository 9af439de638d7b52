package manifest

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/audit"
)

// Bounds of the differences of an object that are kept in the audit trail, and of their texts in
// bytes.
const (
	maxChanges = 64
	maxText    = 1024
)

// difference returns the members that differ between two objects, in which secrets are sealed. The
// members of arrays are told by their places.
func difference(before, after string) (changes []audit.Change) {
	compare(&changes, "", gjson.Parse(before), gjson.Parse(after))
	return changes
}

func compare(changes *[]audit.Change, at string, from, to gjson.Result) {
	if from.Raw == to.Raw {
		return
	}
	if from.IsObject() && to.IsObject() || from.IsArray() && to.IsArray() {
		old, now := members(from), members(to)
		for _, m := range old.names {
			compare(changes, under(at, m), old.values[m], now.values[m])
		}
		for _, m := range now.names {
			if _, there := old.values[m]; !there {
				compare(changes, under(at, m), gjson.Result{}, now.values[m])
			}
		}
		return
	}
	c := audit.Change{Field: shorten(at, 255), From: shown(from), To: shown(to)}
	if c.From == c.To { // secrets, or long texts
		c.To = `"(another)"`
	}
	*changes = append(*changes, c)
}

type object struct {
	names  []string
	values map[string]gjson.Result
}

// members returns the members of an object, or the elements of an array by their places.
func members(v gjson.Result) object {
	o := object{values: make(map[string]gjson.Result)}
	n := 0
	v.ForEach(func(key, value gjson.Result) bool {
		name := key.Str
		if v.IsArray() {
			name = "[" + strconv.Itoa(n) + "]"
		}
		n++
		o.names, o.values[name] = append(o.names, name), value
		return true
	})
	return o
}

func under(at, name string) string {
	if at == "" || strings.HasPrefix(name, "[") {
		return at + name
	}
	return at + "." + name
}

// hidden is a sealed secret, as JSON.
var hidden = regexp.MustCompile(`"` + sealedPrefix + `[A-Za-z0-9_-]+"`)

// shown returns a value as JSON, without secrets.
func shown(v gjson.Result) string {
	return shorten(hidden.ReplaceAllString(v.Raw, `"(secret)"`), maxText)
}

// shorten cuts a text to some bytes, at a character.
func shorten(s string, most int) string {
	const more = "…"
	if len(s) <= most {
		return s
	}
	end := most - len(more)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + more
}
