// Package dialecttest holds a provider's dialect against golden files. A case is a folder
// with a call and what the provider answers:
//
//	call.json     {"endpoint": …, "strict": …, "key": …, "token": …, "settings": {…}, "body": {…}}
//	upstream.txt  the request that becomes of it
//	answer.json   what the provider answers; or answer.sse, a stream; or error.json, a failure
//	out.json      what the caller gets of that; or out.sse
//
// The files of what becomes are written anew by go test -update.
package dialecttest

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/providers"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Updating reports whether the golden files are to be written anew.
func Updating() bool { return *update }

// A Case is what call.json says.
type Case struct {
	Endpoint string            `json:"endpoint"` // default: chatComplete
	Strict   bool              `json:"strict"`
	Key      string            `json:"key"`   // default: KEY
	Token    string            `json:"token"` // that the login gave
	Settings map[string]string `json:"settings"`
	Body     json.RawMessage   `json:"body"`
}

// Call makes the call of a case. Its ids are id1, id2 and so on.
func (c *Case) Call(provider string) *providers.Call {
	p, ok := providers.Lookup(provider)
	if !ok {
		panic("no provider " + provider)
	}
	setting := func(name string) string { return c.Settings[name] }
	base, err := p.Base(setting)
	if err != nil {
		base = &url.URL{Scheme: "https", Host: "custom.example.com"}
	}
	var body struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
	}
	_ = json.Unmarshal(c.Body, &body) // a body without them is a case too
	ids := 0
	call := &providers.Call{
		Provider: p, Endpoint: c.Endpoint, Method: http.MethodPost, Path: "/x", Base: base, Body: c.Body, Model: body.Model, Stream: body.Stream,
		Strict: c.Strict, Key: credentials.NewSecret(c.Key), Token: credentials.NewSecret(c.Token), Setting: setting,
		Header: func(string) string { return "" }, Now: time.Unix(1700000000, 0),
		NewID: func() string { ids++; return fmt.Sprintf("id%d", ids) },
	}
	if c.Body == nil {
		call.Method = http.MethodGet
	}
	return call
}

// Run holds a provider against the cases in testdata.
func Run(t *testing.T, provider string) {
	t.Helper()
	folders, err := filepath.Glob("testdata/*/call.json")
	if err != nil || len(folders) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range folders {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) { run(t, provider, dir) })
	}
}

func run(t *testing.T, provider, dir string) {
	c := &Case{Endpoint: providers.ChatComplete, Key: "KEY"}
	if err := json.Unmarshal(read(t, dir, "call.json"), c); err != nil {
		t.Fatal(err)
	}
	call := c.Call(provider)
	r, err := call.Provider.Prepare(call)
	if err != nil {
		var refusal *providers.Refusal
		if !errors.As(err, &refusal) {
			t.Fatalf("not a refusal: %v", err)
		}
		check(t, dir, "upstream.txt", fmt.Appendf(nil, "refused: %s %s\n%s\n", refusal.Code, refusal.Param, refusal.Message))
		return
	}
	check(t, dir, "upstream.txt", request(t, call, r))
	whole, stream, failure := read(t, dir, "answer.json"), read(t, dir, "answer.sse"), read(t, dir, "error.json")
	switch {
	case whole != nil:
		if r.Answer == nil {
			t.Fatal("the answer passes")
		}
		out, err := r.Answer.Whole(nil, whole, http.Header{})
		if err != nil {
			out = fmt.Appendf(nil, "%q", err.Error())
		}
		check(t, dir, "out.json", indented(t, out))
	case stream != nil:
		out, err := Stream(r.Answer.Stream, stream, len(stream))
		if err != nil {
			out = fmt.Appendf(out, "broken: %v\n", err)
		}
		check(t, dir, "out.sse", out)
	case failure != nil:
		f := providers.ReadFailure
		if r.Answer != nil && r.Answer.Failure != nil {
			f = r.Answer.Failure
		}
		check(t, dir, "out.json", indented(t, f(http.StatusBadRequest, http.Header{}, failure).Append(nil, c.Endpoint, provider)))
	}
}

func request(t *testing.T, call *providers.Call, r *providers.Request) []byte {
	method := r.Method
	if method == "" {
		method = call.Method
	}
	out := fmt.Appendf(nil, "%s %s\n", method, r.URL)
	var names []string
	for name := range r.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		out = fmt.Appendf(out, "%s: %s\n", name, strings.Join(r.Header[name], ", "))
	}
	if r.Body == nil {
		return append(out, "the body passes\n"...)
	}
	return append(append(out, '\n'), indented(t, r.Body)...)
}

func indented(t *testing.T, v []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, v, "", " "); err != nil {
		t.Fatalf("no JSON: %v\n%s", err, v)
	}
	return append(b.Bytes(), '\n')
}

// read is a file of a case, or nil where it has none.
func read(t *testing.T, dir, name string) []byte {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return b
}

func check(t *testing.T, dir, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(filepath.Join(dir, name), got, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want := read(t, dir, name); !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}
