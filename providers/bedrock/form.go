package bedrock

import (
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/internal/forms"
	"github.com/caddy-gw/gateway/providers"
)

// A form is the body of an upload (RFC 7578).
type form struct {
	src           *tracked
	parts         *multipart.Reader
	purpose, name string
}

// tracked remembers the error that ended the client's body.
type tracked struct {
	io.Reader
	err error
}

func (t *tracked) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		t.err = err
	}
	return n, err
}

func openForm(c *providers.Call) (*form, error) {
	boundary, err := forms.Boundary(c.Header("Content-Type"))
	if err != nil || c.Upload == nil {
		return nil, &providers.RequestError{Param: "file", Code: "missing_required_parameter", Message: "Missing required parameter: 'file'. Send a form (multipart/form-data) with purpose and file"}
	}
	src := &tracked{Reader: c.Upload}
	// What the strict reader lets pass, multipart reads as the gateway's own checks did.
	return &form{src: src, parts: multipart.NewReader(forms.NewReader(src, boundary, -1), boundary)}, nil
}

// errorOf returns the cause of an error in the form: the client's body, or its content.
func (f *form) errorOf(err error) error {
	var refusal *providers.RequestError
	switch {
	case err == nil || errors.As(err, &refusal):
		return err
	case f.src.err != nil:
		return &providers.UploadError{Err: f.src.err}
	}
	if errors.Is(err, forms.ErrParts) {
		return &providers.RequestError{Param: "file", Code: "too_many_parts", Message: "Invalid form passed: it has more than " + strconv.Itoa(forms.MaxParts) + " parts"}
	}
	message := "it cannot be read to its end"
	if invalid, ok := errors.AsType[*forms.Error](err); ok {
		message = invalid.Error()
	}
	return &providers.RequestError{Param: "file", Code: "invalid_form", Message: "Invalid form passed: " + message}
}

// file advances to the content of the file. Files whose purpose comes after them must fit
// into one part.
func (f *form) file() (content io.Reader, err error) {
	for {
		p, err := f.parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, f.errorOf(err)
		}
		if p.FormName() != "file" {
			if err := f.field(p); err != nil {
				return nil, f.errorOf(err)
			}
			continue
		}
		if content != nil {
			return nil, &providers.RequestError{Param: "file", Code: "invalid_form", Message: "Invalid form passed: it has more than one file"}
		}
		f.name = fileName(p.FileName())
		if f.purpose != "" {
			return p, nil
		}
		var b bytes.Buffer
		if n, err := io.Copy(&b, io.LimitReader(p, partSize+1)); err != nil {
			return nil, f.errorOf(err)
		} else if n > partSize {
			return nil, &providers.RequestError{
				Param: "purpose", Code: "purpose_after_file",
				Message: "The form has no field purpose before its file, which has more than " + strconv.Itoa(partSize) + " bytes: send the field purpose before the file",
			}
		}
		content = &b
	}
	switch {
	case content == nil:
		return nil, missing("file")
	case f.purpose == "":
		return nil, missing("purpose")
	}
	return content, nil
}

func missing(name string) error {
	return &providers.RequestError{Param: name, Code: "missing_required_parameter", Message: "Missing required parameter: '" + name + "'."}
}

// field reads a form field.
func (f *form) field(p *multipart.Part) error {
	name := p.FormName()
	if strings.HasPrefix(name, "expires_after") {
		return &providers.RequestError{Param: "expires_after", Code: "unsupported_parameter", Message: "'expires_after' is not supported: rules of the bucket say how long S3 keeps a file"}
	}
	if name != "purpose" {
		return nil
	}
	v, err := io.ReadAll(io.LimitReader(p, 64))
	if err != nil {
		return err
	}
	if !validPurpose.Match(v) || string(v) == purposeOutput || f.purpose != "" && f.purpose != string(v) {
		return &providers.RequestError{Param: "purpose", Code: "invalid_value", Message: "Invalid 'purpose': expected one word, such as batch or user_data."}
	}
	f.purpose = string(v)
	return nil
}

// rest reads what follows the file.
func (f *form) rest() error {
	for {
		p, err := f.parts.NextRawPart()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case p.FormName() == "file":
			return &providers.RequestError{Param: "file", Code: "invalid_form", Message: "Invalid form passed: it has more than one file"}
		}
		if err := f.field(p); err != nil {
			return err
		}
	}
}

// fileName returns a name without characters that are problematic in keys.
func fileName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < 0x80 && (letterOrDigit(byte(r)) || strings.ContainsRune("-_.", r)) {
			return r
		}
		return '_'
	}, name)
	if name = strings.TrimLeft(name, "."); name == "" {
		return "file"
	}
	return name[max(0, len(name)-100):]
}
