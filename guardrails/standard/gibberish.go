package standard

import (
	"context"
	"strings"
	"unicode"

	"github.com/caddy-gw/gateway/guardrails"
)

// followers are, for each letter from a to z, those that often follow it in some of 24 languages with
// Latin letters. They are made of the trigrams of whatlanggo's profiles.
var followers = [26]string{
	"abcdfghijklmnoprstuvwyz", "abeiklnoruy", "acehijklostuyz", "adeijlnorstuyz",
	"abcdefghijklmnopqrstuvwxyz", "aefiortu", "abdeghijklnoprstuy", "adeilmnorstuv",
	"abcdefghijklmnopqrstuvyz", "adehiknosu", "adehiklorstuvy", "adegijklmnostuvwy",
	"abegilmopstuz", "acdeghijklmnostuvyz", "abcdefghijklmnoprstuvwz", "aehilnoprtu",
	"u", "abcdefghijklmnoprstuvwyz", "acefhijklmnopstuvwyz", "aehiklmnorstuvwyz",
	"abcdefghijklmnoprstuxyz", "aeijlnorsuyz", "aehinosy", "a",
	"abcdeghiklmnostuvw", "adeginostuyz",
}

// usual are the pairs of letters that are usual.
var usual = func() (pairs [26][26]bool) {
	for first, after := range followers {
		for _, second := range after {
			pairs[first][second-'a'] = true
		}
	}
	return pairs
}()

var gibberish = guardrails.Kind{
	ID: "gw.gibberish", Doc: "the text has no part that looks like keys hit at random, by pairs of Latin letters that are rare in every language and by repetition; the other way round with not",
	Phases:     guardrails.Calls | guardrails.Answers,
	Parameters: []guardrails.Parameter{not, timeout},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		return &gibbering{not: p.Boolean("not")}, nil
	},
}

type gibbering struct{ not bool }

func (c *gibbering) Judge(ctx context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	text := s.Text()
	if text == "" {
		return guardrails.Result{}, guardrails.ErrNoText
	}
	found := false
	for part := range segments(text) {
		if err := ctx.Err(); err != nil {
			return guardrails.Result{}, err
		}
		if found = isGibberish(part); found {
			break
		}
	}
	explanation := "No part of the text looks like gibberish."
	if found {
		explanation = "A part of the text looks like gibberish."
	}
	return guardrails.Result{Verdict: found == c.not, Data: data{"not": c.not, "explanation": explanation}}, nil
}

// A share of rare pairs, and in how many pairs in a row it is looked for.
const (
	gibberishPairs = 40
	leastPairs     = 7
	rareShare      = 4 // more than one of them in so many
)

// isGibberish reports whether too many pairs of letters in a row are rare. Words with other
// characters, such as ids and addresses, do not count, nor do words in capitals.
func isGibberish(text string) bool {
	var last [gibberishPairs]bool // whether they are rare, in a ring
	pairs, rare := 0, 0
	count := func(isRare bool) (found bool) {
		at := &last[pairs%gibberishPairs]
		if pairs++; *at {
			rare--
		}
		if *at = isRare; isRare {
			rare++
		}
		return pairs >= gibberishPairs && rare*rareShare > gibberishPairs
	}
	for word := range strings.FieldsFuncSeq(text, unicode.IsSpace) {
		word = strings.TrimFunc(word, func(r rune) bool { return !unicode.IsLetter(r) })
		if len(word) < 4 || strings.ToUpper(word) == word || strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && r != '\'' && r != '-' && r != '’' }) {
			continue
		}
		var before, run rune
		for _, r := range strings.ToLower(word) {
			if r == before {
				run++
			} else {
				run = 0
			}
			switch {
			case run >= 3: // as no word has it
				if count(true) {
					return true
				}
			case before >= 'a' && before <= 'z' && r >= 'a' && r <= 'z':
				if count(!usual[before-'a'][r-'a']) {
					return true
				}
			}
			before = r
		}
	}
	return pairs >= leastPairs && pairs < gibberishPairs && rare*rareShare > pairs
}
