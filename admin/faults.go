package admin

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/validation"
)

// Huma creates errors with a package variable. Other plugins in the same binary may use
// huma, too, so only operations of this package use this envelope.
func init() {
	others := huma.NewErrorWithContext
	huma.NewErrorWithContext = func(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
		if ctx == nil || ctx.Operation() == nil || ctx.Operation().Metadata[ours] == nil {
			return others(ctx, status, msg, errs...)
		}
		return fromHuma(ctx.Operation(), status, msg, errs).at(ctx.Operation().Path)
	}
}

// unread says why a body was not read, by status; "": as huma does.
var unread = map[int]string{
	http.StatusRequestEntityTooLarge: fmt.Sprintf("The body is too large, expected at most %d bytes", maxBody),
	http.StatusRequestTimeout:        "The body did not arrive in time",
}

const (
	maxFaults = 8   // that an error names
	maxField  = 512 // of a fault, in bytes, and of what is wrong with it
)

// A fault is a field of a request, and what was expected of it.
type fault struct{ field, message string }

// fromHuma converts huma's errors for a request. It omits the values that huma
// includes, which may be secret.
func fromHuma(op *huma.Operation, status int, msg string, errs []error) *Error {
	for _, err := range errs {
		var known *Error
		if errors.As(err, &known) {
			return known
		}
	}
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	msg = cmp.Or(unread[status], msg)
	if msg == "request body is required" {
		msg = "body: expected JSON, got nothing"
	}
	var faults []fault
	for _, err := range errs {
		var detail *huma.ErrorDetail
		if errors.As(err, &detail) {
			faults = append(faults, faultsOf(op, detail)...)
		}
	}
	var texts []string
	for _, f := range faults[:min(len(faults), maxFaults)] {
		texts = append(texts, audit.Shorten(f.field, maxField)+": "+audit.Shorten(f.message, maxField))
	}
	if n := len(faults) - maxFaults; n > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", n))
	}
	if len(texts) > 0 {
		msg = strings.Join(texts, "; ")
	}
	return failure(status, "%s", msg)
}

// A bodyError says why a body is not JSON, or not that of its operation.
type bodyError fault

func (e *bodyError) Error() string { return e.field + bodyErrorMark + e.message }

// bodyErrorMark is between the field and the message of a bodyError, of which huma keeps the text. Neither of them has one.
const bodyErrorMark = "\x00"

// misread converts an error of the JSON decoder.
func misread(err error) error {
	if err == nil {
		return nil
	}
	field, message := validation.Misread(err)
	return &bodyError{cmp.Or(field, "body"), message}
}

// faultsOf converts what huma says about a field. Of an object that lacks a member, that is the field.
func faultsOf(op *huma.Operation, detail *huma.ErrorDetail) []fault {
	if field, message, ok := strings.Cut(detail.Message, bodyErrorMark); ok {
		return []fault{{field, message}}
	}
	field, inBody := strings.CutPrefix(detail.Location, "body")
	switch {
	case inBody && field == "":
		field = "body"
	case inBody: // .name, or [0] of a body that is an array
		field = strings.TrimPrefix(field, ".")
	default: // query. or path.
		if _, name, ok := strings.Cut(field, "."); ok {
			field = name
		}
	}
	if strings.HasPrefix(detail.Message, huma.ErrUnknownContentType.Error()) {
		return []fault{{"content-type", "expected application/json"}}
	}
	if m := requiredMember.FindStringSubmatch(detail.Message); m != nil {
		if field == "body" {
			field = ""
		}
		return []fault{{strings.TrimPrefix(field+"."+m[1], "."), "required"}}
	}
	if strings.HasPrefix(detail.Message, "expected value to match") && inBody {
		return ofAlternatives(op, field, detail)
	}
	return []fault{{field, plainly(detail.Message)}}
}

// requiredMember matches huma's message about a member that an object lacks.
var requiredMember = regexp.MustCompile(`^expected required property (\S+) to be present$`)

