package chat

import (
	"bytes"
	"encoding/base64"
	"net/url"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// content reads a string, or an array of parts. Text parts without text are dropped.
func (p *parser) content() (parts []Part) {
	r := p.r
	if r.Kind() == jsonscan.String {
		return []Part{{Text: r.String()}}
	}
	Contents(r, func() {
		if r.Kind() == jsonscan.String {
			parts = append(parts, Part{Text: r.String()})
			return
		}
		part := p.part()
		if part.Text != nil || part.Kind != Text && part.Kind != Refusal {
			parts = append(parts, part)
		}
	})
	return parts
}

var partKinds = map[string]PartKind{
	"text": Text, "input_text": Text, "output_text": Text, "image_url": Image, "input_image": Image, "file": File, "input_audio": Audio,
	"document_url": File, // Mistral
	"thinking":     Thinking, "redacted_thinking": Redacted, "refusal": Refusal,
}

// A partReader reads one element of a content array.
type partReader struct {
	*parser
	part               Part
	kind, source, data Literal
}

func (p *parser) part() Part {
	r := p.r
	start := r.Peek()
	read := &partReader{parser: p}
	r.Object(read.member)
	part := &read.part
	kind, known := partKinds[read.kind.Text()]
	switch {
	case known:
		part.Kind = kind
	case read.kind == nil && part.Text != nil: // it has text and no type
		part.Kind = Text
	default:
		return Part{Kind: Other, Other: r.Since(start)}
	}
	if read.data != nil {
		part.SetData(read.data)
	}
	part.SetURL(read.source)
	return *part
}

func (p *partReader) member(key jsonscan.Key) {
	r, part := p.r, &p.part
	switch string(key.Bytes()) {
	case "type":
		p.kind = r.String()
	case "text", "refusal":
		part.Text = r.String()
	case "thinking":
		if r.Kind() == jsonscan.Array { // Mistral
			part.Text = JoinText(p.content())
			return
		}
		part.Text = r.String()
	case "signature":
		part.Signature = r.String()
	case "data":
		p.data = r.String()
	case "cache_control":
		part.Cache = r.Value()
	case "image_url", "document_url":
		p.url()
	case "document_name":
		part.Name = r.String()
	case "file":
		r.Object(p.file)
	case "file_id": // Mistral
		part.FileID = r.String()
	case "input_audio":
		if r.Kind() == jsonscan.String { // Mistral
			p.source = r.String()
			return
		}
		r.Object(func(key jsonscan.Key) {
			switch {
			case key.Is("data"):
				p.data = r.String()
			case key.Is("format"):
				part.MediaType = "audio/" + Literal(r.String()).Text()
			}
		})
	}
}

// url reads the location of an image or a document: a string, or an object.
func (p *partReader) url() {
	r := p.r
	if r.Kind() == jsonscan.String {
		p.source = r.String()
		return
	}
	r.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("url"):
			p.source = r.String()
		case key.Is("detail"):
			p.part.Detail = r.String()
		}
	})
}

func (p *partReader) file(key jsonscan.Key) {
	r, part := p.r, &p.part
	switch string(key.Bytes()) {
	case "file_data", "file_url":
		if s := r.String(); s != nil {
			p.source = s
		}
	case "file_id":
		part.FileID = r.String()
	case "filename":
		part.Name = r.String()
	case "mime_type":
		part.MediaType = MediaType(Literal(r.String()).Text())
	}
}

// SetURL sets the source of a part: a URL, or the data of a data URI.
func (p *Part) SetURL(source Literal) {
	inside := jsonscan.Inside(source)
	if len(inside) < 5 || !strings.EqualFold(string(inside[:5]), "data:") {
		switch {
		case source == nil:
		case p.Kind != Image && !isURL(inside): // some clients send plain base64
			p.SetData(source)
		default:
			p.URL = source
		}
		return
	}
	media, data, _ := bytes.Cut(inside[5:], []byte(","))
	mediaType := plain(media)
	isBase64 := false
	if i := strings.LastIndexByte(mediaType, ';'); i >= 0 && strings.EqualFold(mediaType[i:], ";base64") {
		mediaType, isBase64 = mediaType[:i], true
	}
	if mediaType, _, _ = strings.Cut(mediaType, ";"); mediaType != "" {
		p.MediaType = MediaType(mediaType)
	} else if p.MediaType == "" && p.Kind != Image {
		p.MediaType = "text/plain"
	}
	if isBase64 {
		p.Data = unescaped(data)
		return
	}
	text, err := url.PathUnescape(plain(data))
	if err != nil {
		text = plain(data)
	}
	p.Data = []byte(base64.StdEncoding.EncodeToString([]byte(text)))
}

// MediaType returns the registered name of a media type, since providers refuse aliases.
func MediaType(s string) string {
	s = strings.ToLower(s)
	if registered, ok := mediaTypes[s]; ok {
		return registered
	}
	return s
}

var mediaTypes = map[string]string{
	"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png", "application/x-pdf": "application/pdf",
}

// SetData sets the content of a part to base64 data, given as a string of a body.
func (p *Part) SetData(l Literal) { p.Data = unescaped(jsonscan.Inside(l)) }

// SetText sets the content of a document to text.
func (p *Part) SetText(l Literal) {
	p.Data = []byte(base64.StdEncoding.EncodeToString([]byte(l.Text())))
}

// PlainText returns the text of a plain text document, for providers that do not accept
// such documents.
func (p *Part) PlainText() (text string, ok bool) {
	if p.Kind != File || p.Data == nil || !strings.HasPrefix(p.MediaType, "text/") {
		return "", false
	}
	b, err := base64.StdEncoding.AppendDecode(nil, p.Data)
	return string(b), err == nil
}

func isURL(s []byte) bool { return bytes.IndexByte(s[:min(len(s), 16)], ':') >= 0 }

// unescaped returns base64 data without escapes: some clients escape its slashes. It
// returns nil if it is not base64.
func unescaped(inside []byte) []byte {
	if bytes.IndexByte(inside, '\\') < 0 {
		return inside
	}
	return jsonscan.AppendEscaped(nil, plain(inside))
}

// plain decodes the inside of a string.
func plain(inside []byte) string {
	if bytes.IndexByte(inside, '\\') < 0 {
		return string(inside)
	}
	return jsonscan.Unquote(slices.Concat([]byte{'"'}, inside, []byte{'"'}))
}

// JoinText joins the text of all text parts.
func JoinText(parts []Part) Literal {
	var one Literal
	texts, size := 0, 2
	for i := range parts {
		if k := parts[i].Kind; (k == Text || k == Refusal) && !parts[i].Text.Empty() {
			one = parts[i].Text
			texts, size = texts+1, size+len(one)
		}
	}
	switch texts {
	case 0:
		return Literal(`""`)
	case 1:
		return one
	}
	joined := append(make(Literal, 0, size), '"')
	for i := range parts {
		if k := parts[i].Kind; k == Text || k == Refusal {
			joined = append(joined, jsonscan.Inside(parts[i].Text)...)
		}
	}
	return append(joined, '"')
}
