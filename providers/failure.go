package providers

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/providers/jsonscan"
	"github.com/caddy-gw/gateway/providers/messages"
)

// A Failure is an error that a provider answered with.
type Failure struct {
	Status                     int // of the answer; 0 if it was not an error status
	Message, Type, Param, Code string
}

// maxMessage bounds the text that is kept of an error page, in bytes.
const maxMessage = 500

// ReadFailure reads the body of an error answer in any of the usual forms: an object error,
// or a string; the members message, detail or errors; a list of these; or an HTML page.
func ReadFailure(status int, _ http.Header, body []byte) *Failure {
	f := new(Failure)
	if trimmed := bytes.TrimSpace(body); gjson.ValidBytes(trimmed) {
		v := gjson.ParseBytes(trimmed)
		if v.IsArray() {
			v = v.Get("0")
		}
		f.read(v)
	} else {
		f.Message = page(trimmed)
	}
	if f.Message == "" {
		f.Message = Answered(status)
	}
	return f
}

// Answered returns the message of an error by its status alone.
func Answered(status int) string {
	return strings.TrimSpace("The provider answered " + strconv.Itoa(status) + " " + http.StatusText(status))
}

func (f *Failure) read(v gjson.Result) {
	if v.Type == gjson.String {
		f.Message = v.Str
		return
	}
	for _, name := range []string{"error", "errors.0", "Error"} {
		if e := v.Get(name); e.IsObject() || e.Type == gjson.String {
			f.read(e)
			break
		}
	}
	for _, m := range []struct {
		to    *string
		names []string
	}{
		{&f.Message, []string{"message", "Message", "error_description", "detail", "title", "description"}},
		{&f.Type, []string{"type", "status", "__type"}},
		{&f.Param, []string{"param"}},
		{&f.Code, []string{"code"}},
	} {
		for i := 0; *m.to == "" && i < len(m.names); i++ {
			switch field := v.Get(m.names[i]); {
			case field.Type == gjson.String, field.Type == gjson.Number:
				*m.to = field.String()
			case m.to == &f.Message:
				*m.to = details(field)
			}
		}
	}
}

// details joins the messages of a list of validation errors.
func details(v gjson.Result) string {
	if v.IsObject() && v.Get("detail").Exists() {
		v = v.Get("detail")
	}
	if v.Type == gjson.String {
		return v.Str
	}
	var texts []string
	v.ForEach(func(_, d gjson.Result) bool {
		text := d.Get("msg").String()
		if loc := d.Get("loc"); loc.IsArray() && text != "" {
			var at []string
			loc.ForEach(func(_, l gjson.Result) bool {
				at = append(at, l.String())
				return true
			})
			text = strings.Join(at, ".") + ": " + text
		}
		if text != "" {
			texts = append(texts, text)
		}
		return len(texts) < 20
	})
	if len(texts) == 0 && v.Exists() {
		return v.Raw[:min(len(v.Raw), maxMessage)]
	}
	return strings.Join(texts, "; ")
}

// page returns the text of an answer that is not JSON, without HTML tags.
func page(b []byte) string {
	if len(b) > 64<<10 {
		b = b[:64<<10]
	}
	s := strings.ToValidUTF8(string(b), "")
	if strings.HasPrefix(s, "<") {
		if t := title(s); t != "" {
			s = t
		} else {
			s = tagless(s)
		}
	}
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxMessage {
		s = s[:maxMessage]
		for !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
		s += "…"
	}
	return s
}

// title returns the title of an HTML page, or "".
func title(s string) string {
	_, rest, ok := strings.Cut(s, "<title>")
	if !ok {
		return ""
	}
	text, _, _ := strings.Cut(rest, "</title>")
	return strings.TrimSpace(text)
}

// tagless returns the text of HTML, without comments and the contents of the elements in
// unshown.
func tagless(s string) string {
	var out strings.Builder
	for s != "" {
		text, rest, found := strings.Cut(s, "<")
		out.WriteString(text)
		out.WriteByte(' ')
		if !found {
			break
		}
		if comment, ok := strings.CutPrefix(rest, "!--"); ok {
			_, s, _ = strings.Cut(comment, "-->")
			continue
		}
		tag, after, _ := strings.Cut(rest, ">")
		s = after
		name := strings.ToLower(tag)
		if i := strings.IndexAny(name, " \t\r\n/"); i >= 0 {
			name = name[:i]
		}
		if slices.Contains(unshown, name) && !strings.HasSuffix(tag, "/") {
			s = after[endOf(after, name):]
		}
	}
	return out.String()
}

var unshown = []string{"style", "script", "noscript", "template", "svg"}

// endOf returns the position of an element's end tag, in any case, or the length of the
// text.
func endOf(s, name string) int {
	for i := 0; i < len(s); i++ {
		if s[i] == '<' && len(s)-i >= len(name)+2 && s[i+1] == '/' && strings.EqualFold(s[i+2:i+2+len(name)], name) {
			return i
		}
	}
	return len(s)
}

// Append appends the failure in the envelope of an endpoint, which names the provider.
func (f *Failure) Append(dst []byte, endpoint, provider string) []byte {
	b := jsonscan.Builder(dst)
	b.Open('{')
	kind := or(f.Type, "provider_error")
	if endpoint == Messages || endpoint == CountTokens {
		b.Key("type").Text("error")
		kind = messages.ErrorType(f.Type, f.Status)
	}
	b.Key("error").Open('{')
	b.Key("message").Text(f.Message)
	b.Key("type").Text(kind)
	text(b.Key("param"), f.Param)
	text(b.Key("code"), f.Code)
	b.Close('}')
	b.Key("provider").Text(provider)
	b.Close('}')
	return b
}

func text(b *jsonscan.Builder, s string) {
	if s == "" {
		b.Raw([]byte("null"))
		return
	}
	b.Text(s)
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