// plain are huma's messages, and what they are in plain words. Numbers in them are written without exponents.
var plain = []struct {
	is    *regexp.Regexp
	words string
}{
	{regexp.MustCompile(`^unexpected property$`), "unknown member"},
	{regexp.MustCompile(`^expected string$`), "expected a text"},
	{regexp.MustCompile(`^expected boolean$|^invalid boolean$`), "expected true or false"},
	{regexp.MustCompile(`^expected integer$|^invalid integer$`), "expected a whole number"},
	{regexp.MustCompile(`^expected number$|^invalid float(?:ing value)?$`), "expected a number"},
	{regexp.MustCompile(`^expected array$`), "expected an array"},
	{regexp.MustCompile(`^expected object$`), "expected an object"},
	{regexp.MustCompile(`^expected value to be one of "(.*)"$`), "expected one of $1"},
	{regexp.MustCompile(`^expected number >= (.*)$`), "expected at least $1"},
	{regexp.MustCompile(`^expected number <= (.*)$`), "expected at most $1"},
	{regexp.MustCompile(`^expected number > (.*)$`), "expected more than $1"},
	{regexp.MustCompile(`^expected number < (.*)$`), "expected less than $1"},
	{regexp.MustCompile(`^expected length >= 1$`), "expected at least 1 character"},
	{regexp.MustCompile(`^expected length >= (.*)$`), "expected at least $1 characters"},
	{regexp.MustCompile(`^expected length <= (.*)$`), "expected at most $1 characters"},
	{regexp.MustCompile(`^expected array length >= 1$`), "expected at least 1 element"},
	{regexp.MustCompile(`^expected array length >= (.*)$`), "expected at least $1 elements"},
	{regexp.MustCompile(`^expected array length <= (.*)$`), "expected at most $1 elements"},
	{regexp.MustCompile(`^expected object with (at (?:least|most) .*) properties$`), "expected $1 members"},
	{regexp.MustCompile(`^expected array items to be unique$`), "expected each element once"},
	{regexp.MustCompile(`^expected string to match pattern (.*)$`), "expected a text that matches $1"},
	{regexp.MustCompile(`^expected string to be RFC 3339 date$`), "expected a date such as 2026-01-31"},
	{regexp.MustCompile(`RFC 3339 date-time|2006-01-02|parsing time|date/time for format`), "expected a time such as 2026-01-31T12:00:00Z"},
	{regexp.MustCompile(`^expected string to be RFC 5322 email.*$`), "expected an email address"},
	{regexp.MustCompile(`^expected string to be RFC 3986 uri.*$`), "expected a URL"},
	{regexp.MustCompile(`^expected string to be RFC 4122 uuid.*$`), "expected a UUID"},
	{regexp.MustCompile(`^required (?:query|path|header) parameter is missing$`), "required"},
	{regexp.MustCompile(`^expected at most one value, but received multiple values$`), "it is given twice"},
}

// exponent matches numbers as fmt writes large ones.
var exponent = regexp.MustCompile(`-?\d(?:\.\d+)?e\+\d+`)

// plainly returns a message of huma's in plain words.
func plainly(message string) string {
	for _, p := range plain {
		if m := p.is.FindStringSubmatchIndex(message); m != nil {
			message = string(p.is.ExpandString(nil, p.words, message, m))
			break
		}
	}
	return exponent.ReplaceAllStringFunc(message, func(s string) string {
		n, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return s
		}
		return strconv.FormatFloat(n, 'f', -1, 64)
	})
}

