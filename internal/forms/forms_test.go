package forms

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// found notes what a reader finds, each part as its name, "file" or "field", and its value.
type found struct {
	body  string
	parts []string
	at    int64
	value []byte
}

func (f *found) Part(p *Part, at int64) error {
	kind := "field"
	if p.File {
		kind = "file"
	}
	f.parts, f.at, f.value = append(f.parts, fmt.Sprintf("%q %s ", p.Name, kind)), at, nil
	return nil
}

func (f *found) Data(b []byte) error { f.value = append(f.value, b...); return nil }

func (f *found) End(at int64) error {
	f.parts[len(f.parts)-1] += string(f.value)
	if f.body[f.at:at] != string(f.value) {
		return fmt.Errorf("at %d to %d is %q, not %q", f.at, at, f.body[f.at:at], f.value)
	}
	return nil
}

func (f *found) Done() error { return nil }

// inGo is what Go's own parser finds.
func inGo(body, boundary string) (parts []string, err error) {
	r := multipart.NewReader(strings.NewReader(body), boundary)
	for {
		p, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return parts, nil
		}
		if err != nil {
			return parts, err
		}
		_, params, err := mime.ParseMediaType(p.Header.Get("Content-Disposition"))
		if err != nil {
			return parts, err
		}
		kind := "field"
		if _, file := params["filename"]; file {
			kind = "file"
		}
		value, err := io.ReadAll(p)
		if err != nil {
			return parts, err
		}
		parts = append(parts, fmt.Sprintf("%q %s %s", p.FormName(), kind, value))
	}
}

func TestContentTypesOfForms(t *testing.T) {
	t.Parallel()
	for contentType, want := range map[string]string{
		"multipart/form-data; boundary=b":                                      "multipart/form-data; boundary=b",
		"Multipart/Form-Data;boundary=\"b\"":                                   "multipart/form-data; boundary=b",
		"multipart/form-data; BOUNDARY=----=_x":                                "",
		"multipart/form-data; boundary=\"----=_x\"":                            `multipart/form-data; boundary="----=_x"`,
		"multipart/form-data; boundary=" + strings.Repeat("b", 70):             "multipart/form-data; boundary=" + strings.Repeat("b", 70),
		"multipart/form-data; boundary=b; charset=UTF-8":                       "multipart/form-data; boundary=b", // Apache
		"multipart/form-data; boundary=" + strings.Repeat("b", 71):             "",
		"multipart/form-data; boundary=b; charset=utf-7":                       "",
		"multipart/form-data; boundary*=utf-8''bbbb; boundary=aaaa":            "",
		"multipart/form-data; boundary=aaaa; boundary*=utf-8''bbbb":            "",
		"multipart/form-data; boundary*0=bb; boundary*1=bb; boundary=aaaa":     "",
		"multipart/form-data; boundary*=utf-8''bbbb":                           "",
		"multipart/form-data; boundary=b; boundary=c":                          "",
		"multipart/form-data; boundary=b; Boundary=b":                          "",
		"multipart/form-data; boundary=b;":                                     "",
		"multipart/form-data; boundary=b; x=y":                                 "",
		"multipart/form-data; x=\"; boundary=c\"; boundary=b":                  "",
		"multipart/form-data; boundary=\"b\\\"; boundary=c\"":                  "",
		"multipart/form-data; boundary=\"\"":                                   "",
		"multipart/form-data; boundary=\"a b\"":                                "",
		"multipart/form-data; boundary = b":                                    "",
		"multipart/form-data; boundary=b, multipart/form-data; boundary=c":     "",
		"multipart/form-data boundary=b":                                       "",
		"multipart/form-data\t; boundary=b":                                    "",
		"multipart/form-data":                                                  "",
		"application/x; y=\"multipart/form-data\"; boundary=b":                 "",
		"multipart/form-data; boundary=b\u00e4":                                "",
		"multipart/form-data; boundary=b\r\n":                                  "",
		"form-data; boundary=b":                                                "",
		"multipart/mixed; boundary=form-data":                                  "",
		"multipart/form-data; boundary=--------------------------99998dae5c19": "multipart/form-data; boundary=--------------------------99998dae5c19",
	} {
		boundary, err := Boundary(contentType)
		got := ""
		if err == nil {
			got = ContentType(boundary)
			if _, params, err := mime.ParseMediaType(got); err != nil || params["boundary"] != boundary {
				t.Errorf("%q is %q, which Go reads as %v, %v", contentType, got, params, err)
			}
		}
		if got != want || !Is(contentType) {
			t.Errorf("%q: got %q, want %q", contentType, got, want)
		}
	}
}

