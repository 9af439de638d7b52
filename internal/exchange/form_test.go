package exchange

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/forms"
)

func formOf(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		name, value, _ := strings.Cut(p, "=")
		b.WriteString("--b\r\nContent-Disposition: form-data; name=\"" + name + "\"")
		if name == "file" {
			b.WriteString("; filename=\"model\"\r\nContent-Type: audio/wav")
		}
		b.WriteString("\r\n\r\n" + value + "\r\n")
	}
	return b.String() + "--b--\r\n"
}

// callOf is the call of a request that nothing was read of.
func callOf(e *Endpoint, r *http.Request) *Call {
	c := &Call{Endpoint: e}
	c.attach(httptest.NewRecorder(), r)
	return c
}

// readFormOf reads a form as far as its model.
func readFormOf(c *Call, body io.Reader, limit int) *Error {
	p := &preparation{Call: c}
	p.Gateway = new(Gateway)
	src, f := p.checkedForm(body, "b")
	c.Body.spool = NewSpool(src, limit, nil)
	return p.readForm(f)
}

// exchangeOf is the exchange of a transcription whose form was read.
func exchangeOf(body string, limit int) *Exchange {
	r := httptest.NewRequest("POST", "/v1/audio/transcriptions", strings.NewReader(body))
	x := &Exchange{Call: callOf(&Endpoint{Body: Stream}, r)}
	if err := readFormOf(x.Call, strings.NewReader(body), limit); err != nil {
		panic(err)
	}
	if err := (&preparation{Call: x.Call}).locate(); err != nil {
		panic(err)
	}
	x.chosen = x.NewAttempt("", new(credentials.Route), nil)
	return x
}

func TestTheModelOfAFormIsFoundAndChanged(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("w\r\n--c", 1000)
	for name, c := range map[string]struct {
		body, model string
		want        string // with the model "other"; "": that cannot be
	}{
		"first":           {formOf("model=m", "file=x"), "m", formOf("model=other", "file=x")},
		"after the file":  {formOf("file=x", "model=m"), "m", formOf("file=x", "model=other")},
		"longer":          {formOf("model=whisper-of-many-words", "file=x"), "whisper-of-many-words", formOf("model=other", "file=x")},
		"empty":           {formOf("model=", "file=x"), "", formOf("model=other", "file=x")},
		"none":            {formOf("file=x"), "", formOf("model=other", "file=x")},
		"a file":          {strings.ReplaceAll(formOf("file=x"), `name="file"`, `name="model"`), "", ""},
		"before much":     {formOf("model=m", "file="+big), "m", formOf("model=other", "file="+big)},
		"behind too much": {formOf("file="+big, "model=m"), "", ""},
	} {
		x := exchangeOf(c.body, 4<<10)
		if x.Model != c.model {
			t.Errorf("%s: model %q", name, x.Model)
		}
		same, n := x.chosen.Payload().Upload()
		if got, err := io.ReadAll(same); string(got) != c.body || err != nil || int(n) != len(c.body) {
			t.Errorf("%s: unchanged: %d bytes, %v, of %d: %.200q", name, len(got), err, n, got)
		}
		x = exchangeOf(c.body, 4<<10)
		x.chosen.Route.Model = "other"
		x.chosen = x.NewAttempt("", x.chosen.Route, nil)
		if refused := x.chosen.Payload().unchangeable() != nil; refused != (c.want == "") {
			t.Errorf("%s: refused %v", name, refused)
		}
		if c.want == "" {
			continue
		}
		changed, n := x.chosen.Payload().Upload()
		if got, err := io.ReadAll(changed); string(got) != c.want || err != nil || int(n) != len(c.want) {
			t.Errorf("%s: changed: %v, %d of %d:\n%.300q\n%.300q", name, err, n, len(c.want), got, c.want)
		}
		changed.Close()
	}
}

