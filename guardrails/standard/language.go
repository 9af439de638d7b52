package standard

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/abadojack/whatlanggo"

	"github.com/caddy-gw/gateway/guardrails"
)

// languages are the codes of languages and their scripts (ISO 639-3 and ISO 15924, as in FLORES),
// with the languages that are recognised for them. Catalan, Malay and Slovak are not among them: they
// are taken for other languages.
var languages = map[string]whatlanggo.Lang{
	"eng_Latn": whatlanggo.Eng, "zho_Hans": whatlanggo.Cmn, "spa_Latn": whatlanggo.Spa, "ara_Arab": whatlanggo.Arb, "arb_Arab": whatlanggo.Arb, "por_Latn": whatlanggo.Por, "ind_Latn": whatlanggo.Ind,
	"fra_Latn": whatlanggo.Fra, "jpn_Jpan": whatlanggo.Jpn, "rus_Cyrl": whatlanggo.Rus, "deu_Latn": whatlanggo.Deu, "kor_Hang": whatlanggo.Kor, "tur_Latn": whatlanggo.Tur, "ita_Latn": whatlanggo.Ita,
	"pes_Arab": whatlanggo.Pes, "fas_Arab": whatlanggo.Pes, "pol_Latn": whatlanggo.Pol, "vie_Latn": whatlanggo.Vie, "nld_Latn": whatlanggo.Nld, "hin_Deva": whatlanggo.Hin, "tha_Thai": whatlanggo.Tha,
	"heb_Hebr": whatlanggo.Heb, "ben_Beng": whatlanggo.Ben, "swe_Latn": whatlanggo.Swe, "ces_Latn": whatlanggo.Ces, "ron_Latn": whatlanggo.Ron, "ell_Grek": whatlanggo.Ell, "ukr_Cyrl": whatlanggo.Ukr,
	"dan_Latn": whatlanggo.Dan, "fin_Latn": whatlanggo.Fin, "nor_Latn": whatlanggo.Nob, "hun_Latn": whatlanggo.Hun, "bul_Cyrl": whatlanggo.Bul, "hrv_Latn": whatlanggo.Hrv, "lit_Latn": whatlanggo.Lit,
	"lav_Latn": whatlanggo.Lav, "srp_Cyrl": whatlanggo.Srp, "slv_Latn": whatlanggo.Slv, "est_Latn": whatlanggo.Est, "urd_Arab": whatlanggo.Urd, "fil_Latn": whatlanggo.Tgl, "aze_Latn": whatlanggo.Azj,
	"tam_Taml": whatlanggo.Tam, "tel_Telu": whatlanggo.Tel, "mar_Deva": whatlanggo.Mar, "kan_Knda": whatlanggo.Kan,
}

// recognised are the languages that a text is taken for: others are too rare to be distinguished from these.
var recognised = func() whatlanggo.Options {
	all := make(map[whatlanggo.Lang]bool)
	for _, l := range languages {
		all[l] = true
	}
	return whatlanggo.Options{Whitelist: all}
}()

// scripts are those of the codes. Japanese is written in Han, too.
var scripts = map[string][]*unicode.RangeTable{
	"Latn": {unicode.Latin}, "Cyrl": {unicode.Cyrillic}, "Arab": {unicode.Arabic}, "Hans": {unicode.Han}, "Jpan": {unicode.Hiragana, unicode.Katakana, unicode.Han}, "Hang": {unicode.Hangul},
	"Deva": {unicode.Devanagari}, "Thai": {unicode.Thai}, "Hebr": {unicode.Hebrew}, "Beng": {unicode.Bengali}, "Grek": {unicode.Greek}, "Taml": {unicode.Tamil}, "Telu": {unicode.Telugu}, "Knda": {unicode.Kannada},
}

var language = guardrails.Kind{
	ID: "gw.language", Doc: "the text is in one of the languages, in each part of 2 KiB; or in none of them, with not. A text without letters is in all of them",
	Phases: guardrails.Calls | guardrails.Answers,
	Parameters: []guardrails.Parameter{
		{Name: "language", Type: guardrails.Any, Required: true, Doc: "codes, such as eng_Latn: a list, or a string with commas between them"},
		not, timeout,
	},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		raw := p.Raw("language")
		codes := split(p.Text("language"))
		if raw[0] != '"' && json.Unmarshal(raw, &codes) != nil || len(codes) == 0 {
			return nil, &guardrails.ParameterError{Name: "language", Message: "expected a list of codes, or a string of them"}
		}
		c := &inLanguage{codes: codes, not: p.Boolean("not"), of: make(map[whatlanggo.Lang]bool)}
		for _, code := range codes {
			l, ok := languages[code]
			if !ok {
				return nil, &guardrails.ParameterError{Name: "language", Message: "expected " + strings.Join(slices.Sorted(maps.Keys(languages)), ", ")}
			}
			c.of[l] = true
			c.scripts = append(c.scripts, scripts[code[len(code)-4:]]...)
		}
		return c, nil
	},
}

type inLanguage struct {
	codes   []string
	not     bool
	of      map[whatlanggo.Lang]bool
	scripts []*unicode.RangeTable
}

func (c *inLanguage) Judge(ctx context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	text := s.Text()
	if text == "" {
		return guardrails.Result{}, guardrails.ErrNoText
	}
	detected := ""
	for part := range segments(text) {
		if err := ctx.Err(); err != nil {
			return guardrails.Result{}, err
		}
		lang, reliable, written := recognise(part)
		if !written {
			continue
		}
		if detected == "" {
			detected = lang.Iso6393()
		}
		if c.of[lang] == c.not && (c.not || reliable || !unicode.In(firstLetter(part), c.scripts...)) {
			return guardrails.Result{Data: data{"languages": c.codes, "detected": lang.Iso6393(), "not": c.not, "explanation": "A part of the text is in " + lang.String() + "."}}, nil
		}
	}
	return guardrails.Result{Verdict: true, Data: data{"languages": c.codes, "detected": detected, "not": c.not, "explanation": "The text is in no other language than it may be in."}}, nil
}

// recognise returns the language that a text is most likely in, and whether that is sure: in a few
// words, languages of the same script are not distinguished. written is false if there is
// nothing to distinguish them by.
func recognise(text string) (lang whatlanggo.Lang, sure, written bool) {
	const (
		least           = 30 // letters of a script that several languages have
		leastConfidence = 0.25
	)
	letters := 0
	for _, r := range text {
		if unicode.IsLetter(r) {
			letters++
		}
	}
	if letters == 0 {
		return 0, false, false
	}
	info := whatlanggo.DetectWithOptions(text, recognised)
	if info.Lang < 0 {
		return 0, false, false
	}
	return info.Lang, letters >= least && info.Confidence >= leastConfidence, true
}

// firstLetter is the first letter of a text, or 0.
func firstLetter(text string) rune {
	for _, r := range text {
		if unicode.IsLetter(r) {
			return r
		}
	}
	return 0
}
