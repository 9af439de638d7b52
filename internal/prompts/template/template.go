// Package template implements the templates of prompts: mustache, rendered into JSON. A
// text is parsed once into operations, which each call runs with its variables. The
// variables remain JSON.
//
// The values of variables are data: they are escaped for the place where they are
// inserted, are not rendered again, and cannot end the string or value that they are
// inserted into.
//
//	{{name}} {{a.b}} {{a.0}} {{.}}  a value; nothing if there is none. {{{a}}} and {{&a}} are the same
//	{{#name}}…{{/name}}             for each element of an array; or once, if the value is not false
//	{{^name}}…{{/name}}             if it is false, 0, null, "", [] or missing
//	{{>slug@5}}                     a partial
//	{{>>name}}                      the partial that a variable names
//	{{! … }} {{=<% %>=}}            a comment; other delimiters, to the end of the text
//
// A tag that is not closed, and the tag of a section that is not opened or not closed,
// is text. White space is preserved, even around tags on their own line.
package template

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Bounds of a template.
const (
	MaxSections = 64 // open at the same time
	MaxTags     = 20_000
)

// A Template is a parsed text. It is immutable.
type Template struct {
	ops   []op
	text  []byte   // of all literals
	names []string // parts of all paths
	raw   bool     // the literals are JSON, not text within a JSON string

	tagged bool // it is not just text
}

type kind uint8

const (
	literal kind = iota
	variable
	section
	inverted
	partial
	variablePartial
)

// An op is a step of rendering.
type op struct {
	kind       kind
	start, end int // of a literal: in text; otherwise, of the path: in names
	after      int // of a section: the op after it
}

// What parts of a template take, in bytes, besides the texts.
const (
	opSize   = 32
	nameSize = 16
)

// Size is how much memory the template takes, in bytes, about. Tags take many times their text.
func (t *Template) Size() int {
	return opSize*cap(t.ops) + nameSize*cap(t.names) + cap(t.text)
}

// Size is how much memory the partial takes, in bytes, about.
func (p *Partial) Size() int { return p.text.Size() + p.raw.Size() }

// IsRaw reports whether the template was parsed by [Raw].
func (t *Template) IsRaw() bool { return t.raw }

// path returns the parts of the name in an op. The name of a partial has one part, and
// "." has none.
func (t *Template) path(o *op) []string { return t.names[o.start:o.end] }

// An Error is the reason why a text cannot be parsed or rendered.
type Error struct{ Code, Message string }

func (e *Error) Error() string { return e.Message }

// A Partial is a parsed text that other templates include.
type Partial struct {
	text *Template // within a JSON string
	raw  *Template // outside of JSON strings, see [Raw]
}

// ParsePartial parses the text of a partial.
func ParsePartial(text string) (*Partial, error) {
	escaped, err := Text(text)
	if err != nil {
		return nil, err
	}
	raw, err := Raw(text)
	if err != nil {
		return nil, err
	}
	return &Partial{escaped, raw}, nil
}

// Uses returns the names that the partial's text refers to.
func (p *Partial) Uses() Names { return p.text.Uses() }

// Text parses a text that is rendered as a part of a JSON string.
func Text(text string) (*Template, error) {
	b := new(builder)
	b.parse(text)
	return b.done()
}

// Raw parses a text that is JSON once it is rendered. Within its strings it is like
// [Text]. Outside of them, values are inserted as JSON: a string is quoted unless it is
// a number, true, false or null, and an array is inserted as its elements.
func Raw(text string) (*Template, error) {
	b := &builder{t: Template{raw: true}}
	b.parse(text)
	return b.done()
}

// HasTags reports whether a text has a tag, so that it does not come to itself.
func HasTags(text string) bool {
	if !strings.Contains(text, "{{") {
		return false
	}
	t, err := Text(text)
	return err != nil || t.tagged
}

// JSON parses a JSON value in which every string that is not a key is a template.
func JSON(value []byte) (*Template, error) {
	b := new(builder)
	b.json(value)
	return b.done()
}

// A builder builds a template.
type builder struct {
	t      Template
	open   []open
	sealed int // literals before this op are complete
	tags   int
	err    error
}

// open is a section whose end has not been parsed.
type open struct {
	op        int
	name, tag string
}

