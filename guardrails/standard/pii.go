package standard

import (
	"context"
	"net/netip"
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/textsearch"
)

// piiDetectors are the detectors of gw.pii by their categories. Names of people are not among them:
// no rule tells them from other words.
var piiDetectors = map[string]finder{
	"EMAIL_ADDRESS": matchesOf(`(?i)[a-z0-9._%+\-]{1,64}@(?:[a-z0-9\-]{1,63}\.){1,8}[a-z]{2,24}`, at, isWord, nil),
	"CREDIT_CARD":   cards,
	"SSN":           matchesOf(`\d{3}([ \-])\d{2}[ \-]\d{4}`, digit, func(r rune) bool { return isDigit(r) || r == '-' }, isSSN),
	"IBAN":          ibans,
	"IP_ADDRESS":    addresses,
	"PHONE_NUMBER": matchesOf(`\+\d{1,3}(?:[ .\-/]?\(?\d{1,5}\)?){2,6}|\(?\b[2-9]\d{2}\)?[ .\-]\d{3}[ .\-]\d{4}`,
		digit, func(r rune) bool { return isDigit(r) || r == '+' }, isPhone),
	"LOCATION_ADDRESS": matchesOf(`\d{1,5}[A-Za-z]? (?:[A-Z][A-Za-z'’]{0,30}\.? ){1,4}(?:Street|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Lane|Ln|Drive|Dr|Court|Ct|Way|Place|Pl|Square|Sq|Terrace|Parkway|Pkwy)`+
		`|\p{Lu}\p{Ll}{1,30}(?:straße|strasse|weg|platz|allee|gasse|ring|ufer) \d{1,4}[a-z]?`, digit, isWord, nil),
}

var pii = guardrails.Kind{
	ID: "gw.pii", Doc: "the text has no personal data of the categories, which are found by rules and checksums; or always, with redact",
	Phases: guardrails.Calls | guardrails.Answers,
	Parameters: []guardrails.Parameter{
		{Name: "categories", Type: guardrails.Texts, Required: true, OneOf: []string{
			"EMAIL_ADDRESS", "PHONE_NUMBER", "LOCATION_ADDRESS", "IP_ADDRESS", "CREDIT_CARD", "SSN", "IBAN",
		}, Doc: "what is looked for: EMAIL_ADDRESS, PHONE_NUMBER, LOCATION_ADDRESS (streets with numbers), IP_ADDRESS, CREDIT_CARD, SSN, IBAN"},
		redact, timeout,
	},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		c := &detecting{what: "personal data", redact: p.Boolean("redact"), parts: true}
		for _, category := range p.Texts("categories") {
			c.detectors = append(c.detectors, detector{category, piiDetectors[category]})
		}
		return c, nil
	},
}

// What each match of an expression has: where a text has it first, or -1.
func at(text string) int    { return strings.IndexByte(text, '@') }
func colon(text string) int { return strings.IndexByte(text, ':') }

func digit(text string) int {
	for i := range len(text) {
		if text[i]-'0' <= 9 {
			return i
		}
	}
	return -1
}

// matchesOf finds the matches of an expression that have none of some characters next to them, and
// that are valid; valid may be nil. has finds what each match has.
func matchesOf(pattern string, has func(text string) int, next func(rune) bool, valid func(match string) bool) finder {
	re := textsearch.Lazy(pattern)
	return func(ctx context.Context, text string) (places []guardrails.Place, err error) {
		all, err := re().FindAllNear(ctx, text, has)
		for _, m := range all {
			if alone(text, m[0], m[1], next) && (valid == nil || valid(text[m[0]:m[1]])) {
				places = append(places, guardrails.Place{Start: m[0], End: m[1]})
			}
		}
		return places, err
	}
}

// isSSN reports whether a number is one that is given to people.
func isSSN(s string) bool {
	area, group, serial := s[:3], s[4:6], s[7:]
	return s[3] == s[6] && area != "000" && area != "666" && area[0] != '9' && group != "00" && serial != "0000"
}

func digitsOf(s string) string {
	return strings.Map(func(r rune) rune {
		if isDigit(r) {
			return r
		}
		return -1
	}, s)
}

func isPhone(s string) bool {
	n := len(digitsOf(s))
	return n >= 8 && n <= 15
}

// schemes are the numbers of cards: how they begin, from and to, and their lengths.
var schemes = []struct {
	from, to string
	lengths  string // as characters
}{
	{"4", "4", "\x0d\x10\x13"},
	{"51", "55", "\x10"},
	{"2221", "2720", "\x10"},
	{"34", "34", "\x0f"},
	{"37", "37", "\x0f"},
	{"6011", "6011", "\x10\x13"},
	{"644", "649", "\x10\x13"},
	{"65", "65", "\x10\x13"},
	{"300", "305", "\x0e"},
	{"36", "36", "\x0e"},
	{"38", "39", "\x0e"},
	{"3528", "3589", "\x10"},
	{"62", "62", "\x10\x11\x12\x13"},
}

