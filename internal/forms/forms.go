// Package forms reads multipart forms (RFC 7578) in the one spelling that all parsers read alike. Parsers differ
// in what they make of any other, so that a form which was checked could be another one to the server that it is
// for: it is refused.
//
// The content type has one parameter, the boundary. The body begins with a delimiter, and ends with the closing one.
// The delimiter is on lines of its own, ended by CRLF, and stands nowhere else. The header of each part has
// lines of the form "Name: value", each name once, and says with Content-Disposition what the part's field is called.
package forms

import (
	"errors"
	"strconv"
	"strings"
)

// Bounds of a form.
const (
	MaxParts  = 1000    // each costs as much as a large text does
	MaxHeader = 8 << 10 // bytes of the header of a part

	maxBoundary = 70 // bytes (RFC 2046, section 5.1.1)
)

// ErrParts refuses a form of more than MaxParts parts.
var ErrParts = errors.New("a form of more than " + strconv.Itoa(MaxParts) + " parts")

// An Error says what was expected of a form that parsers may read in different ways.
type Error struct{ Expected string }

func (e *Error) Error() string { return "expected " + e.Expected }

var (
	errContentType = &Error{"multipart/form-data with a boundary, of up to " + strconv.Itoa(maxBoundary) + " of the characters of RFC 2046, given once, and no other parameter but charset=utf-8"}
	errStart       = &Error{"the form to begin with its first delimiter"}
	errDelimiter   = &Error{"the form's delimiter only on lines of its own, which end with CRLF"}
	errEnd         = &Error{"the form to end with its closing delimiter, and nothing behind it"}
	errLong        = &Error{"headers of a form's parts of at most 8 KiB"}
	errLines       = &Error{"headers of a form's parts in lines Name: value, each name once, without control characters"}
	errDisposition = &Error{`parts of a form with Content-Disposition: form-data; name="…", and no other parameters but filename and filename*`}
	errName        = &Error{"names of a form's fields in UTF-8, without backslashes, semicolons and encoded words"}
	errFilename    = &Error{`names of a form's files without ;…=, and without a backslash before a quote, and filename* in UTF-8`}
	errEncoding    = &Error{"parts of a form without a Content-Transfer-Encoding, or with 7bit, 8bit or binary"}
	errPartType    = &Error{"content types of a form's parts as type/subtype; name=value, each name once, and none of several parts"}
	errPartLength  = &Error{"parts of a form without a Content-Length, or with their own"}
)

// Is reports whether a content type is that of a form, in whatever spelling.
func Is(contentType string) bool { return strings.Contains(strings.ToLower(contentType), "form-data") }

// Boundary returns the boundary of a form with this content type. The error is an *Error.
func Boundary(contentType string) (string, error) {
	media, rest := cutMedia(contentType)
	all, ok := parameters(rest)
	if !ok || media != "multipart/form-data" {
		return "", errContentType
	}
	boundary := all["boundary"]
	delete(all, "boundary")
	if charset, has := all["charset"]; has && strings.EqualFold(charset, "utf-8") { // as Apache's HttpClient says
		delete(all, "charset")
	}
	if len(all) > 0 || boundary == "" || len(boundary) > maxBoundary || strings.ContainsFunc(boundary, notInBoundary) {
		return "", errContentType
	}
	return boundary, nil
}

// ContentType returns the content type of a form with a boundary, in its one spelling.
func ContentType(boundary string) string {
	if tokenOf(boundary) == len(boundary) {
		return "multipart/form-data; boundary=" + boundary
	}
	return `multipart/form-data; boundary="` + boundary + `"`
}

// notInBoundary says which characters a boundary does not have. RFC 2046 allows spaces, too, which some parsers trim.
func notInBoundary(r rune) bool {
	return !alphanumeric(r) && !strings.ContainsRune("'()+_,-./:=?", r)
}

func alphanumeric(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// cutMedia returns the value of a header before its parameters, in lower case, and them.
func cutMedia(v string) (media, parameters string) {
	i := strings.IndexByte(v, ';')
	if i < 0 {
		i = len(v)
	}
	return strings.ToLower(strings.Trim(v[:i], " ")), v[i:]
}

// parameters reads parameters of a header, each of which begins with a semicolon, by their names in lower case. They
// are not ok if a name is there twice, if they are malformed, or if parsers may differ in where a value ends.
func parameters(s string) (all map[string]string, ok bool) {
	all = make(map[string]string)
	for s != "" {
		if s[0] != ';' {
			return nil, false
		}
		s = strings.TrimLeft(s[1:], " ")
		n := tokenOf(s)
		name := strings.ToLower(s[:n])
		s, ok = strings.CutPrefix(s[n:], "=")
		if _, twice := all[name]; n == 0 || twice || !ok {
			return nil, false
		}
		if quoted, is := strings.CutPrefix(s, `"`); is {
			var value string
			// To some parsers a backslash escapes the quote, to others it does not.
			if value, s, ok = strings.Cut(quoted, `"`); !ok || strings.HasSuffix(value, `\`) {
				return nil, false
			}
			all[name] = value
		} else {
			if n = tokenOf(s); n == 0 {
				return nil, false
			}
			all[name], s = s[:n], s[n:]
		}
		s = strings.TrimLeft(s, " ")
	}
	return all, true
}

// tokenOf returns how many bytes at the beginning of s are a token (RFC 9110).
func tokenOf(s string) int {
	n := strings.IndexFunc(s, func(r rune) bool { return !alphanumeric(r) && !strings.ContainsRune("!#$%&'*+-.^_`|~", r) })
	if n < 0 {
		return len(s)
	}
	return n
}
