package standard

import (
	"context"
	"strings"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/textsearch"
)

// An injection is a technique, and how a text with it looks.
type injection struct {
	technique string
	keywords  []string // of which such a text has one, whatever the case of its ASCII letters
	pattern   func() *textsearch.Regexp
}

// matches reports whether a text has the technique.
func (r *injection) matches(ctx context.Context, text string) (bool, error) {
	for _, keyword := range r.keywords {
		if found, err := containsFold(ctx, text, keyword); err != nil {
			return false, err
		} else if found {
			return r.pattern().Match(ctx, text)
		}
	}
	return false, nil
}

// injections are how texts try to have a model do something else than it was told, by the technique.
var injections = []injection{
	{"ignore_instructions", []string{"ignor", "disregard", "forget", "overrid", "bypass", "vergiss", "missachte", "oublie", "olvida", "ignora", "dimentica", "esquece"}, textsearch.Lazy(
		`(?i)\b(?:ignor(?:e|iere?n?|ez|a|ar)|disregard|forget|override|bypass|vergiss|missachte|oubliez?|olvida|dimentica|esquece?)\s{1,3}(?:about\s{1,3}|all(?:es?|en?)?\s{1,3}|any\s{1,3}|every(?:thing)?\s{1,3}|the\s{1,3}|my\s{1,3}|your\s{1,3}|these\s{1,3}|those\s{1,3}|of\s{1,3}|die\s{1,3}|deine\s{1,3}|toutes?\s{1,3}|tous\s{1,3}|les\s{1,3}|todas?\s{1,3}|todos?\s{1,3}|las?\s{1,3}|los?\s{1,3}|tutte\s{1,3}|le\s{1,3}|as\s{1,3}|tes\s{1,3}|vos\s{1,3}|tus\s{1,3}){0,4}` +
			`(?:(?:previous|prior|above|preceding|earlier|former|existing|current|original|system|initial|safety|obigen?|vorherigen?|bisherigen?|vorigen|pr[ée]c[ée]dentes?|anteriores?|precedenti)\s{1,3}){0,2}(?:instru\pL{2,12}|prompts?|rules?|guidelines?|directives?|directions|commands?|context|polic(?:y|ies)|programming|training|anweisung(?:en)?|regeln|istruzioni|r[èe]gles|reglas|above|before)`,
	)},
	{"reveal_instructions", []string{"prompt", "instruct", "anweisung", "system message", "rules", "guideline", "configuration"}, textsearch.Lazy(
		`(?i)\b(?:reveal|show|print|repeat|output|display|leak|dump|expose|tell\s{1,3}me|give\s{1,3}me|write\s{1,3}out|what\s{1,3}(?:is|are|was|were)|zeige?|nenne|affiche|montre|muestra|mostra)\s{1,3}(?:me\s{1,3}|mir\s{1,3}|us\s{1,3}|all\s{1,3}|of\s{1,3}|the\s{1,3}|out\s{1,3}|exact\s{1,3}|full\s{1,3}|entire\s{1,3}|complete\s{1,3}){0,4}(?:your|its|deine[n]?|ton|tes|votre|tu|tus|il\s{1,3}tuo|system|hidden|secret)\s{1,3}(?:(?:system|initial|original|hidden|secret|internal|first|developer|exact|full|confidential)\s{1,3}){0,3}(?:prompt|instructions|system\s{1,3}(?:prompt|message)|rules|guidelines|anweisungen|configuration)`,
	)},
	{"new_role", []string{"you are", " as ", "pretend", "du bist", "roleplay", "role-play", "dan mode", "developer mode", "jailbr"}, textsearch.Lazy(
		`(?i)\b(?:you\s{1,3}are\s{1,3}(?:now\s{1,3}|no\s{1,3}longer\s{1,3})(?:an?\s{1,3}|in\s{1,3}|bound\s{1,3}|called\s{1,3})?(?:DAN\b|unrestricted|unfiltered|uncensored|jailbroken|evil|free\s{1,3}from|developer\s{1,3}mode|AI\s{1,3}without|model\s{1,3}without|by\s{1,3}(?:any|your)|restricted|limited)|(?:act|respond|behave|answer)\s{1,3}as\s{1,3}(?:if\s{1,3}you\s{1,3}(?:have|had|were)\s{1,3}no\s{1,3}(?:rules|restrictions|limits|filters|guidelines)|an?\s{1,3}(?:unrestricted|unfiltered|uncensored|jailbroken|amoral)|DAN\b)|pretend\s{1,3}(?:that\s{1,3})?(?:you\s{1,3}(?:have|are|do)\s{1,3})(?:no|not|free)\s{1,3}(?:bound|rules|restrictions|have|limits|filters|guidelines|ethic\pL*|from)|(?:enable|enter|activate|switch\s{1,3}to)\s{1,3}(?:the\s{1,3})?(?:DAN|developer|god|jailbreak|unrestricted|debug)\s{1,3}mode)`,
	)},
	{"no_restrictions", []string{"without", "apply", "do anything now", "ohne"}, textsearch.Lazy(
		`(?i)\b(?:do\s{1,3}anything\s{1,3}now|(?:respond|answer|reply|speak|act|continue)\s{1,3}(?:to\s{1,3}\pL{1,12}\s{1,3}){0,2}without\s{1,3}(?:any\s{1,3})?(?:restrictions?|filters?|censorship|limits?|limitations?|warnings?\s{1,3}or|ethic\pL*|moral\pL*|safety)|(?:rules|restrictions|guidelines|filters|polic(?:y|ies))\s{1,3}(?:no\s{1,3}longer|do\s{1,3}not|don['’]t)\s{1,3}apply|antworte\s{1,3}ohne\s{1,3}(?:jede\s{1,3})?(?:einschr\pL*|filter|regeln))`,
	)},
	{"false_boundary", []string{"<|", "[inst]", "<<sys>>", "system]", "system:", "<system", "</system", "system", "end of", "begin of", "prompt"}, textsearch.Lazy(
		`(?i)(?:<\|(?:im_start|im_end|system|endoftext|start_header_id|eot_id)\|>|\[/?INST\]|<</?SYS>>|(?:^|\n)\s{0,4}(?:#{1,6}\s{0,3}|\[|<)(?:new\s{1,3}|updated\s{1,3}|end\s{1,3}of\s{1,3})?system(?:\s{1,3}(?:prompt|message|instructions?|override))?(?:\]|>|:)|-{3,10}\s{0,3}(?:end|begin)\s{1,3}(?:of\s{1,3})?(?:system\s{1,3})?(?:prompt|instructions|context)|(?:^|\n)\s{0,4}system\s{0,3}(?:override|prompt)\s{0,3}:)`,
	)},
}