func (b *builder) done() (*Template, error) {
	if b.err != nil {
		return nil, b.err
	}
	return &b.t, nil
}

func (b *builder) fail(format string, args ...any) {
	if b.err == nil {
		b.err = &Error{"invalid_template", fmt.Sprintf(format, args...)}
	}
}

// verbatim adds a literal without escaping.
func (b *builder) verbatim(text []byte) { b.literal(append(b.t.text, text...)) }

// plain adds text from the template.
func (b *builder) plain(s string) {
	if s == "" {
		return
	}
	if b.t.raw {
		b.literal(append(b.t.text, s...))
	} else {
		b.literal(jsonscan.AppendEscaped(b.t.text, s))
	}
}

// literal sets the text of all literals, which has become longer.
func (b *builder) literal(text []byte) {
	start := len(b.t.text)
	b.t.text = text
	if n := len(b.t.ops); n > b.sealed && b.t.ops[n-1].kind == literal {
		b.t.ops[n-1].end = len(text)
		return
	}
	b.t.ops = append(b.t.ops, op{kind: literal, start: start, end: len(text)})
}

func (b *builder) json(value []byte) {
	r := jsonscan.NewReader(value)
	b.value(r)
	if err := r.Err(); err != nil {
		b.fail("%s", err)
	}
}

func (b *builder) value(r *jsonscan.Reader) {
	separator := func(first *bool) {
		if !*first {
			b.verbatim([]byte{','})
		}
		*first = false
	}
	first := true
	switch r.Kind() {
	case jsonscan.Object:
		b.verbatim([]byte{'{'})
		r.Object(func(key jsonscan.Key) {
			separator(&first)
			b.verbatim(append(jsonscan.AppendQuoted(nil, key.Bytes()), ':'))
			b.value(r)
		})
		b.verbatim([]byte{'}'})
	case jsonscan.Array:
		b.verbatim([]byte{'['})
		r.Array(func() {
			separator(&first)
			b.value(r)
		})
		b.verbatim([]byte{']'})
	case jsonscan.String:
		b.verbatim([]byte{'"'})
		b.parse(jsonscan.Unquote(r.Raw()))
		b.verbatim([]byte{'"'})
	default:
		b.verbatim(r.Raw())
	}
}

// parse adds the ops of a text. Everything that is not a tag is text.
func (b *builder) parse(s string) {
	d := delimiters{left: "{{", right: "}}"}
	outer := len(b.open)
	i := 0 // end of the text that has been parsed
	for b.err == nil {
		at := strings.Index(s[i:], d.left)
		if at < 0 {
			break
		}
		at += i
		b.plain(s[i:at])
		i = at + len(d.left)
		inside := len(s) - len(strings.TrimLeft(s[i:], " \t\r\n"))
		sigil := byte(0)
		if inside < len(s) && strings.IndexByte("#^/>&!={", s[inside]) >= 0 {
			sigil = s[inside]
			inside++
		}
		end, closing := d.closing(s, inside, sigil)
		if end < 0 {
			i = at + 1 // a tag may follow: {{{name}} is a brace and a tag
			b.plain(s[at:i])
			continue
		}
		if next := strings.Index(s[inside:end], d.left); next >= 0 && sigil != '!' && sigil != '=' {
			// Another tag begins before this one ends.
			i = inside + next
			b.plain(s[at:i])
			continue
		}
		i = end + closing
		if b.tags++; b.tags > MaxTags {
			b.fail("expected at most %d tags", MaxTags)
			return
		}
		b.t.tagged = true
		tag, name := s[at:i], strings.TrimSpace(s[inside:end])
		switch sigil {
		case '!':
		case '=':
			if both := strings.Fields(name); len(both) == 2 && !strings.Contains(name, "=") {
				d = delimiters{left: both[0], right: both[1]}
			} else {
				b.plain(tag)
			}
		case '#':
			b.section(section, name, tag)
		case '^':
			b.section(inverted, name, tag)
		case '/':
			b.close(outer, name, tag)
		case '>':
			if of, ok := strings.CutPrefix(name, ">"); ok {
				b.named(variablePartial, path(strings.TrimSpace(of)))
			} else {
				b.named(partial, []string{name})
			}
		default:
			b.named(variable, path(name))
		}
	}
	b.plain(s[i:])
	for len(b.open) > outer {
		b.unclosed()
	}
}

