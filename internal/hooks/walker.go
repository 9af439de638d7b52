package hooks

import (
	"bytes"
	"cmp"
	"strings"
	"unicode"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A walker collects the texts of a body: all strings of what it is shown, but for those that are
// not text. What it does not know is judged. Positions are those of values that were scanned
// before, so that no scan fails.
type walker struct {
	s      jsonscan.Scanner
	scope  Scope
	blocks bool // the dialect has blocks that call tools, and that are what tools return
	items  bool // the dialect has items that do
	answer bool
	spans  []Span
	calls  bool
	unread string // see [Reading]

	given      uint16 // of textMembers
	misspelled string // why a member may be taken for another; "": none may

	turns []turn
}

// A turn is a message: whose it is, and which of the spans are its.
type turn struct {
	role     string
	from, to int
	unread   string
}

func (w *walker) object(at int, visit func(key string, at int)) {
	if w.s.Kind(at) != jsonscan.Object {
		return
	}
	_, _ = w.s.Object(at, 0, func(key jsonscan.Key, at int) (int, error) {
		visit(key.String(), at)
		return w.s.Value(at, 1)
	})
}

func (w *walker) array(at int, visit func(at int)) {
	if w.s.Kind(at) != jsonscan.Array {
		return
	}
	_, _ = w.s.Array(at, 0, func(_, at int) (int, error) {
		visit(at)
		return w.s.Value(at, 1)
	})
}

// text adds the string at a position, if there is one.
func (w *walker) text(at int) {
	if raw := w.raw(at); raw != nil {
		w.spans = append(w.spans, Span{at, at + len(raw)})
	}
}

// raw is the string at a position, with its quotes, or nil.
func (w *walker) raw(at int) []byte {
	if w.s.Kind(at) != jsonscan.String {
		return nil
	}
	end, _, err := w.s.String(at)
	if err != nil {
		return nil
	}
	return w.s[at:end]
}

// member is the string in a member of the object at a position, or "".
func (w *walker) member(at int, name string) (s string) {
	w.object(at, func(key string, at int) {
		if key == name {
			s = ""
			if raw := w.raw(at); raw != nil {
				s = jsonscan.Unquote(raw)
			}
		}
	})
	return s
}

// every adds all strings in a value, apart from keys and what is not text.
func (w *walker) every(at int) { w.value("", at) }

// within adds the strings in a member that is only judged where the scope says so.
func (w *walker) within(scope bool, key string, at int) {
	if scope {
		w.value(key, at)
	}
}

// value adds the strings in the value of a member.
func (w *walker) value(key string, at int) {
	switch w.s.Kind(at) {
	case jsonscan.Array:
		w.array(at, func(at int) { w.value(key, at) })
	case jsonscan.Object:
		if !unspoken[key] {
			w.object(at, func(key string, value int) { w.memberOf(at, key, value) })
		}
	case jsonscan.String:
		w.memberOf(-1, key, at)
	}
}

// memberOf adds the strings in a member of the object at a position; none if that is below 0.
func (w *walker) memberOf(object int, key string, at int) {
	raw := w.raw(at)
	switch {
	case unspoken[key]:
	case raw == nil:
		w.value(key, at)
	case key == "data" && object >= 0 && !w.isEncoded(object):
		w.text(at)
	case key == "data" && object >= 0 && isText(w.media(object)), encoded[key] && textInBase64(raw):
		w.unread = "'" + key + "' has text in base64"
	case !opaque(key, raw):
		w.text(at)
	}
}

// media is the media type that an object says its data has, or "".
func (w *walker) media(object int) string {
	return cmp.Or(w.member(object, "media_type"), w.member(object, "mime_type"), w.member(object, "mimeType"))
}

// isEncoded reports whether the data of an object is no text as it stands.
func (w *walker) isEncoded(object int) bool {
	switch w.member(object, "type") {
	case "text":
		return false
	case "base64", "image", "audio", "redacted_thinking", "reasoning.encrypted":
		return true
	}
	media := w.media(object)
	return media != "" && !isText(media) || w.member(object, "format") != "" // of sound
}

// unspoken are the members that have nothing that a model reads or says: what repeats the texts,
// and settings.
var unspoken = map[string]bool{"logprobs": true, "cache_control": true, "obfuscation": true}

// names are the members that identify something. A text in one of them is judged.
var names = map[string]bool{
	"type": true, "role": true, "id": true, "object": true, "status": true, "phase": true, "name": true, "model": true,
	"media_type": true, "mime_type": true, "mimeType": true, "format": true, "detail": true, "language": true, "execution": true,
	"server_label": true, "server_name": true, "namespace": true, "created_by": true,
}

// sealed are the members that only the provider that made them can read.
var sealed = map[string]bool{
	"signature": true, "thought_signature": true, "encrypted_content": true, "encrypted_index": true, "encrypted_stdout": true,
}

// encoded are the members that have an address, or a picture, sound or file.
var encoded = map[string]bool{
	"data": true, "file_data": true, "b64_json": true, "result": true, "partial_image_b64": true,
	"url": true, "image_url": true, "file_url": true, "uri": true, "source": true, "citations": true,
}

const (
	maxName    = 256 // bytes; longer ones are texts
	leastCoded = 64  // bytes of base64; less is no picture
)

// opaque reports whether a string, in quotes, is not text: what identifies something, an address,
// or what is encoded.
func opaque(key string, raw []byte) bool {
	s := raw[1 : len(raw)-1]
	if bytes.IndexByte(s, '\\') >= 0 {
		s = []byte(jsonscan.Unquote(raw))
	}
	if bytes.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return false
	}
	switch {
	case len(s) == 0:
		return false
	case names[key] || strings.HasSuffix(key, "_id"):
		return len(s) <= maxName
	case sealed[key]:
		return true
	case !encoded[key]:
		return false
	case bytes.HasPrefix(s, []byte("data:")):
		_, _, found := bytes.Cut(s, []byte(";base64,"))
		return found
	}
	for _, scheme := range []string{"http:", "https:", "gs:", "s3:"} {
		if bytes.HasPrefix(s, []byte(scheme)) {
			return true
		}
	}
	return inBase64(s)
}

// inBase64 reports whether a string is base64, and too long to be something else.
func inBase64(s []byte) bool {
	return len(s) >= leastCoded && !bytes.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("+/=-_", r)
	})
}

// textInBase64 reports whether a string, in quotes, is an address of data that has a text encoded.
func textInBase64(raw []byte) bool {
	head := bytes.ReplaceAll(raw[1:min(len(raw)-1, 200)], []byte(`\/`), []byte("/"))
	media, _, found := bytes.Cut(head, []byte(";base64,"))
	media, data := bytes.CutPrefix(media, []byte("data:"))
	return found && data && isText(string(media))
}

// isText reports whether a media type is one of texts.
func isText(media string) bool {
	media, _, _ = strings.Cut(strings.ToLower(media), ";")
	return strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "json") || strings.HasSuffix(media, "xml")
}