var promptInjection = guardrails.Kind{
	ID: "gw.promptInjection", Doc: "the text has none of the phrases by which instructions are to be replaced, revealed or left, in a few languages; it is judged by rules alone",
	Phases:     guardrails.Calls | guardrails.Answers,
	Parameters: []guardrails.Parameter{not, timeout},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		return &injecting{not: p.Boolean("not")}, nil
	},
}

type injecting struct{ not bool }

func (c *injecting) Judge(ctx context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	if s.Text() == "" {
		return guardrails.Result{}, guardrails.ErrNoText
	}
	found := []string{}
	for i := range injections {
		rule := &injections[i]
		for _, text := range s.Texts {
			matched, err := rule.matches(ctx, text)
			if err != nil {
				return guardrails.Result{}, err
			}
			if matched {
				found = append(found, rule.technique)
				break
			}
		}
	}
	explanation := "The text has no phrase of a prompt injection."
	if len(found) > 0 {
		explanation = "The text has phrases of a prompt injection: " + strings.Join(found, ", ") + "."
	}
	return guardrails.Result{Verdict: (len(found) == 0) != c.not, Data: data{"techniques": found, "not": c.not, "explanation": explanation}}, nil
}

// containsFold reports whether a text has a word in lower case, whatever the case of its ASCII
// letters.
func containsFold(ctx context.Context, text, word string) (bool, error) {
	paced := pacer{ctx: ctx}
	first := word[0]
	for at := 0; at+len(word) <= len(text); at++ {
		if text[at]|0x20 == first|0x20 && strings.EqualFold(text[at:at+len(word)], word) {
			return true, nil
		}
		if err := paced.pace(1); err != nil {
			return false, err
		}
	}
	return false, nil
}
