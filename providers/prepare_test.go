package providers

import (
	"net/http"
	"net/url"
	"testing"
	"time"
)

// answers prepares a call of Chat Completions and returns what translates its answer.
func answers(t *testing.T, p *Provider) *Answer {
	t.Helper()
	base, err := url.Parse("https://api.example.com")
	if err != nil {
		t.Fatal(err)
	}
	none := func(string) string { return "" }
	r, err := p.Prepare(&Call{
		Endpoint: ChatComplete, Method: http.MethodPost, Path: "/chat/completions", Base: base, Body: []byte(`{"model":"m"}`), Model: "m",
		Setting: none, Header: none, Now: time.Unix(1700000000, 0), NewID: func() string { return "1" },
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.Answer
}

func TestTheIDOfAnAnswerMayStandInAHeader(t *testing.T) {
	p := &Provider{Name: "example", Dialect: &Dialect{Request: openAI.Request, Decoder: openAI.Decoder, IDHeader: "X-Request-Id"}}
	for id, want := range map[string]string{"abc": "abc", "": "chatcmpl-1"} {
		a := answers(t, p)
		a.Begin(http.Header{"X-Request-Id": {id}})
		out, err := a.Body(nil, []byte(`{"choices":[{"message":{}}]}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		check := func(out []byte) {
			t.Helper()
			if got := `{"id":"` + want + `"`; string(out[:len(got)]) != got {
				t.Errorf("got %s, want %s", out, got)
			}
		}
		check(out)
		out, err = a.Stream.Translate(nil, []byte("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"))
		if err != nil {
			t.Fatal(err)
		}
		check(out[len("data: "):])
	}
}

func TestASignatureComesLastAndInThePlaceOfTheCredential(t *testing.T) {
	p := &Provider{
		Name:    "example",
		Headers: map[string]string{"version": "Version"},
		Auth:    func(*Call, http.Header) error { panic("asked") },
		Sign: func(c *Call, r *Request) error {
			if r.URL == nil || r.Method != http.MethodPost || r.Header.Get("Version") != "2" {
				t.Errorf("not final: %+v", r)
			}
			r.Header.Set("Authorization", "signed")
			return nil
		},
	}
	base := &url.URL{Scheme: "https", Host: "api.example.com"}
	r, err := p.Prepare(&Call{Endpoint: Proxy, Method: http.MethodPost, Path: "/x", Base: base, Setting: func(string) string { return "2" }})
	if err != nil || r.Header.Get("Authorization") != "signed" {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestTheIDOfAResponseIsTheGatewaysOwn(t *testing.T) {
	p := &Provider{Name: "example", Dialect: &Dialect{Request: openAI.Request, Decoder: openAI.Decoder, IDHeader: "X-Request-Id"}}
	none := func(string) string { return "" }
	r, err := p.Prepare(&Call{
		Endpoint: CreateResponse, Method: http.MethodPost, Path: "/responses", Base: &url.URL{Scheme: "https", Host: "api.example.com"},
		Body: []byte(`{"model":"m","input":"x"}`), Model: "m", Setting: none, Header: none, NewID: func() string { return "1" },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Answer.Begin(http.Header{"X-Request-Id": {"abc"}})
	out, err := r.Answer.Body(nil, []byte(`{"choices":[{"message":{}}]}`), nil)
	if got := `{"id":"resp_1"`; err != nil || string(out[:len(got)]) != got {
		t.Errorf("got %s, %v", out, err)
	}
}