func TestAModelIsUnseenWhereAProviderMightReadOne(t *testing.T) {
	t.Parallel()
	part := func(header, value string) string { return "--b\r\n" + header + "\r\n\r\n" + value + "\r\n" }
	big := strings.Repeat("w\r\n--c", 1000)
	named := func(params string) string {
		return part("Content-Disposition: form-data; "+params, "m") + formOf("file=x")
	}
	for name, c := range map[string]struct {
		body   string
		unseen bool
	}{
		"first":                    {formOf("model=m", "file="+big), false},
		"after a short file":       {formOf("file=x", "model=m"), false},
		"after a long file":        {formOf("file="+big, "model=m"), true},
		"none, after a short file": {formOf("file=x"), false},
		"none, with no line's end": {strings.TrimSuffix(formOf("file=x"), "\r\n"), false},
		"none, after a long file":  {formOf("file=" + big), true},
		"in per cents":             {named(`name="mod%65l"`), true},
		"in capitals":              {named(`name="Model"`), true},
		"of an array":              {named(`name="model[]"`), true},
		"with space":               {named(`name=" model"`), true},
		"a file's":                 {named(`name="model"; filename="x"`), true},
		"a file's without a name":  {named(`name="model"; filename=""`), true},
		"a file's, encoded":        {named(`name="model"; filename*=utf-8''x`), true},
		"in UTF-7":                 {part("Content-Disposition: form-data; name=\"model\"\r\nContent-Type: text/plain; charset=utf-7", "+AG0-") + formOf("file=x"), true},
		"in JSON":                  {part("Content-Disposition: form-data; name=\"model\"\r\nContent-Type: application/json", `"m"`) + formOf("file=x"), true},
		"as Java sends it":         {part("Content-Disposition: form-data; name=\"model\"\r\nContent-Type: text/plain; charset=ISO-8859-1\r\nContent-Transfer-Encoding: 8bit", "m") + formOf("file=x"), false},
		"with a file's name":       {named("name=\"file2\"; filename*=utf-8''x"), false},
	} {
		x := exchangeOf(c.body, 4<<10)
		x.chosen.Route.Provider = "good"
		if alias, unseen := x.chosen.ModelUnread(); unseen != c.unseen || unseen && alias != "@good/" {
			t.Errorf("%s: unseen %v, %q", name, unseen, alias)
		}
		x.chosen.Route.Model = "set"
		x.chosen = x.NewAttempt("", x.chosen.Route, nil)
		if _, unseen := x.chosen.ModelUnread(); unseen {
			t.Errorf("%s: unseen, though it is set", name)
		}
	}
	if _, unseen := new(Call).ModelUnread(); unseen {
		t.Error("unseen in no form")
	}
}

// A provider may read the other one.
func TestAFormHasOneModel(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("w\r\n--c", 10_000)
	for name, c := range map[string]struct {
		body    string
		refused bool
	}{
		"one":                  {formOf("model=m", "file="+big), false},
		"two":                  {formOf("model=m", "model=n"), true},
		"two, far apart":       {formOf("model=m", "file="+big, "model=n"), true},
		"an empty one":         {formOf("model=m", "file="+big, "model="), true},
		"after no value":       {strings.Replace(formOf("model=m", "a=", "model=n"), "\r\n\r\n\r\n", "\r\n\r\n", 1), true},
		"after half an end":    {strings.TrimSuffix(formOf("model=m", "file="+big), "\r\n") + "x\r\n" + formOf("model=n"), true},
		"after an endless end": {strings.TrimSuffix(formOf("model=m", "file="+big), "\r\n") + strings.Repeat(" ", 10<<10) + formOf("model=n"), true},
		"named twice":          {strings.TrimSuffix(formOf("model=m", "file="+big), "--b--\r\n") + "--b\r\nContent-Disposition: form-data; name=\"x\"; name=\"model\"\r\n\r\nn\r\n--b--\r\n", true},
		"in the epilogue":      {formOf("model=m", "file="+big) + "\r\n" + formOf("model=n"), true},
		"as a file":            {strings.TrimSuffix(formOf("model=m", "file="+big), "--b--\r\n") + "--b\r\nContent-Disposition: form-data; name=\"model\"; filename=\"\"\r\n\r\nn\r\n--b--\r\n", true},
		"in another case":      {formOf("model=m", "file="+big, "Model=n"), true},
		"endless header":       {formOf("model=m", "file="+big)[:50_000] + "\r\n--b\r\nA: " + strings.Repeat("a", 10<<10), true},
	} {
		for _, portion := range []int{1, 7, 4096, 1 << 20} {
			r := httptest.NewRequest("POST", "/v1/audio/transcriptions", strings.NewReader(c.body))
			x := &Exchange{Call: callOf(&Endpoint{Body: Stream}, r)}
			refusal := readFormOf(x.Call, &portions{strings.NewReader(c.body), portion}, 4<<10)
			if refusal == nil {
				x.chosen = x.NewAttempt("", new(credentials.Route), nil)
				body, _ := x.chosen.Payload().Upload()
				got, err := io.ReadAll(body)
				if refusal = x.Body.Refusal(err); refusal == nil && string(got) != c.body {
					t.Errorf("%s, portions of %d: %d bytes of %d, %v", name, portion, len(got), len(c.body), err)
				}
			}
			if (refusal != nil) != c.refused {
				t.Errorf("%s, portions of %d: %v", name, portion, refusal)
			}
		}
	}
}