const field = "Content-Disposition: form-data; name=\"a\""

func part(header, value string) string { return "--b\r\n" + header + "\r\n\r\n" + value + "\r\n" }

// Each of these is read in one way by some parsers, and in another by others.
func TestFormsThatParsersReadDifferentlyAreRefused(t *testing.T) {
	t.Parallel()
	good := part(field, "v") + "--b--\r\n"
	with := func(header string) string { return part(header, "v") + "--b--\r\n" }
	for name, c := range map[string]struct {
		body string
		want error
	}{
		"a preamble":                           {"x\r\n" + good, errStart},
		"a preamble with a line feed":          {"x\n" + good, errStart},
		"a line break before it":               {"\r\n" + good, errStart},
		"nothing":                              {"", errEnd},
		"no delimiter":                         {"nonsense", errStart},
		"a first line that ends with LF":       {"--b\n" + field + "\n\nv\n--b--\n", errDelimiter},
		"a first line that ends with CR":       {"--b\r" + field + "\r\rv\r--b--\r", errDelimiter},
		"space behind a delimiter":             {"--b \r\n" + field + "\r\n\r\nv\r\n--b--\r\n", errDelimiter},
		"text behind a delimiter":              {strings.Replace(good, "--b--", "--bx\r\n\r\n--b--", 1), errDelimiter},
		"a closing delimiter of one hyphen":    {strings.Replace(good, "--b--", "--b-", 1), errDelimiter},
		"a delimiter after LF":                 {part(field, "v\n--b\r\n"+field+"\r\n\r\nw") + "--b--\r\n", errDelimiter},
		"a delimiter after CR":                 {part(field, "v\r--b\r\n"+field+"\r\n\r\nw") + "--b--\r\n", errDelimiter},
		"a delimiter between line feeds":       {part(field, "v\n--b\n"+field+"\n\nw") + "--b--\r\n", errDelimiter},
		"a delimiter in a line":                {part(field, "v--b--") + "--b--\r\n", errDelimiter},
		"a delimiter after no value":           {"--b\r\n" + field + "\r\n\r\n--b--\r\n", errDelimiter},
		"a delimiter in a header":              {with(field + "\r\nX: y\r\n--b: z"), errDelimiter},
		"an epilogue":                          {good + good, errEnd},
		"another line break at the end":        {good + "\r\n", errEnd},
		"a line feed at the end":               {strings.TrimSuffix(good, "\r\n") + "\n", errEnd},
		"half a line break at the end":         {strings.TrimSuffix(good, "\n"), errEnd},
		"space at the end":                     {strings.TrimSuffix(good, "\r\n") + " \r\n", errEnd},
		"no end":                               {strings.TrimSuffix(good, "--b--\r\n"), errEnd},
		"half an end":                          {strings.TrimSuffix(good, "--\r\n"), errEnd},
		"no end of a header":                   {"--b\r\n" + field + "\r\n", errEnd},
		"an endless header":                    {"--b\r\n" + field + "\r\nA: " + strings.Repeat("a", 9<<10) + "\r\n\r\n", errLong},
		"no header":                            {"--b\r\n\r\nv\r\n--b--\r\n", errEnd},
		"no header, and a part":                {"--b\r\n\r\nv\r\n" + good, errDelimiter},
		"no name":                              {with("Content-Type: text/plain"), errDisposition},
		"a space before the colon":             {with("Content-Disposition : form-data; name=\"model\"\r\n" + field), errLines},
		"a tab before the colon":               {with("Content-Disposition\t: form-data; name=\"model\"\r\n" + field), errLines},
		"a folded line":                        {with("Content-Disposition: form-data;\r\n name=\"model\""), errDisposition},
		"a folded line of another":             {with("X: y\r\n Content-Disposition: form-data; name=\"model\"\r\n" + field), errLines},
		"a line that ends with LF":             {with("X: y\nContent-Disposition: form-data; name=\"model\"\r\n" + field), errLines},
		"a line that ends with CR":             {with("X: y\rContent-Disposition: form-data; name=\"model\"\r\n" + field), errLines},
		"a NUL":                                {with("Content-Disposition: form-data; name=\"a\x00\""), errLines},
		"no colon":                             {with("Content-Disposition form-data\r\n" + field), errLines},
		"a disposition twice":                  {with(field + "\r\ncontent-disposition: form-data; name=\"model\""), errLines},
		"another disposition":                  {with("Content-Disposition: attachment; name=\"a\""), errDisposition},
		"a name twice":                         {with(field + "; name=\"model\""), errDisposition},
		"a name twice, in capitals":            {with(field + "; NAME=\"model\""), errDisposition},
		"an extended name":                     {with("Content-Disposition: form-data; name*=utf-8''model"), errDisposition},
		"an extended name beside it":           {with(field + "; name*=utf-8''model"), errDisposition},
		"a continued name":                     {with(field + "; name*0=mo; name*1=del"), errDisposition},
		"a continued file name":                {with(field + "; filename*0=x"), errDisposition},
		"a file name twice":                    {with(field + "; filename=x; filename=y"), errDisposition},
		"an extended file name twice":          {with(field + "; filename*=utf-8''x; filename*=utf-8''y"), errDisposition},
		"an extended file name in Latin-1":     {with(field + "; filename*=iso-8859-1''x"), errFilename},
		"an extended file name that is no one": {with(field + "; filename*=x"), errFilename},
		"another parameter":                    {with(field + "; size=7"), errDisposition},
		"spaces around =":                      {with("Content-Disposition: form-data; name = \"a\""), errDisposition},
		"an escaped name":                      {with(`Content-Disposition: form-data; name="mod\el"`), errName},
		"an escaped quote in a name":           {with(`Content-Disposition: form-data; name="a\"; name=\"model"`), errDisposition},
		"an encoded name":                      {with(`Content-Disposition: form-data; name="=?utf-8?q?model?="`), errName},
		"a parameter in a name":                {with(`Content-Disposition: form-data; name="a; name=model"`), errName},
		"a name in Latin-1":                    {with("Content-Disposition: form-data; name=\"\xe4\""), errName},
		"the charset of all":                   {with(`Content-Disposition: form-data; name="_charset_"`), errName},
		"an escaped quote in a file name":      {with(field + `; filename="x\"; name=\"model"`), errDisposition},
		"an escape at a file name's end":       {with(field + `; filename="x\\"`), errDisposition},
		"a parameter in a file name":           {with(field + `; filename="x; name=model"`), errFilename},
		"text behind a name":                   {with(field + "x"), errDisposition},
		"a trailing semicolon":                 {with(field + ";"), errDisposition},
		"base64":                               {with(field + "\r\nContent-Transfer-Encoding: base64"), errEncoding},
		"quoted-printable":                     {with(field + "\r\nContent-Transfer-Encoding: quoted-printable"), errEncoding},
		"a part of parts":                      {with(field + "\r\nContent-Type: multipart/mixed; boundary=c"), errPartType},
		"an extended charset":                  {with(field + "\r\nContent-Type: text/plain; charset*=utf-8''utf-8; charset=utf-7"), errPartType},
		"a charset twice":                      {with(field + "\r\nContent-Type: text/plain; charset=utf-8; charset=utf-7"), errPartType},
		"a short length":                       {with(field + "\r\nContent-Length: 0"), errPartLength},
		"a signed length":                      {with(field + "\r\nContent-Length: +1"), errPartLength},
		"too many parts":                       {strings.Repeat(part(field, "v"), MaxParts+1) + "--b--\r\n", ErrParts},
	} {
		for _, portions := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
			f := &found{body: c.body}
			if _, err := io.ReadAll(NewReader(portions(strings.NewReader(c.body)), "b", -1, f)); !errors.Is(err, c.want) {
				t.Errorf("%s: got %v, want %v", name, err, c.want)
			}
		}
	}
}