// isCard reports whether digits are the number of a card, with its check digit.
func isCard(digits string) bool {
	known := false
	for _, s := range schemes {
		head := digits[:len(s.from)]
		known = known || head >= s.from && head <= s.to && strings.IndexByte(s.lengths, byte(len(digits))) >= 0
	}
	sum := 0
	for i := range len(digits) {
		d := int(digits[len(digits)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return known && sum%10 == 0
}

// cards finds numbers of cards, whose digits may be in groups with blanks or hyphens between them.
func cards(ctx context.Context, text string) (places []guardrails.Place, err error) {
	paced := pacer{ctx: ctx}
	for at := 0; at < len(text); at++ {
		if err := paced.pace(1); err != nil {
			return nil, err
		}
		if !isDigit(rune(text[at])) || at > 0 && isDigit(rune(text[at-1])) {
			continue
		}
		var digits []byte
		best := 0
		for i := at; i < len(text) && len(digits) < 19; i++ {
			if c := text[i]; isDigit(rune(c)) {
				digits = append(digits, c)
				if last := i+1 == len(text) || !isDigit(rune(text[i+1])); last && len(digits) >= 13 && isCard(string(digits)) {
					best = i + 1
				}
				continue
			}
			if text[i] != ' ' && text[i] != '-' || i+1 == len(text) || !isDigit(rune(text[i+1])) {
				break
			}
		}
		if best > 0 {
			places = append(places, guardrails.Place{Start: at, End: best})
			at = best - 1
		}
	}
	return places, nil
}

// ibanLengths are the lengths of account numbers by their countries.
var ibanLengths = map[string]int{
	"AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BR": 29, "BY": 28, "CH": 21, "CR": 22, "CY": 28, "CZ": 24,
	"DE": 22, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28,
	"HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LI": 21, "LT": 20, "LU": 20, "LV": 21,
	"MC": 27, "MD": 24, "ME": 22, "MK": 19, "MR": 27, "MT": 31, "MU": 30, "NL": 18, "NO": 15, "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24,
	"RS": 22, "SA": 24, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "XK": 20,
}

var ibanStart = textsearch.Lazy(`[A-Z]{2}\d{2}`)

// ibans finds account numbers with their checksums, which may be in groups with blanks between them.
func ibans(ctx context.Context, text string) (places []guardrails.Place, err error) {
	starts, err := ibanStart().FindAllNear(ctx, text, digit)
	if err != nil {
		return nil, err
	}
	end := 0
	for _, m := range starts {
		length := ibanLengths[text[m[0]:m[0]+2]]
		if length == 0 || m[0] < end {
			continue
		}
		var number []byte
		i := m[0]
		for ; i < len(text) && len(number) < length; i++ {
			c := text[i]
			if c == ' ' && i > m[0] && text[i-1] != ' ' {
				continue
			}
			if (c < '0' || c > '9') && (c < 'A' || c > 'Z') {
				break
			}
			number = append(number, c)
		}
		if len(number) == length && alone(text, m[0], i, isWord) && isIBAN(string(number)) {
			places, end = append(places, guardrails.Place{Start: m[0], End: i}), i
		}
	}
	return places, nil
}

// isIBAN reports whether the checksum of an account number is right.
func isIBAN(number string) bool {
	rest := 0
	for _, c := range number[4:] + number[:4] {
		n := int(c - '0')
		if c >= 'A' {
			n = int(c-'A') + 10
			rest *= 10
		}
		rest = (rest*10 + n) % 97
	}
	return rest == 1
}

var (
	ipv4 = textsearch.Lazy(`\d{1,3}(?:\.\d{1,3}){3}`)
	ipv6 = textsearch.Lazy(`[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}`)
)

// addresses finds IP addresses.
func addresses(ctx context.Context, text string) (places []guardrails.Place, err error) {
	add := func(re func() *textsearch.Regexp, has func(string) int, next func(rune) bool, valid func(string) bool) {
		if err != nil {
			return
		}
		var all [][]int
		all, err = re().FindAllNear(ctx, text, has)
		for _, m := range all {
			found := text[m[0]:m[1]]
			if _, err := netip.ParseAddr(found); err == nil && alone(text, m[0], m[1], next) && valid(found) {
				places = append(places, guardrails.Place{Start: m[0], End: m[1]})
			}
		}
	}
	add(ipv4, digit, isWord, func(s string) bool {
		for part := range strings.SplitSeq(s, ".") {
			if n, err := strconv.Atoi(part); err != nil || n > 255 {
				return false
			}
		}
		return true
	})
	add(ipv6, colon, func(r rune) bool { return isWord(r) || r == ':' }, func(s string) bool {
		return len(s) >= 6 && strings.ContainsAny(s, "0123456789")
	})
	return places, err
}