type portions struct {
	io.Reader
	n int
}

func (p *portions) Read(b []byte) (int, error) { return p.Reader.Read(b[:min(p.n, len(b))]) }

// Each part costs something, so that their number is bounded, wherever they are read.
func TestPartsOfFormsAreBounded(t *testing.T) {
	t.Parallel()
	fields := func(n int, last ...string) string {
		parts := make([]string, n, n+1)
		for i := range parts {
			parts[i] = "x=1"
		}
		return formOf(append(parts, last...)...)
	}
	read := func(body string) *Error {
		r := httptest.NewRequest("POST", "/v1/audio/transcriptions", strings.NewReader(body))
		c := callOf(&Endpoint{Body: Stream}, r)
		if refusal := readFormOf(c, strings.NewReader(body), 1<<20); refusal != nil {
			return refusal
		}
		_, err := io.ReadAll(c.Body.spool.Reader())
		return c.Body.Refusal(err)
	}
	named := func(body string, lines *fileLines) *Error {
		_, err := io.ReadAll(forms.NewReader(strings.NewReader(body), "b", -1, &formNames{lines: lines}))
		return new(Call).Body.Refusal(err)
	}
	for name, refusal := range map[string]*Error{
		"before the model": read(fields(forms.MaxParts, "model=m")),
		"behind the model": read(formOf("model=m")[:len(formOf("model=m"))-len("--b--\r\n")] + fields(forms.MaxParts)),
		"names":            named(fields(forms.MaxParts+1), nil),
		"lines":            named(fields(forms.MaxParts+1), new(fileLines)),
	} {
		if refusal == nil || refusal.Status != 400 || refusal.Code != "too_many_parts" || !refusal.Caller {
			t.Errorf("%s: %+v", name, refusal)
		}
	}
	for name, refusal := range map[string]*Error{
		"model": read(fields(forms.MaxParts-1, "model=m")),
		"names": named(fields(forms.MaxParts), nil),
		"lines": named(fields(forms.MaxParts), new(fileLines)),
	} {
		if refusal != nil {
			t.Errorf("%s: as many as there may be: %v", name, refusal)
		}
	}
}

// Whatever comes, in whatever portions, the model is what Go's own reader finds.
func FuzzForm(f *testing.F) {
	for _, body := range []string{formOf("model=m", "file=x"), formOf("file=-b", "model=m\r\n"), formOf("a=1", "b=2"), "--b--", "--b\r\n\r\n\r\n--b"} {
		f.Add([]byte(body), uint16(7))
	}
	f.Fuzz(func(t *testing.T, body []byte, portion uint16) {
		whole, parts := new(form), new(form)
		_, err := io.ReadAll(forms.NewReader(bytes.NewReader(body), "b", -1, whole))
		_, inParts := io.ReadAll(forms.NewReader(&portions{bytes.NewReader(body), 1 + int(portion)}, "b", -1, parts))
		if (err == nil) != (inParts == nil) {
			t.Fatalf("in one %v, in portions %v", err, inParts)
		}
		if err != nil {
			return
		}
		if whole.found != parts.found || whole.model != parts.model || whole.start != parts.start || whole.end != parts.end {
			t.Fatalf("in one %+v, in portions %+v", whole, parts)
		}
		if !whole.found {
			return
		}
		if model := string(body[whole.start:whole.end]); len(model) <= maxModel && model != whole.model {
			t.Fatalf("%+v", whole)
		}
		r := multipart.NewReader(bytes.NewReader(body), "b")
		for {
			p, err := r.NextRawPart()
			if err != nil {
				t.Fatalf("Go finds no model: %v", err)
			}
			if p.FormName() != "model" {
				continue
			}
			value, err := io.ReadAll(p)
			if err != nil || string(value) != string(body[whole.start:whole.end]) {
				t.Fatalf("found %q, which is %q, %v", whole.model, value, err)
			}
			return
		}
	})
}