// A form of a known length is judged with its last byte: whoever sends it on does not read further.
func TestAFormThatBreaksOffIsNotPassedOn(t *testing.T) {
	t.Parallel()
	body := part(field, "v") + "--b--"
	for n := range len(body) {
		got, err := io.ReadAll(io.LimitReader(NewReader(strings.NewReader(body[:n]), "b", int64(n), &found{body: body}), int64(n)))
		if n > 0 && (err == nil || len(got) > 0) {
			t.Errorf("%d bytes: %q, %v", n, got, err)
		}
	}
	if got, err := io.ReadAll(NewReader(strings.NewReader(body), "b", int64(len(body)), &found{body: body})); err != nil || string(got) != body {
		t.Errorf("%q, %v", got, err)
	}
}

// The forms of clients, each as it sends a field and a file.
func TestFormsOfClientsAreRead(t *testing.T) {
	t.Parallel()
	var written bytes.Buffer
	w := multipart.NewWriter(&written)
	_ = w.WriteField("model", "m")
	file, _ := w.CreateFormFile("file", `C:\a "b".wav`[:5]+".wav")
	_, _ = file.Write([]byte("RIFF\r\n--\r\n"))
	_ = w.Close()
	form := func(boundary, field, file string) string {
		return strings.NewReplacer("\n", "\r\n", "BOUNDARY", boundary).Replace("--BOUNDARY\n" + field + "\n\nm\n--BOUNDARY\n" + file + "\n\nRIFF\n--\n\n--BOUNDARY--\n")
	}
	const field = `Content-Disposition: form-data; name="model"`
	for name, c := range map[string]struct{ contentType, body string }{
		"Go": {w.FormDataContentType(), written.String()},
		"curl": {
			"multipart/form-data; boundary=------------------------d74496d66958873e",
			form("------------------------d74496d66958873e", field, "Content-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\nContent-Type: audio/wav"),
		},
		"curl, with a quote in the name": {
			"multipart/form-data; boundary=------------------------d74496d66958873e",
			form("------------------------d74496d66958873e", field, "Content-Disposition: form-data; name=\"file\"; filename=\"a%22b; c.wav\"\nContent-Type: application/octet-stream"),
		},
		"undici": {
			"multipart/form-data; boundary=----formdata-undici-096352127532",
			form("----formdata-undici-096352127532", field, "Content-Disposition: form-data; name=\"file\"; filename=\"\u00e4.wav\"\nContent-Type: audio/wav"),
		},
		"a browser": {
			"multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW",
			form("----WebKitFormBoundary7MA4YWxkTrZu0gW", field, "Content-Disposition: form-data; name=\"file\"; filename=\"a.webm\"\nContent-Type: audio/webm;codecs=opus"),
		},
		"Node's form-data": {
			"multipart/form-data; boundary=--------------------------515890814546601021194782",
			form("--------------------------515890814546601021194782", field, "Content-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\nContent-Type: audio/wave"),
		},
		"requests": {
			"multipart/form-data; boundary=f7457d3c3f0b4ad2a0b9c8f39bd2f1bb",
			form("f7457d3c3f0b4ad2a0b9c8f39bd2f1bb", field, `Content-Disposition: form-data; name="file"; filename="a.wav"`),
		},
		"requests of old, with another name": {
			"multipart/form-data; boundary=f7457d3c3f0b4ad2a0b9c8f39bd2f1bb",
			form("f7457d3c3f0b4ad2a0b9c8f39bd2f1bb", field, `Content-Disposition: form-data; name="file"; filename*=utf-8''%C3%A4.wav`),
		},
		"httpx": {
			"multipart/form-data; boundary=2a1b0ffb6ba9ae4bbf2d2a5a0a0d9b6e",
			form("2a1b0ffb6ba9ae4bbf2d2a5a0a0d9b6e", field, "Content-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\nContent-Type: audio/x-wav"),
		},
		"aiohttp": {
			"multipart/form-data; boundary=4f1c3a4ee0ee4e5a9f6b1f5f6a0b3a9d",
			form("4f1c3a4ee0ee4e5a9f6b1f5f6a0b3a9d", "Content-Type: text/plain; charset=utf-8\n"+field, "Content-Type: audio/wav\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"; filename*=utf-8''a.wav"),
		},
		".NET": {
			`multipart/form-data; boundary="7f8a9c5e-6a2f-4c53-8f0a-7d9a5a4b8d11"`,
			form("7f8a9c5e-6a2f-4c53-8f0a-7d9a5a4b8d11", "Content-Type: text/plain; charset=utf-8\nContent-Disposition: form-data; name=model", "Content-Disposition: form-data; name=file; filename=a.wav; filename*=utf-8''a.wav"),
		},
		"OkHttp": {
			"multipart/form-data; boundary=9a8b7c6d-1111-2222-3333-444455556666",
			form("9a8b7c6d-1111-2222-3333-444455556666", field+"\nContent-Length: 1", "Content-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\nContent-Type: audio/wav\nContent-Length: 10"),
		},
		"Apache's HttpClient": {
			"multipart/form-data; boundary=Zq_x1-Y; charset=UTF-8",
			form("Zq_x1-Y", field+"\nContent-Type: text/plain; charset=ISO-8859-1\nContent-Transfer-Encoding: 8bit", "Content-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\nContent-Type: application/octet-stream\nContent-Transfer-Encoding: binary"),
		},
	} {
		boundary, err := Boundary(c.contentType)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, portions := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader} {
			f := &found{body: c.body}
			passed, err := io.ReadAll(NewReader(portions(strings.NewReader(c.body)), boundary, int64(len(c.body)), f))
			want := []string{`"model" field m`, "\"file\" file RIFF\r\n--\r\n"}
			if err != nil || string(passed) != c.body || !slices.Equal(f.parts, want) {
				t.Errorf("%s: got %q, %v, want %q", name, f.parts, err, want)
			}
		}
		if parts, err := inGo(c.body, boundary); err != nil || len(parts) != 2 {
			t.Errorf("%s: Go reads %q, %v", name, parts, err)
		}
	}
}

