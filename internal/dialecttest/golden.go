// Package dialecttest holds dialects against golden files. A case is an archive of text,
// testdata/NAME.txtar, with a call and what the provider answers:
//
//	call.json      {"provider": …, "endpoint": …, "path": …, "strict": …, "key": …, "token": …, "settings": {…}, "body": {…}}
//	upstream.txt   the request that becomes of it, or why it is refused
//	answer.json    what the provider answers; or error.json, a failure: of the status and
//	               header that call.json has as "failed", or else of status 400
//	out.json       what the caller gets of that
//	answer.sse     what it streams; or answer.jsonl, binary messages, one a line
//	out.sse        what the caller gets of that
//
// Each member that a case has must be one that its test reads, and all that becomes must be
// there. What becomes is updated by go test -update.
package dialecttest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/providers"
)

var update = flag.Bool("update", false, "update the expected output of the cases")

// A Case is the contents of call.json.
type Case struct {
	Provider string            `json:"provider"` // default: the dialect's
	Endpoint string            `json:"endpoint"` // default: chatComplete
	Path     string            `json:"path"`     // below /v1; default: /x
	Strict   bool              `json:"strict"`
	Key      string            `json:"key"`   // default: KEY
	Token    string            `json:"token"` // obtained by the login
	Settings map[string]string `json:"settings"`
	Body     json.RawMessage   `json:"body"`
	Failed   Failed            `json:"failed"`
}

// Failed is what error.json came with.
type Failed struct {
	Status int               `json:"status"` // default: 400
	Header map[string]string `json:"header"`
}

// Call returns the call of a case. Its ids are id1, id2 and so on.
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
	_ = json.Unmarshal(c.Body, &body) // a body without these members is valid here
	ids := 0
	call := &providers.Call{
		Provider: p, Endpoint: c.Endpoint, Method: http.MethodPost, Path: cmp.Or(c.Path, "/x"), Base: base, Body: c.Body, Model: body.Model, Stream: body.Stream,
		Strict: c.Strict, Key: credentials.NewSecret(c.Key), Token: credentials.NewSecret(c.Token), Setting: setting,
		Header: func(string) string { return "" }, Now: time.Unix(1700000000, 0),
		NewID: func() string { ids++; return fmt.Sprintf("id%d", ids) },
	}
	if c.Body == nil {
		call.Method = http.MethodGet
	}
	return call
}

// Run tests the provider with the cases in testdata.
func (d Dialect) Run(t *testing.T) {
	t.Helper()
	Each(t, d.run)
}

func (d Dialect) run(t *testing.T, a *Archive) {
	c := a.Case(t)
	call := d.call(c)
	r, err := call.Provider.Prepare(call)
	if err != nil {
		var refusal *providers.RequestError
		if !errors.As(err, &refusal) {
			t.Fatalf("not a refusal: %v", err)
		}
		a.Check(t, "upstream.txt", fmt.Appendf(nil, "refused: %s %s\n%s\n", refusal.Code, refusal.Param, refusal.Message))
		return
	}
	if r.Estimate != nil {
		a.Check(t, "upstream.txt", fmt.Appendf(nil, "nothing, estimated: %s\n", r.Estimate))
		return
	}
	a.Check(t, "upstream.txt", request(t, call, r))
	if r.Warnings != nil {
		a.Check(t, "warnings.txt", []byte(strings.Join(r.Warnings, "\n")+"\n"))
	}
	if whole := a.Read("answer.json"); whole != nil {
		if r.Answer == nil {
			t.Fatal("the answer passes")
		}
		out, err := d.begun(r.Answer).Body(nil, whole, d.header())
		if err != nil {
			out = fmt.Appendf(nil, "%q", err.Error())
		}
		a.Check(t, "out.json", indented(t, out))
	} else if failure := a.Read("error.json"); failure != nil {
		f := providers.ReadFailure
		if r.Answer != nil && r.Answer.Failure != nil {
			f = r.Answer.Failure
		}
		a.Check(t, "out.json", indented(t, c.Failed.read(f, failure).Append(nil, c.Endpoint, call.Provider.Name)))
	}
	if stream := d.stream(t, a); stream != nil {
		out, err := Stream(d.begun(r.Answer).Stream, stream, len(stream))
		if err != nil {
			out = fmt.Appendf(out, "broken: %v\n", err)
		}
		a.Check(t, "out.sse", out)
	}
}

// read reads a failure as the gateway does, which also knows the status.
func (f Failed) read(read func(int, http.Header, []byte) *providers.Failure, body []byte) *providers.Failure {
	h := make(http.Header, len(f.Header))
	for name, value := range f.Header {
		h.Set(name, value)
	}
	if f.Status == 0 {
		f.Status = http.StatusBadRequest
	}
	failure := read(f.Status, h, body)
	failure.Status = f.Status
	return failure
}

// call returns the call of a case, with the dialect's settings unless it has its own.
func (d Dialect) call(c *Case) *providers.Call {
	if c.Settings == nil {
		c.Settings = d.Settings
	}
	if c.Provider != "" {
		return c.Call(c.Provider)
	}
	return c.Call(d.Provider)
}

// stream returns the provider's stream in a case, or nil.
func (d Dialect) stream(t testing.TB, a *Archive) []byte {
	t.Helper()
	if d.Frames == nil {
		return a.Read("answer.sse")
	}
	if lines := a.Read("answer.jsonl"); lines != nil {
		return d.Frames(t, lines)
	}
	return nil
}

// header returns the headers of every answer.
func (d Dialect) header() http.Header {
	if d.Header == nil {
		return http.Header{}
	}
	return d.Header
}

// Begin returns the answer to a case's call, after its headers.
func (d Dialect) Begin(t testing.TB, c *Case) *providers.Answer {
	t.Helper()
	return d.begun(d.prepare(t, *c).Answer)
}

// begun returns an answer after its headers.
func (d Dialect) begun(a *providers.Answer) *providers.Answer {
	if a.Begin != nil {
		a.Begin(d.header())
	}
	return a
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