// delimiters are the strings that tags begin and end with. The positions of the next
// ends are cached, so that a text with many tags that are not closed is only searched
// once.
type delimiters struct {
	left, right string
	next        [3]int // position of the next end: plain, after a brace and after an equals sign; 0: unknown
}

// closing returns the position and length of the end of a tag. at is -1 if there is
// none.
func (d *delimiters) closing(s string, from int, sigil byte) (at, length int) {
	closing, which := d.right, 0
	switch sigil {
	case '{':
		closing, which = "}"+d.right, 1
	case '=':
		closing, which = "="+d.right, 2
	}
	if n := &d.next[which]; *n >= 0 && *n < from || *n == 0 {
		if *n = strings.Index(s[from:], closing); *n >= 0 {
			*n += from
		}
	}
	return d.next[which], len(closing)
}

// path splits a name at its dots. The path of ".", the current value, is empty.
func path(name string) []string {
	if name == "." {
		return nil
	}
	return strings.Split(name, ".")
}

func (b *builder) named(k kind, path []string) {
	start := len(b.t.names)
	b.t.names = append(b.t.names, path...)
	b.t.ops = append(b.t.ops, op{kind: k, start: start, end: len(b.t.names)})
}

func (b *builder) section(k kind, name, tag string) {
	if len(b.open) >= MaxSections {
		b.fail("expected at most %d sections within each other", MaxSections)
		return
	}
	b.open = append(b.open, open{len(b.t.ops), name, tag})
	b.named(k, path(name))
}

// close ends the innermost section with a name that was begun in this text. The tags of
// sections within it that were not closed become text.
func (b *builder) close(outer int, name, tag string) {
	i := len(b.open) - 1
	for i >= outer && b.open[i].name != name {
		i--
	}
	if i < outer {
		b.plain(tag)
		return
	}
	for len(b.open)-1 > i {
		b.unclosed()
	}
	b.sealed = len(b.t.ops)
	b.t.ops[b.open[i].op].after = b.sealed
	b.open = b.open[:i]
}

// unclosed turns the tag of the innermost section into text.
func (b *builder) unclosed() {
	last := b.open[len(b.open)-1]
	b.open = b.open[:len(b.open)-1]
	start := len(b.t.text)
	if b.t.raw {
		b.t.text = append(b.t.text, last.tag...)
	} else {
		b.t.text = jsonscan.AppendEscaped(b.t.text, last.tag)
	}
	b.t.ops[last.op] = op{kind: literal, start: start, end: len(b.t.text)}
	// More text cannot be appended to the last literal.
	b.sealed = len(b.t.ops)
}

// Names are the names that a template refers to, without duplicates and in the order of
// the text.
type Names struct {
	Variables        []string // outside of sections
	Sections         []string
	SectionVariables []string // within sections
	Partials         []string
	VariablePartials []string // the variables that contain names of partials
}

// Uses returns the names that the template refers to.
func (t *Template) Uses() Names { return UsesOf([]*Template{t}) }

// UsesOf returns the names that any of the templates refers to.
func UsesOf(templates []*Template) Names {
	var n Names
	seen := make(map[*[]string]map[string]bool)
	for _, t := range templates {
		t.each(func(o *op, inside bool) {
			to := &n.Variables
			switch {
			case o.kind == section, o.kind == inverted:
				to = &n.Sections
			case o.kind == partial:
				to = &n.Partials
			case o.kind == variablePartial:
				to = &n.VariablePartials
			case inside:
				to = &n.SectionVariables
			}
			name := strings.Join(t.path(o), ".")
			if o.start == o.end {
				name = "."
			}
			if seen[to] == nil {
				seen[to] = make(map[string]bool)
			}
			if !seen[to][name] {
				seen[to][name] = true
				*to = append(*to, name)
			}
		})
	}
	return n
}

// each calls fn for each op that is not a literal, with whether it is within a section.
func (t *Template) each(fn func(o *op, inside bool)) {
	within := 0
	for i := range t.ops {
		o := &t.ops[i]
		if o.kind == literal {
			continue
		}
		fn(o, i < within)
		if o.kind == section || o.kind == inverted {
			within = max(within, o.after)
		}
	}
}

// appendUnique appends name unless it is already there.
func appendUnique(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}
