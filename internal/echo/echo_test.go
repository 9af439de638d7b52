package echo

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// do sends one request to e and returns the answer.
func do(t testing.TB, e *Echo, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	return doRequest(t, e, httptest.NewRequest(method, path, strings.NewReader(body)))
}

func doRequest(t testing.TB, e *Echo, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	if err := e.ServeHTTP(w, r, nil); err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	return w
}

// post expects a JSON answer with status 200.
func post(t testing.TB, path, body string) gjson.Result {
	t.Helper()
	w := do(t, new(Echo), http.MethodPost, path, body)
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Fatalf("Content-Type %q", got)
	}
	if !json.Valid(w.Body.Bytes()) {
		t.Fatalf("not JSON: %s", w.Body)
	}
	return gjson.ParseBytes(w.Body.Bytes())
}

// stream expects a stream and returns its events without [DONE].
func stream(t testing.TB, path, body string) []gjson.Result {
	t.Helper()
	w := do(t, new(Echo), http.MethodPost, path, body)
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	if got := w.Header().Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("Content-Type %q", got)
	}
	if got := w.Header().Get("Cache-Control"); got != "no-cache" {
		t.Fatalf("Cache-Control %q", got)
	}
	return eventsOf(t, w.Body.String())
}

func eventsOf(t testing.TB, body string) []gjson.Result {
	t.Helper()
	rest, named := body, strings.HasPrefix(body, "event: ")
	if !named {
		var ok bool
		if rest, ok = strings.CutSuffix(body, "data: [DONE]\n\n"); !ok {
			t.Fatalf("no [DONE] at the end: %q", body)
		}
	}
	var events []gjson.Result
	for rest != "" {
		var event string
		event, rest, _ = strings.Cut(rest, "\n\n")
		var name string
		if named {
			name, event, _ = strings.Cut(event, "\n")
		}
		data, ok := strings.CutPrefix(event, "data: ")
		if !ok || strings.ContainsAny(data, "\r\n") || !json.Valid([]byte(data)) {
			t.Fatalf("not an event with JSON data: %q", event)
		}
		if named && name != "event: "+gjson.Get(data, "type").Str {
			t.Fatalf("%q is the name of %s", name, data)
		}
		events = append(events, gjson.Parse(data))
	}
	return events
}

func TestPathsAndMethods(t *testing.T) {
	const ask = `{"messages":[{"role":"user","content":"hi"}],"prompt":"hi","input":"hi"}`
	for _, test := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"POST", "/v1/chat/completions", 200, ""},
		{"POST", "/chat/completions", 200, ""},
		{"POST", "/v1/completions", 200, ""},
		{"POST", "/completions", 200, ""},
		{"POST", "/v1/embeddings", 200, ""},
		{"POST", "/embeddings", 200, ""},
		{"POST", "/v1/moderations", 200, ""},
		{"POST", "/moderations", 200, ""},
		{"GET", "/v1/models", 200, ""},
		{"GET", "/models", 200, ""},
		{"GET", "/v1/chat/completions", 405, "POST"},
		{"DELETE", "/completions", 405, "POST"},
		{"POST", "/v1/models", 405, "GET"},
		{"POST", "/", 404, ""},
		{"POST", "/v1", 404, ""},
		{"POST", "/v1chat/completions", 404, ""},
		{"POST", "/v1/v1/completions", 404, ""},
		{"POST", "/v1/chat/completions/", 404, ""},
		{"GET", "/v1/models/echo", 404, ""},
		{"POST", "/v1/\"\n", 404, ""},
	} {
		r := httptest.NewRequest(test.method, "/", strings.NewReader(ask))
		r.URL.Path = test.path
		w := doRequest(t, new(Echo), r)
		if w.Code != test.status || w.Header().Get("Allow") != test.allow {
			t.Errorf("%s %q: status %d, Allow %q; want %d, %q",
				test.method, test.path, w.Code, w.Header().Get("Allow"), test.status, test.allow)
		}
		if test.status != 200 {
			checkError(t, w)
		}
	}
}

// checkError expects exactly OpenAI's error envelope.
func checkError(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	var envelope struct {
		Error struct {
			Message string
			Type    string
			Param   *string
			Code    *string
		}
	}
	d := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
	d.DisallowUnknownFields()
	if err := d.Decode(&envelope); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	e := envelope.Error
	if e.Message == "" || e.Type != "invalid_request_error" || e.Param != nil || e.Code != nil {
		t.Errorf("not the envelope: %s", w.Body)
	}
	for _, member := range []string{"error.param", "error.code"} {
		if !gjson.GetBytes(w.Body.Bytes(), member).Exists() {
			t.Errorf("no %s: %s", member, w.Body)
		}
	}
}

func TestModelsListsEcho(t *testing.T) {
	list := gjson.Parse(do(t, new(Echo), http.MethodGet, "/v1/models", "").Body.String())
	if list.Get("object").Str != "list" || list.Get("data.#").Int() != 1 || list.Get("data.0.id").Str != "echo" {
		t.Errorf("%s", list.Raw)
	}
}

func TestNegativeDelaysAreInvalid(t *testing.T) {
	for _, e := range []Echo{{Delay: -1}, {ChunkDelay: -1}} {
		if e.Validate() == nil {
			t.Errorf("%+v is valid", e)
		}
	}
	if err := new(Echo).Validate(); err != nil {
		t.Error(err)
	}
}
