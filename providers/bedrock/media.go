package bedrock

import (
	"mime"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/providers/chat"
)

// A medium describes how Converse represents a kind of content other than text.
type medium struct {
	block   string
	word    string            // used in error messages
	formats []string          // accepted formats
	byType  map[string]string // the format of a media type, if it is not its subtype
	usual   string            // the default format
}

var media = map[chat.PartKind]medium{
	chat.Image: {"image", "images", []string{"png", "jpeg", "gif", "webp"}, map[string]string{"image/jpg": "jpeg"}, "png"},
	chat.File: {"document", "documents", []string{"pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"}, map[string]string{
		"application/msword": "doc",
		"application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
		"application/vnd.ms-excel": "xls",
		"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
		"text/plain":    "txt",
		"text/markdown": "md",
	}, "pdf"},
	chat.Audio: {"audio", "audio", []string{
		"mp3", "opus", "wav", "aac", "flac", "mp4", "ogg", "mkv", "mka", "x-aac", "m4a", "mpeg", "mpga", "pcm", "webm",
	}, nil, ""},
}

// media writes a part other than text: its bytes, or its location in S3. Converse fetches
// nothing else.
func (w *writer) media(p *chat.Part, at string) error {
	m := media[p.Kind]
	param := at + ".content"
	location := p.URL.Text()
	switch {
	case p.FileID != nil:
		return &chat.Unsupported{Param: param, Message: "Bedrock holds no files: send " + m.word + " as data, not as file_id"}
	case p.URL != nil && !strings.HasPrefix(location, "s3://"):
		return &chat.Unsupported{Param: param, Message: "Bedrock fetches no URLs: send " + m.word + " as a data: URI with base64, or name an s3:// location"}
	}
	format := m.format(p, location)
	if format == "" {
		return &chat.Unsupported{Param: param, Message: "Bedrock takes " + m.word + " of the formats " + strings.Join(m.formats, ", ") + " only"}
	}
	w.Open('{')
	w.Key(m.block).Open('{')
	w.Key("format").Text(format)
	if p.Kind == chat.File {
		w.Key("name").Text(w.documentName(p, location))
	}
	w.Key("source").Open('{')
	if p.URL != nil {
		w.Key("s3Location").Open('{')
		w.Key("uri").Raw(p.URL)
		w.Close('}')
	} else {
		w.Key("bytes").Quoted(p.Data)
	}
	w.Close('}')
	w.Close('}')
	w.Close('}')
	return nil
}

// format returns the format of a part: by its media type, or else by its name. It is empty
// if Converse does not support it.
func (m *medium) format(p *chat.Part, location string) string {
	mediaType, _, err := mime.ParseMediaType(p.MediaType)
	if err != nil {
		mediaType = strings.ToLower(p.MediaType)
	}
	if f := m.byType[mediaType]; f != "" {
		return f
	}
	if _, f, _ := strings.Cut(mediaType, "/"); slices.Contains(m.formats, f) {
		return f
	}
	for _, name := range []string{p.Name.Text(), location} {
		f := strings.ToLower(strings.TrimPrefix(path.Ext(name), "."))
		switch f {
		case "jpg":
			f = "jpeg"
		case "htm":
			f = "html"
		}
		if slices.Contains(m.formats, f) {
			return f
		}
	}
	if mediaType == "" && location == "" {
		return m.usual
	}
	return ""
}

const maxName = 200 // characters of a document's name

// documentName returns a valid and unique name for Converse: letters, digits, hyphens,
// brackets, and single spaces.
func (w *writer) documentName(p *chat.Part, location string) string {
	name := p.Name.Text()
	if name == "" {
		name = path.Base(location)
	}
	name = strings.TrimSuffix(name, path.Ext(name))
	name = strings.Map(func(r rune) rune {
		if r < 0x80 && (letterOrDigit(byte(r)) || strings.ContainsRune("-()[]", r)) {
			return r
		}
		return ' '
	}, name)
	name = strings.Join(strings.Fields(name), " ")
	if name = strings.TrimSpace(name[:min(len(name), maxName-8)]); name == "" {
		name = "document"
	}
	if w.names == nil {
		w.names = make(map[string]bool)
	}
	one := name
	for n := 2; w.names[one]; n++ {
		one = name + " (" + strconv.Itoa(n) + ")"
	}
	w.names[one] = true
	return one
}
