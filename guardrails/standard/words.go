package standard

import (
	"context"
	"unicode"
	"unicode/utf8"

	"github.com/caddy-gw/gateway/guardrails"
)

// maxWordBytes bounds the words of a list together.
const maxWordBytes = 256 << 10

var wordList = guardrails.Kind{
	ID: "gw.words", Doc: "the text has none of up to 10,000 words or phrases, which are looked for all at once; or always, with redact",
	Parameters: []guardrails.Parameter{
		{Name: "words", Type: guardrails.Texts, Required: true, Doc: "words or phrases, of 256 KiB together"},
		{Name: "wholeWords", Type: guardrails.Boolean, Default: "true", Doc: "letters, digits or _ next to one make it another word"},
		{Name: "caseSensitive", Type: guardrails.Boolean, Doc: "letter case counts"},
		redact,
	},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		words := p.Texts("words")
		size := 0
		for _, w := range words {
			size += len(w)
		}
		if size > maxWordBytes {
			return nil, &guardrails.ParameterError{Name: "words", Message: "expected at most 256 KiB"}
		}
		a := newAutomaton(words, !p.Boolean("caseSensitive"))
		whole := p.Boolean("wholeWords")
		return &detecting{what: "words of the list", redact: p.Boolean("redact"), parts: true, detectors: []detector{{"WORD", func(ctx context.Context, text string) ([]guardrails.Place, error) {
			return a.find(ctx, text, whole)
		}}}}, nil
	},
}

// An automaton finds the words of a list in one pass over a text, as Aho and Corasick do.
type automaton struct {
	nodes []node
	fold  bool
}

// A node is a beginning of words. Node 0 is the empty one.
type node struct {
	next map[byte]int32
	fail int32 // the longest proper end of it that is a beginning, too
	out  int32 // the longest end of it that is a word, as a node; 0: none is
	size int32 // of the word that ends here; 0: none does
}

func newAutomaton(words []string, fold bool) *automaton {
	a := &automaton{nodes: []node{{}}, fold: fold}
	for _, w := range words {
		at := int32(0)
		folded := a.folded(w)
		for i := range len(folded) {
			next, ok := a.nodes[at].next[folded[i]]
			if !ok {
				next = int32(len(a.nodes)) // maxWordBytes bounds it
				a.nodes = append(a.nodes, node{})
				if a.nodes[at].next == nil {
					a.nodes[at].next = make(map[byte]int32)
				}
				a.nodes[at].next[folded[i]] = next
			}
			at = next
		}
		a.nodes[at].size = int32(len(folded))
	}
	queue := []int32{0}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		n := &a.nodes[at]
		if n.out = a.nodes[n.fail].out; n.size > 0 {
			n.out = at
		}
		for c, next := range n.next {
			if at != 0 {
				a.nodes[next].fail = a.step(n.fail, c)
			}
			queue = append(queue, next)
		}
	}
	return a
}

// step returns the node after a byte.
func (a *automaton) step(at int32, c byte) int32 {
	for {
		if next, ok := a.nodes[at].next[c]; ok {
			return next
		}
		if at == 0 {
			return 0
		}
		at = a.nodes[at].fail
	}
}

// folded is a text in lower case, as far as that does not change how long its characters are.
func (a *automaton) folded(text string) []byte {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		size := a.char(&out, text[i:])
		i += size
	}
	return out
}

// char appends the first character of a text in lower case, and returns how many bytes it has.
func (a *automaton) char(out *[]byte, text string) (size int) {
	c := text[0]
	switch {
	case !a.fold, c < utf8.RuneSelf && (c < 'A' || c > 'Z'):
		*out = append(*out, c)
		return 1
	case c < utf8.RuneSelf:
		*out = append(*out, c|0x20)
		return 1
	}
	r, size := utf8.DecodeRuneInString(text)
	if lower := unicode.ToLower(r); r != utf8.RuneError && utf8.RuneLen(lower) == size {
		*out = utf8.AppendRune(*out, lower)
	} else {
		*out = append(*out, text[:size]...)
	}
	return size
}

// find returns the places of words: where several overlap, the first, and of those that begin
// together the longest. It goes through the text once, and the error is that of the context.
func (a *automaton) find(ctx context.Context, text string, whole bool) (places []guardrails.Place, err error) {
	paced := pacer{ctx: ctx}
	var buffer [utf8.UTFMax]byte
	at := int32(0)
	for i := 0; i < len(text); {
		folded := buffer[:0]
		size := a.char(&folded, text[i:])
		if err := paced.pace(size); err != nil {
			return nil, err
		}
		for _, c := range folded {
			i++
			at = a.step(at, c)
			for out := a.nodes[at].out; out != 0; out = a.nodes[a.nodes[out].fail].out {
				p := guardrails.Place{Start: i - int(a.nodes[out].size), End: i}
				if whole && !alone(text, p.Start, p.End, isWord) {
					continue
				}
				for len(places) > 0 && places[len(places)-1].Start >= p.Start { // it is in this one
					places = places[:len(places)-1]
				}
				if len(places) == 0 || places[len(places)-1].End <= p.Start {
					places = append(places, p)
				}
			}
		}
	}
	return places, nil
}