// ofAlternatives says what is wrong with a value that may be of several kinds: what is wrong with one of its kind, if there
// is one alternative of it, or else which kinds there are.
func ofAlternatives(op *huma.Operation, field string, detail *huma.ErrorDetail) []fault {
	registry, _ := op.Metadata[ours].(huma.Registry)
	s := bodySchema(op, registry, field)
	switch {
	case s == nil:
		return []fault{{field, "expected another value"}}
	case len(s.OneOf) > 0 && s.OneOf[0].Type == huma.TypeBoolean: // a flag, which old clients send in other forms
		return []fault{{field, "expected true or false"}}
	}
	var same []*huma.Schema
	var words []string
	for _, one := range slices.Concat(s.OneOf, s.AnyOf) {
		one = resolved(registry, one)
		if kindOf(detail.Value) == one.Type || kindOf(detail.Value) == huma.TypeInteger && one.Type == huma.TypeNumber {
			same = append(same, one)
		}
		if word := described(registry, one); !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	if len(same) == 1 {
		var inner huma.ValidateResult
		at := []byte(detail.Location)
		huma.Validate(registry, same[0], huma.NewPathBuffer(at, len(at)), huma.ModeWriteToServer, detail.Value, &inner)
		var faults []fault
		for _, err := range inner.Errors {
			var d *huma.ErrorDetail
			if !errors.As(err, &d) {
				continue
			}
			if d.Location == detail.Location && s.OneOf != nil && len(s.OneOf) > 1 && kindOf(detail.Value) != huma.TypeObject && kindOf(detail.Value) != huma.TypeArray {
				return []fault{{field, "expected " + strings.Join(words, " or ")}} // the other kinds would do, too
			}
			faults = append(faults, faultsOf(op, d)...)
		}
		if len(faults) > 0 {
			return faults
		}
	}
	return []fault{{field, "expected " + strings.Join(words, " or ")}}
}

// described is what a value of a schema is.
func described(registry huma.Registry, s *huma.Schema) string {
	switch {
	case len(s.Enum) > 0:
		words := make([]string, len(s.Enum))
		for i, v := range s.Enum {
			words[i] = fmt.Sprint(v)
		}
		return strings.Join(words, " or ")
	case s.Type == huma.TypeInteger && s.Minimum != nil && s.Maximum != nil:
		return fmt.Sprintf("a whole number from %v to %v", *s.Minimum, *s.Maximum)
	case s.Type == huma.TypeArray && s.Items != nil:
		if items := resolved(registry, s.Items); items.Type == huma.TypeString || items.Type == huma.TypeObject {
			return "an array of " + map[string]string{huma.TypeString: "texts", huma.TypeObject: "objects"}[items.Type]
		}
	}
	return map[string]string{
		huma.TypeString: "a text", huma.TypeBoolean: "true or false", huma.TypeInteger: "a whole number", huma.TypeNumber: "a number",
		huma.TypeArray: "an array", huma.TypeObject: "an object",
	}[s.Type]
}

// kindOf returns the type of a value that was read as JSON.
func kindOf(v any) string {
	switch v := v.(type) {
	case string:
		return huma.TypeString
	case bool:
		return huma.TypeBoolean
	case float64:
		if v == float64(int64(v)) {
			return huma.TypeInteger
		}
		return huma.TypeNumber
	case []any:
		return huma.TypeArray
	case map[string]any:
		return huma.TypeObject
	}
	return ""
}

// steps are the names and indexes of a field such as workspaces[1].id.
var steps = regexp.MustCompile(`\[\d+\]|[^.\[\]]+`)

// bodySchema returns the schema of a field of an operation's body, or nil.
func bodySchema(op *huma.Operation, registry huma.Registry, field string) *huma.Schema {
	if op.RequestBody == nil || registry == nil || op.RequestBody.Content["application/json"] == nil {
		return nil
	}
	s := resolved(registry, op.RequestBody.Content["application/json"].Schema)
	if field == "body" {
		return s
	}
	for _, step := range steps.FindAllString(field, -1) {
		switch {
		case s == nil:
			return nil
		case step[0] == '[':
			s = s.Items
		case s.Properties[step] != nil:
			s = s.Properties[step]
		default:
			s, _ = s.AdditionalProperties.(*huma.Schema)
		}
		s = resolved(registry, s)
	}
	return s
}

// resolved returns the schema that a reference is to.
func resolved(registry huma.Registry, s *huma.Schema) *huma.Schema {
	for s != nil && s.Ref != "" {
		s = registry.SchemaFromRef(s.Ref)
	}
	return s
}

// element names a member of an element of a list: models[1].slug.
func element(list string, i int, member string) string {
	field := fmt.Sprintf("%s[%d]", list, i)
	if member != "" {
		field += "." + member
	}
	return field
}
