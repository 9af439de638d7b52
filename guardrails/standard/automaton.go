package standard

import (
	"context"
	"errors"
	"unicode"
	"unicode/utf8"

	"github.com/caddy-gw/gateway/guardrails"
)

// An automaton finds the words of a list in one pass over a text, as Aho and Corasick do.
type automaton struct {
	nodes []node
	// rows have, of the nodes that are reached most, the node after each byte.
	rows [][256]int32
	fold bool
}

// maxRows bounds the rows of an automaton, of 1 KiB each.
const maxRows = 128

// A node is a beginning of words. Node 0 is the empty one.
type node struct {
	next map[byte]int32
	row  int32 // its number among the rows, from 1; 0: it has none
	fail int32 // the longest proper end of it that is a beginning, too
	out  int32 // the longest end of it that is a word, as a node; 0: none is
	size int32 // of the word that ends here; 0: none does
	word int32 // where that is in the list
}

func newAutomaton(words []string, fold bool) *automaton {
	a := &automaton{nodes: []node{{}}, fold: fold}
	for i, w := range words {
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
		a.nodes[at].size, a.nodes[at].word = int32(len(folded)), int32(i)
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
		a.addRow(n)
	}
	return a
}

// addRow gives a node a row, if there is room: those with the shortest beginnings come first.
func (a *automaton) addRow(n *node) {
	if len(a.rows) == maxRows {
		return
	}
	var row [256]int32
	if len(a.rows) > 0 {
		row = a.rows[a.nodes[n.fail].row-1] // it is shorter, so that it has one
	}
	for c, next := range n.next {
		row[c] = next
	}
	a.rows = append(a.rows, row)
	n.row = int32(len(a.rows))
}

// step returns the node after a byte.
func (a *automaton) step(at int32, c byte) int32 {
	for {
		n := &a.nodes[at]
		if n.row > 0 { // the empty one has a row, once there is any other
			return a.rows[n.row-1][c]
		}
		if next, ok := n.next[c]; ok {
			return next
		}
		at = n.fail
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
	if c < utf8.RuneSelf || !a.fold {
		*out = append(*out, a.byte(c))
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

// byte is a byte in lower case, if that counts and it is a letter of ASCII.
func (a *automaton) byte(c byte) byte {
	if a.fold && c >= 'A' && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// scan calls found with the words in a text, where they end, and of those that end together the longest
// first. It goes through the text once. The error is that of found, or of the context.
func (a *automaton) scan(ctx context.Context, text string, found func(n *node, end int) error) error {
	paced := pacer{ctx: ctx}
	var buffer [utf8.UTFMax]byte
	at := int32(0)
	for i := 0; i < len(text); {
		folded := buffer[:0]
		if c := text[i]; c < utf8.RuneSelf {
			folded = append(folded, a.byte(c))
		} else {
			a.char(&folded, text[i:])
		}
		if err := paced.pace(len(folded)); err != nil {
			return err
		}
		for _, c := range folded {
			i++
			at = a.step(at, c)
			for out := a.nodes[at].out; out != 0; out = a.nodes[a.nodes[out].fail].out {
				if err := found(&a.nodes[out], i); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// find returns the places of words: where several overlap, the first, and of those that begin
// together the longest. The error is that of the context.
func (a *automaton) find(ctx context.Context, text string, whole bool) (places []guardrails.Place, err error) {
	err = a.scan(ctx, text, func(n *node, end int) error {
		p := guardrails.Place{Start: end - int(n.size), End: end}
		if whole && !alone(text, p.Start, p.End, isWord) {
			return nil
		}
		for len(places) > 0 && places[len(places)-1].Start >= p.Start { // it is in this one
			places = places[:len(places)-1]
		}
		if len(places) == 0 || places[len(places)-1].End <= p.Start {
			places = append(places, p)
		}
		return nil
	})
	return places, err
}

// has reports whether a text has any of the words.
func (a *automaton) has(text string) bool {
	return a.scan(context.Background(), text, func(*node, int) error { return errFound }) != nil
}

var errFound = errors.New("a word was found")