// What is let pass is read alike by Go's own parser: names, values and which of them are files.
func FuzzForm(f *testing.F) {
	for _, body := range []string{
		part(field, "v") + "--b--", part(field+"; filename=\"x\"", "\r\n--\r\n") + part("Content-Disposition: form-data; name=c; filename*=utf-8''%20x", "") + "--b--\r\n",
		part(field+"\r\nContent-Type: text/plain; charset=\"utf-8\"\r\nContent-Length: 1", "v") + "--b--\r\n", "--b--", "\n--b\n" + field + "\n\nv\n--b--",
		part(field+`; filename="C:\[x]y"`, "v") + "--b--",
	} {
		f.Add(body, "b", uint8(3))
	}
	f.Fuzz(func(t *testing.T, body, boundary string, portion uint8) {
		named, err := Boundary(ContentType(boundary))
		if err != nil {
			return
		}
		if named != boundary {
			t.Fatalf("boundary %q became %q", boundary, named)
		}
		whole, inPortions := &found{body: body}, &found{body: body}
		passed, err := io.ReadAll(NewReader(strings.NewReader(body), boundary, -1, whole))
		_, other := io.ReadAll(NewReader(&slow{strings.NewReader(body), int(portion) + 1}, boundary, int64(len(body)), inPortions))
		if (err == nil) != (other == nil) {
			t.Fatalf("%v at once, %v in portions", err, other)
		}
		if err != nil {
			return
		}
		if string(passed) != body || !slices.Equal(whole.parts, inPortions.parts) {
			t.Fatalf("passed %q, %q at once, %q in portions", passed, whole.parts, inPortions.parts)
		}
		if parts, err := inGo(body, boundary); err != nil || !slices.Equal(parts, whole.parts) {
			t.Fatalf("got %q, Go reads %q, %v", whole.parts, parts, err)
		}
	})
}

type slow struct {
	io.Reader
	n int
}

func (s *slow) Read(b []byte) (int, error) { return s.Reader.Read(b[:min(s.n, len(b))]) }
