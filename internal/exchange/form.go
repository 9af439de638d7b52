package exchange

import (
	"errors"
	"io"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"github.com/caddy-gw/gateway/internal/forms"
	"github.com/caddy-gw/gateway/internal/validation"
)

// A form is what was read of a form that passes through, up to its model. Only the model of a form is read and
// changed, in place.
type form struct {
	boundary string

	model      string
	start, end int  // of the model's value
	found      bool // it has a model
	over       bool // it ended, and has none
	settled    bool // no model is looked for any more, but a second one is refused

	inModel bool // the value of the model is read
	value   []byte
}

// Part implements [forms.Visitor].
func (f *form) Part(p *forms.Part, at int64) error {
	switch {
	case !likeModel(p.Name):
	case f.found:
		return errModel
	case f.settled:
	case p.Name != "model" || p.File || !plainText(p): // providers may differ in whether that is the model
		f.settled = true
	default:
		f.inModel, f.start = true, int(at)
	}
	return nil
}

// Data implements [forms.Visitor].
func (f *form) Data(b []byte) error {
	if f.inModel {
		f.value = append(f.value, b[:min(len(b), maxModel+1-len(f.value))]...)
	}
	return nil
}

// End implements [forms.Visitor].
func (f *form) End(at int64) error {
	if f.inModel {
		f.inModel, f.found, f.end, f.model = false, true, int(at), string(f.value)
	}
	return nil
}

// Done implements [forms.Visitor].
func (f *form) Done() error {
	if !f.settled {
		f.over = !f.found
	}
	return nil
}

// known reports whether no more of the form has to be read.
func (f *form) known() bool { return f.found || f.over || f.settled }

// settle ends the search for the model. From then on others may read what was found.
func (f *form) settle() { f.settled, f.inModel, f.value = true, false, nil }

// likeModel reports whether a provider might take a field of this name for the model.
func likeModel(name string) bool {
	if plain, err := url.PathUnescape(name); err == nil {
		name = plain
	}
	letters := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
	return letters == "model"
}

// plainText reports whether the value of a part is text in UTF-8.
func plainText(p *forms.Part) bool {
	// Java clients declare ASCII text as Latin-1.
	return p.ContentType == "" || p.Media == "text/plain" && (utf8Charset(p.Charset) || p.Charset == "iso-8859-1")
}

// part returns a part of the form with the model.
func (f *form) part(model string) string {
	return "--" + f.boundary + "\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n" + model + "\r\n"
}

// readForm reads a form up to its model, as far as the spool keeps it.
func (p *preparation) readForm(f *form) *Error {
	refusal := p.Body.peek(func([]byte) bool { return f.known() })
	f.settle()
	if refusal != nil {
		return refusal
	}
	p.Body.form = f
	if len(f.model) > maxModel {
		return badRequest("model", validation.StringAboveMax, "Invalid value for 'model': longer than "+strconv.Itoa(maxModel)+" bytes.")
	}
	p.Model = f.model
	return nil
}

// errModel refuses a form whose provider might read another model than the one that was
// routed and counted.
var errModel = errors.New("expected the field model once, as text in UTF-8")

// formRefusal refuses a form that turned out to be wrong while it passed. It returns nil for other errors.
func formRefusal(err error) (e *Error) {
	param := ""
	switch {
	case errors.Is(err, forms.ErrParts):
		e = badRequest("", "too_many_parts", "Invalid form passed: it has more than "+strconv.Itoa(forms.MaxParts)+" parts")
		e.Caller = true
		return e
	case errors.Is(err, errModel):
		param = "model"
	case !ofTheForm(err):
		return nil
	}
	e = badRequest(param, "invalid_form", "Invalid form passed: "+err.Error())
	e.Caller = true
	return e
}

// ofTheForm reports whether a body ended since it is not a form that all read alike.
func ofTheForm(err error) bool {
	return errors.Is(err, errModel) || errors.Is(err, errNaming) || errors.Is(err, forms.ErrParts) || errors.As(err, new(*forms.Error))
}

// spliced is a body with a part replaced.
type spliced struct {
	io.Reader
	before, after *spoolReader
}

func (s *spliced) Close() error {
	_ = s.before.Close() // it returns nil
	return s.after.Close()
}
