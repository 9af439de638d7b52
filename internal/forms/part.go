package forms

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Part is what the header of a part says.
type Part struct {
	Name        string // of the field
	File        bool   // it has the name of a file
	ContentType string // as it was sent; "": none
	Media       string // of the content type, in lower case
	Charset     string // of the content type, in lower case; "": none
}

// partOf reads the header of a part, without the empty line behind it. length is what the part says of its value's
// length; negative: nothing.
func partOf(header string) (p Part, length int64, err error) {
	length = -1
	seen := make(map[string]bool)
	for line := range strings.SplitSeq(header, "\r\n") {
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" || tokenOf(name) < len(name) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return p, 0, errLines
		}
		name, value = strings.ToLower(name), strings.Trim(value, " ")
		if seen[name] {
			return p, 0, errLines
		}
		seen[name] = true
		switch name {
		case "content-disposition":
			err = p.disposed(value)
		case "content-type":
			err = p.typed(value)
		case "content-transfer-encoding":
			switch strings.ToLower(value) {
			case "7bit", "8bit", "binary":
			default:
				err = errEncoding
			}
		case "content-length": // which OkHttp sends
			if length, err = strconv.ParseInt(value, 10, 64); err != nil || length < 0 || strconv.FormatInt(length, 10) != value {
				err = errPartLength
			}
		}
		if err != nil {
			return p, 0, err
		}
	}
	if !seen["content-disposition"] {
		return p, 0, errDisposition
	}
	return p, length, nil
}

// extended is the value of filename* (RFC 5987).
var extended = regexp.MustCompile("^(?i:utf-8)'[A-Za-z0-9-]*'([A-Za-z0-9!#$&+.^_`|~-]|%[0-9A-Fa-f]{2})*$")

func (p *Part) disposed(v string) error {
	media, rest := cutMedia(v)
	all, ok := parameters(rest)
	name, named := all["name"]
	if media != "form-data" || !ok || !named {
		return errDisposition
	}
	for param, value := range all {
		switch param {
		case "name":
		case "filename": // there are parsers that split parameters at each semicolon
			if i := strings.IndexByte(value, ';'); i >= 0 && strings.Contains(value[i:], "=") {
				return errFilename
			}
			p.File = true
		case "filename*":
			if !extended.MatchString(value) {
				return errFilename
			}
			p.File = true
		default:
			return errDisposition
		}
	}
	// The field _charset_ says how the values of the others are encoded.
	if !utf8.ValidString(name) || strings.ContainsAny(name, `\;`) || strings.Contains(name, "=?") || strings.EqualFold(name, "_charset_") {
		return errName
	}
	p.Name = name
	return nil
}

func (p *Part) typed(v string) error {
	media, rest := cutMedia(v)
	all, ok := parameters(rest)
	if !ok || strings.HasPrefix(media, "multipart") || strings.HasPrefix(media, "message") ||
		strings.ContainsFunc(media, func(r rune) bool { return r != '/' && tokenOf(string(r)) == 0 }) || media == "" && rest != "" {
		return errPartType
	}
	for name, value := range all {
		if strings.Contains(name, "*") || strings.Contains(value, `\`) {
			return errPartType
		}
	}
	p.ContentType, p.Media, p.Charset = v, media, strings.ToLower(all["charset"])
	return nil
}
