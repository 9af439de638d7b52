// Package template is the language of prompts: mustache, rendered into JSON. A text is
// parsed once into operations, which a call then runs over its variables, that stay JSON.
//
// What a variable holds is data: it is escaped for where it is inserted, it is not
// rendered again, and no value ends the text that it is inserted into.
//
//	{{name}} {{a.b}} {{a.0}} {{.}}  a value; nothing if there is none. {{{a}}} and {{&a}} are the same
//	{{#name}}…{{/name}}             for each element of an array; or once, if the value is not false
//	{{^name}}…{{/name}}             if it is false, 0, null, "", [] or missing
//	{{>slug@5}}                     a partial
//	{{>>name}}                      the partial that a variable names
//	{{! … }} {{=<% %>=}}            a comment; other delimiters, to the end of the text
//
// A tag that is not closed, and a section without its other half, is text. White space is
// kept as it stands, around tags on lines of their own too.
package template

import (
	"fmt"
	"strings"

	"github.com/caddy-gw/gateway/internal/jsonscan"
)

// Bounds of a template.
const (
	MaxSections = 64 // open at once
	MaxTags     = 20_000
)

// A Template is a parsed text. It is immutable.
type Template struct {
	ops   []op
	text  []byte   // of all literals
	names []string // of all paths
	raw   bool     // the literals are parts of JSON, and not of a text in it
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
	start, end int // of a literal in text; else of its path in names
	after      int // of a section: the op that follows it
}

// IsRaw reports whether the template is one of [Raw].
func (t *Template) IsRaw() bool { return t.raw }

// path is the name in an op, at its dots. A partial's name has one part, and "." has none.
func (t *Template) path(o *op) []string { return t.names[o.start:o.end] }

// An Error says why a text is no template, or cannot be rendered.
type Error struct{ Code, Message string }

func (e *Error) Error() string { return e.Message }

// A Partial is a parsed text that others insert.
type Partial struct {
	text *Template // within a text
	raw  *Template // in place of JSON, see [Raw]
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

// Uses is what the partial's text names.
func (p *Partial) Uses() Names { return p.text.Uses() }

// Text parses a text that is rendered into the inside of a JSON string.
func Text(text string) (*Template, error) {
	b := new(builder)
	b.parse(text)
	return b.done()
}

// Raw parses a text that is JSON once it is rendered. Inside of its strings it is like
// [Text]. Outside, a value is inserted as JSON: a string with its quotes, unless it spells a
// number, true, false or null, and an array as its elements.
func Raw(text string) (*Template, error) {
	b := &builder{t: Template{raw: true}}
	b.parse(text)
	return b.done()
}

// JSON parses a JSON value, in which every string that is no key is a template of its own.
func JSON(value []byte) (*Template, error) {
	b := new(builder)
	b.json(value)
	return b.done()
}

// A builder makes a template.
type builder struct {
	t      Template
	open   []open
	sealed int // ops before which no literal may grow any more
	tags   int
	err    error
}

// open is a section that was begun.
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

// verbatim adds a literal as it stands.
func (b *builder) verbatim(text []byte) { b.literal(append(b.t.text, text...)) }

// plain adds text that is a part of the template.
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

// literal takes over text, which has become longer.
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

// parse adds the ops of a text. What is no tag is text.
func (b *builder) parse(s string) {
	d := delimiters{left: "{{", right: "}}"}
	outer := len(b.open)
	i := 0 // what is before it was read
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
			i = at + 1 // what follows may be one: {{{name}} is a brace before a tag
			b.plain(s[at:i])
			continue
		}
		if next := strings.Index(s[inside:end], d.left); next >= 0 && sigil != '!' && sigil != '=' {
			// The tag was not closed before another one began.
			i = inside + next
			b.plain(s[at:i])
			continue
		}
		i = end + closing
		if b.tags++; b.tags > MaxTags {
			b.fail("expected at most %d tags", MaxTags)
			return
		}
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

// delimiters are what a tag begins and ends with. Where the next ends are is remembered, so
// that a text full of tags that are not closed is not searched for each of them.
type delimiters struct {
	left, right string
	next        [3]int // where a right one is, plain, after a brace and after an equals sign; 0: not known
}

// closing returns where the inside of a tag ends, and how long what ends it is; -1: nowhere.
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

// path splits a name at its dots; "." is the value of the section itself.
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

// close ends the section of a name that was begun last, of those that were begun in this
// text. Those in it that were not closed are text.
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

// unclosed makes the tag of the section that was begun last text.
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
	// The last literal no longer ends where the text does.
	b.sealed = len(b.t.ops)
}

// Names are what a template names, each once, in the order of the text.
type Names struct {
	Variables        []string // outside of sections
	Sections         []string
	SectionVariables []string // inside of sections
	Partials         []string
	VariablePartials []string // the variables that name partials
}

// Uses is what the template names.
func (t *Template) Uses() Names {
	var n Names
	n.add(t)
	return n
}

// UsesOf is what templates name together.
func UsesOf(templates []*Template) Names {
	var n Names
	for _, t := range templates {
		n.add(t)
	}
	return n
}

func (n *Names) add(t *Template) {
	inside := 0
	for i := range t.ops {
		o := &t.ops[i]
		to := &n.Variables
		switch {
		case o.kind == literal:
			continue
		case o.kind == section, o.kind == inverted:
			to, inside = &n.Sections, max(inside, o.after)
		case o.kind == partial:
			to = &n.Partials
		case o.kind == variablePartial:
			to = &n.VariablePartials
		case i < inside:
			to = &n.SectionVariables
		}
		name := strings.Join(t.path(o), ".")
		if o.start == o.end {
			name = "."
		}
		*to = once(*to, name)
	}
}

// once appends what is not there yet.
func once(names []string, name string) []string {
	for _, n := range names {
		if n == name {
			return names
		}
	}
	return append(names, name)
}
