package external

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
)

// An answer is that of a service about a text.
type answer struct {
	gjson.Result
	*check
	s    *guardrails.Subject
	text string
}

// A finding is what a service says of a text.
type finding struct {
	found bool     // what the check looks for
	kinds []string // of what was found
	// fixed is the text without what was found, if fixable.
	fixed   string
	fixable bool
}

// A check asks the service of its row.
type check struct {
	*row
	p       *guardrails.Parameters
	own     map[string]string // settings among the parameters; nil: those that the organisation has saved
	forward []string          // headers of the call that the service gets
	timeout time.Duration
	redact  bool
	not     bool
}

// A redacting check changes what it judges.
type redacting struct{ *check }

// Transforms tells such checks from others.
func (redacting) Transforms() {}

// Waits says that the check waits for others.
func (*check) Waits() {}

var errServices = errors.New("no service can be asked here")

// Judge asks the service about the text, or about each of them if that is replaced.
func (c *check) Judge(ctx context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	switch {
	case s.Services == nil:
		return guardrails.Result{}, errServices
	case c.judges == calls && s.Phase != guardrails.Input:
		return guardrails.Result{}, errors.New(c.id + " judges only calls")
	case c.judges == answers && s.Phase != guardrails.Output:
		return guardrails.Result{}, errors.New(c.id + " judges only answers")
	}
	each := c.redact || c.oneByOne
	texts := s.Texts
	switch {
	case c.takes != nil:
		texts = []string{c.takes(c, s)}
	case !each:
		texts = []string{s.Text()}
	}
	if !slices.ContainsFunc(texts, func(text string) bool { return text != "" }) {
		return guardrails.Result{}, guardrails.ErrNoText
	}
	settings, err := c.settings(s.Services)
	if err != nil {
		return guardrails.Result{}, err
	}
	var all finding
	var fixed []string
	bad, asked := false, 0
	for i, text := range texts {
		if text == "" {
			continue
		}
		if asked++; asked > maxRequests {
			return guardrails.Result{}, guardrails.Unreadable(fmt.Sprintf("there are more than %d texts", maxRequests))
		}
		f, err := c.ask(ctx, s, settings, text)
		if err != nil {
			return guardrails.Result{}, err
		}
		all.found = all.found || f.found
		all.kinds = append(all.kinds, f.kinds...)
		switch {
		case !f.found:
		case !c.redact || !f.fixable:
			bad = true
		case f.fixed != text:
			if fixed == nil {
				fixed = append([]string(nil), s.Texts...)
			}
			fixed[i] = f.fixed
		}
	}
	return guardrails.Result{Verdict: bad == c.not, Texts: fixed, Data: explain(c.id, all, fixed != nil)}, nil
}

// explain is the data of a result.
func explain(id string, f finding, replaced bool) map[string]any {
	explanation := id + " found nothing."
	switch {
	case replaced:
		explanation = id + " found something, which was replaced."
	case f.found:
		explanation = id + " found something."
	}
	return map[string]any{"explanation": explanation, "found": names(f.kinds)}
}

// settings returns what the service has to be told: all from the parameters, or all from what
// the organisation has saved, so that a saved credential goes only where it was saved for.
func (c *check) settings(services guardrails.Services) (map[string]string, error) {
	if c.own != nil || c.vendor == nil {
		return c.own, nil
	}
	for _, name := range [...]string{c.id, c.vendor.ID} {
		saved, err := services.Settings(name)
		if err != nil || saved != nil {
			return saved, err
		}
	}
	for i := range c.vendor.Settings {
		if c.vendor.Settings[i].Required {
			return nil, &guardrails.ParameterError{Name: guardrails.Credentials, Message: "required, as the organisation has saved none for " + c.vendor.ID}
		}
	}
	return nil, nil //nolint:nilnil // the vendor needs none
}

// ask asks about one text.
func (c *check) ask(ctx context.Context, s *guardrails.Subject, settings map[string]string, text string) (finding, error) {
	q, err := c.request(s, settings, text)
	if err != nil {
		return finding{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if c.authorize != nil {
		if err := c.authorize(ctx, c, s.Services, settings, q); err != nil {
			return finding{}, err
		}
	}
	var f finding
	err = send(ctx, s.Services, q, c.timeout, func(body []byte) error {
		if !gjson.ValidBytes(body) {
			return errors.New(c.id + " was answered with what is not JSON")
		}
		f, err = c.read(&answer{gjson.ParseBytes(body), c, s, text})
		return err
	})
	var refused *statusError
	if errors.As(err, &refused) && refused.ofText() {
		err = guardrails.Unreadable(err.Error())
	}
	return f, err
}

// isKindName reports whether a name may be that of a category: at most 64 letters, digits, spaces
// and _/.:&'-, of which the first is a letter or a digit.
func isKindName(name string) bool {
	for i, c := range name {
		if !unicode.IsLetter(c) && !unicode.IsNumber(c) && (i == 0 || !strings.ContainsRune(" _/.:&'-", c)) {
			return false
		}
	}
	return name != "" && utf8.RuneCountInString(name) <= 64
}

// names returns the names of categories once each, without what is none.
func names(list []string) []string {
	seen, all := make(map[string]bool), []string{}
	for _, name := range list {
		if !seen[name] && isKindName(name) && len(all) < maxKinds {
			seen[name] = true
			all = append(all, name)
		}
	}
	return all
}

// Interface guards
var (
	_ guardrails.Waiter      = (*check)(nil)
	_ guardrails.Waiter      = redacting{}
	_ guardrails.Transformer = redacting{}
)
