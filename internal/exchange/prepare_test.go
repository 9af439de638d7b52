package exchange

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
)

func TestPrepareFindsTheCallersFacts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := w.begin(t, w.good(`{"model":"gpt-4o","stream":true,`+messages+`}`))
	if err := x.Prepare(limits); err != nil {
		t.Fatal(err)
	}
	if x.Caller.KeyID != "key-1" || x.chosen.Route.Provider != "file" || x.Model != "gpt-4o" || !x.Stream {
		t.Errorf("got %+v, %+v, %q, %v", x.Caller, x.chosen.Route, x.Model, x.Stream)
	}
	if x.chosen.Route.Key.Reveal() != "sk-file" || x.chosen.Route.Inline {
		t.Errorf("got %+v", x.chosen.Route)
	}
}

func TestPrepareReadsTheCredentialsHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const bearer = "Bearer " + providerKey
	for _, c := range []struct {
		name   string
		header []string
		route  string // provider, virtual key and the secret that goes upstream
		status int
		code   string
	}{
		{"key and provider of the file", []string{"x-gw-api-key", w.key, "x-gw-provider", "file"}, "file  sk-file", 0, ""},
		{"key and virtual key", []string{"x-gw-api-key", w.key, "x-gw-virtual-key", "own"}, "openai own sk-stored", 0, ""},
		{"key, bearer and provider", []string{"x-gw-api-key", w.key, "authorization", bearer, "x-gw-provider", "openai"}, "openai  " + providerKey, 0, ""},
		{"key, bearer and provider under an alias", []string{"x-acme-api-key", w.key, "authorization", bearer, "x-acme-provider", "openai"}, "openai  " + providerKey, 0, ""},
		{"the key as bearer alone, which goes nowhere", []string{"authorization", "Bearer " + w.key, "x-gw-provider", "openai"}, "", 400, "provider_required"},
		{"the key in both, which goes nowhere", []string{"x-gw-api-key", w.key, "authorization", "Bearer " + w.key, "x-gw-provider", "openai"}, "", 400, "provider_required"},
		{"a provider by name and no credential", []string{"x-gw-api-key", w.key, "x-gw-provider", "openai"}, "", 400, "provider_required"},
		{"a custom host that needs no credential", []string{"x-gw-api-key", w.key, "x-gw-provider", "openai", "x-gw-custom-host", "https://models.example.com/v1"}, "openai  ", 0, ""},
		{"the key as bearer alone, to a custom host, which does not get it", []string{"authorization", "Bearer " + w.key, "x-gw-provider", "openai", "x-gw-custom-host", "https://models.example.com/v1"}, "openai  ", 0, ""},
		{"two bearers", []string{"x-gw-api-key", w.key, "authorization", bearer, "authorization", "Bearer other", "x-gw-provider", "openai"}, "", 400, "ambiguous_header"},
		{"the key as bearer, to the file's provider", []string{"authorization", "bearer " + w.key, "x-gw-provider", "file"}, "file  sk-file", 0, ""},
		{"no key", []string{"x-gw-provider", "file"}, "", 401, "03"},
		{"an empty key", []string{"x-gw-api-key", "", "x-gw-provider", "file"}, "", 401, "03"},
		{"an unknown key", []string{"x-gw-api-key", "gw-unknown", "x-gw-provider", "file"}, "", 401, "03"},
		{"an unknown key with a known bearer", []string{"x-gw-api-key", "gw-unknown", "authorization", "Bearer " + w.key, "x-gw-provider", "file"}, "", 401, "03"},
		{"x-api-key", []string{"x-api-key", w.key, "x-gw-provider", "file"}, "file  sk-file", 0, ""},
		{"x-api-key alone, which goes nowhere", []string{"x-api-key", w.key, "x-gw-provider", "openai"}, "", 400, "provider_required"},
		{"x-api-key with the provider's credential", []string{"x-api-key", w.key, "authorization", bearer, "x-gw-provider", "openai"}, "openai  " + providerKey, 0, ""},
		{"x-api-key with another key as bearer, which comes first", []string{"x-api-key", w.weak, "authorization", "Bearer " + w.key, "x-gw-provider", "file"}, "file  sk-file", 0, ""},
		{"x-gw-api-key before x-api-key", []string{"x-gw-api-key", w.weak, "x-api-key", w.key, "x-gw-provider", "file"}, "", 403, "033"},
		{"an unknown key with a known x-api-key", []string{"x-gw-api-key", "gw-unknown", "x-api-key", w.key, "x-gw-provider", "file"}, "", 401, "03"},
		{"a provider's credential as x-api-key with the key", []string{"x-gw-api-key", w.key, "x-api-key", providerKey, "x-gw-provider", "openai"}, "", 400, "provider_required"},
		{"an unknown x-api-key", []string{"x-api-key", providerKey, "x-gw-provider", "file"}, "", 401, "03"},
		{"an x-api-key of no scope", []string{"x-api-key", w.weak, "x-gw-provider", "file"}, "", 403, "033"},
		{"x-api-key twice", []string{"x-api-key", w.key, "x-api-key", w.key, "x-gw-provider", "file"}, "", 400, "ambiguous_header"},
		{"a provider's credential as the key", []string{"authorization", bearer, "x-gw-provider", "openai"}, "", 401, "03"},
		{"a key of no scope", []string{"x-gw-api-key", w.weak, "x-gw-provider", "file"}, "", 403, "033"},
		{"two keys", []string{"x-gw-api-key", w.key, "x-gw-api-key", w.weak, "x-gw-provider", "file"}, "", 400, "ambiguous_header"},
		{"two keys under two prefixes", []string{"x-gw-api-key", w.key, "x-acme-api-key", w.weak, "x-gw-provider", "file"}, "", 400, "ambiguous_header"},
		{"two providers", []string{"x-gw-api-key", w.key, "x-gw-provider", "file", "x-acme-provider", "openai"}, "", 400, "ambiguous_header"},
		{"two virtual keys", []string{"x-gw-api-key", w.key, "x-gw-virtual-key", "own", "x-gw-virtual-key", "other"}, "", 400, "ambiguous_header"},
		{"two configs", []string{"x-gw-api-key", w.key, "x-gw-config", "a", "x-gw-config", "b"}, "", 400, "ambiguous_header"},
		{"two custom hosts", []string{"x-gw-api-key", w.key, "x-gw-custom-host", "a", "x-gw-custom-host", "b"}, "", 400, "ambiguous_header"},
		{"no provider", []string{"x-gw-api-key", w.key}, "", 400, "provider_required"},
		{"a bad provider", []string{"x-gw-api-key", w.key, "authorization", bearer, "x-gw-provider", "nonsense"}, "", 400, "invalid_provider"},
		{"a bad custom host", []string{"x-gw-api-key", w.key, "authorization", bearer, "x-gw-provider", "openai", "x-gw-custom-host", "http://10.0.0.1"}, "", 400, "invalid_custom_host"},
		{"a custom host with a virtual key", []string{"x-gw-api-key", w.key, "x-gw-virtual-key", "own", "x-gw-custom-host", "https://x.example.com"}, "", 400, "invalid_custom_host"},
		{"an unknown virtual key", []string{"x-gw-api-key", w.key, "x-gw-virtual-key", "other"}, "", 400, "invalid_virtual_key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := w.begin(t, w.call(`{"model":"gpt",`+messages+`}`, c.header...))
			err := x.Prepare(limits)
			if c.status != 0 {
				if err == nil || err.Status != c.status || err.Code != c.code {
					t.Fatalf("got %+v", err)
				}
				mustBeEnvelope(t, err.JSON(Envelope{}))
				for _, secret := range []string{w.key, w.weak, providerKey, "sk-stored", "sk-file"} {
					if bytes.Contains(err.JSON(Envelope{}), []byte(secret)) {
						t.Errorf("a secret in %s", err.JSON(Envelope{}))
					}
				}
				return
			}
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
			if got := x.chosen.Route.Provider + " " + x.chosen.Route.VirtualKey + " " + x.chosen.Route.Key.Reveal(); got != c.route {
				t.Errorf("got %q, want %q", got, c.route)
			}
		})
	}
}

func TestTheOwnersKeyCallsInTheDefaultWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := w.begin(t, w.call(chat, "x-gw-api-key", adminKey, "x-gw-provider", "file"))
	if err := x.Prepare(limits); err != nil || x.Caller.WorkspaceID != "ws-default" {
		t.Errorf("got %+v, %v", x.Caller, err)
	}
}

func TestPrepareRefusesWhatIsNoGoodCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := strings.Repeat("m", maxModel)
	for _, c := range []struct {
		name, body string
		status     int // 0: accepted
		code       string
		param      any
	}{
		{"a chat", chat, 0, "", nil},
		{"a chat with space around it", " \r\n\t{ \"model\" : \"m\" , " + messages + " } \n", 0, "", nil},
		{"no body", ``, 400, "invalid_json", nil},
		{"an array", `[]`, 400, "invalid_json", nil},
		{"a string", `"model"`, 400, "invalid_json", nil},
		{"half an object", `{"model":"m"`, 400, "invalid_json", nil},
		{"two objects", chat + chat, 400, "invalid_json", nil},
		{"a byte order mark", "\ufeff" + chat, 400, "invalid_json", nil},
		{"a form", `model=m`, 400, "invalid_json", nil},
		{"a fault far behind the model", `{"model":"m","messages":[{]}`, 400, "invalid_json", nil},
		{"the deepest nesting", with(`"a":` + strings.Repeat("[", 255) + strings.Repeat("]", 255)), 0, "", nil},
		{"a deeper one", with(`"a":` + strings.Repeat("[", 256) + strings.Repeat("]", 256)), 400, "invalid_json", nil},

		{"model twice", with(`"model":"b"`), 400, "duplicate_field", "model"},
		{"model twice, alike", with(`"x":1,"model":"m"`), 400, "duplicate_field", "model"},
		{"model twice, first null", `{"model":null,"model":"b",` + messages + `}`, 400, "duplicate_field", "model"},
		{"model twice, once escaped", with(`"mod\u0065l":"b"`), 400, "duplicate_field", "model"},
		{"model twice, both escaped", `{"\u006dodel":"a","\u006d\u006fdel":"b",` + messages + `}`, 400, "duplicate_field", "model"},
		{"model in another letter case", `{"Model":"a",` + messages + `}`, 400, "duplicate_field", "Model"},
		{"model in two letter cases", with(`"MODEL":"b"`), 400, "duplicate_field", "MODEL"},
		{"model in another letter case, escaped", with(`"\u004dodel":"b"`), 400, "duplicate_field", "Model"},
		{"stream twice", with(`"stream":true,"stream":false`), 400, "duplicate_field", "stream"},
		{"stream twice, once escaped", with(`"stream":true,"\u0073tream":false`), 400, "duplicate_field", "stream"},
		{"stream in another letter case", with(`"STREAM":true`), 400, "duplicate_field", "STREAM"},
		{"stream with a letter that folds to s", with(`"` + "\u017f" + `tream":true`), 400, "duplicate_field", "\u017ftream"},
		{"stream with an escaped letter that folds to s", with(`"\u017ftream":true`), 400, "duplicate_field", "\u017ftream"},
		{"messages twice", with(messages), 400, "duplicate_field", "messages"},
		{"model further in, which nobody reads", with(`"x":{"model":"b","MODEL":"c"}`), 0, "", nil},
		{"a field twice that a rule reads", with(`"top_p":1,"top_p":0`), 400, "duplicate_field", "top_p"},
		{"a field twice that the gateway does not read", with(`"top_k":1,"top_k":0`), 0, "", nil},
		{"a field whose name is longer", with(`"model_":"b","models":["c"]," model":"d"`), 0, "", nil},

		{"no messages", `{"model":"m"}`, 400, "missing_required_parameter", "messages"},
		{"null as messages", `{"model":"m","messages":null}`, 400, "missing_required_parameter", "messages"},
		{"empty messages", `{"model":"m","messages":[]}`, 400, "array_below_min_length", "messages"},
		{"a text as messages", `{"model":"m","messages":"hi"}`, 400, "invalid_type", "messages"},
		{"a message without a role", `{"model":"m","messages":[{"role":"user"},{"content":"hi"}]}`, 400, "missing_required_parameter", "messages[1].role"},
		{"a message of no known role", `{"model":"m","messages":[{"role":"x"}]}`, 400, "invalid_value", "messages[0].role"},
		{"no model", `{"stream":false,` + messages + `}`, 400, "missing_required_parameter", "model"},
		{"a null model", `{"model":null,` + messages + `}`, 400, "missing_required_parameter", "model"},
		{"a number as model", `{"model":1,` + messages + `}`, 400, "invalid_type", "model"},
		{"a list as model", `{"model":["a"],` + messages + `}`, 400, "invalid_type", "model"},
		{"an object as model", `{"model":{},` + messages + `}`, 400, "invalid_type", "model"},
		{"true as model", `{"model":true,` + messages + `}`, 400, "invalid_type", "model"},
		{"the longest model", `{"model":"` + long[2:] + `",` + messages + `}`, 0, "", nil},
		{"a longer model", `{"model":"` + long[1:] + `",` + messages + `}`, 400, "string_above_max_length", "model"},
		{"null as stream", with(`"stream":null`), 0, "", nil},
		{"a string as stream", with(`"stream":"true"`), 400, "invalid_type", "stream"},
		{"a number as stream", with(`"stream":1`), 400, "invalid_type", "stream"},
		{"an object as stream", with(`"stream":{}`), 400, "invalid_type", "stream"},
		{"a temperature that is too high", with(`"temperature":2.1`), 400, "decimal_above_max_value", "temperature"},
		{"top_logprobs without logprobs", with(`"top_logprobs":1`), 400, "invalid_value", "top_logprobs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := w.begin(t, w.good(c.body)).Prepare(limits)
			if c.status == 0 {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if err == nil {
				t.Fatal("accepted")
			}
			inner := mustBeEnvelope(t, err.JSON(Envelope{}))
			if err.Status != c.status || err.Code != c.code || inner["param"] != c.param {
				t.Errorf("got %d %s", err.Status, err.JSON(Envelope{}))
			}
		})
	}
}

func TestPrepareLooksAtTheContentType(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for value, want := range map[string]bool{
		"": true, "application/json": true, "application/json; charset=utf-8": true, "APPLICATION/JSON": true, "application/vnd.api+json": true, "application/json;": true,
		"text/plain": false, "application/xml": false, "multipart/form-data; boundary=x": false, "application/x-www-form-urlencoded": false, "text/json": false,
		"application/json; charset*=utf-8''utf-8; charset=utf-7": false, "application/json; charset*0=utf-; charset*1=8; charset=utf-7": false, "application/json; charset=utf-8; charset=utf-7": false,
		"application/jsonp": false, "json": false, "audio/+json": false, ";": false,
	} {
		r := w.good(chat)
		if r.Header.Set("Content-Type", value); value == "" {
			r.Header.Del("Content-Type")
		}
		err := w.begin(t, r).Prepare(limits)
		if (err == nil) != want {
			t.Errorf("%q: got %v", value, err)
		}
		if err != nil && (err.Status != 400 || err.Code != "invalid_content_type") {
			t.Errorf("%q: got %+v", value, err)
		}
	}
}

func TestPrepareEnforcesTheLimitOfTheBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body := chat
	for _, c := range []struct {
		limit int64
		want  int
	}{{int64(len(body)) - 1, 413}, {int64(len(body)), 0}, {0, 413}} {
		err := w.begin(t, w.good(body)).Prepare(Limits{Body: c.limit, Upload: c.limit, Replay: 1 << 20})
		if (err == nil) != (c.want == 0) || err != nil && err.Status != c.want {
			t.Errorf("limit %d: got %v", c.limit, err)
		}
	}
	broken := w.good("")
	broken.Body, broken.ContentLength = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF)), -1
	if err := w.begin(t, broken).Prepare(limits); err == nil || err.Status != 400 || err.Code != "body_unreadable" || err.Err == nil {
		t.Errorf("a body that breaks off: got %+v", err)
	}
}

func TestPrepareWorksOnceAndStillEnforcesALowerLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := w.begin(t, w.good(chat))
	if err := x.Prepare(limits); err != nil {
		t.Fatal(err)
	}
	route := x.chosen.Route
	if err := x.Prepare(Limits{Body: 5, Upload: 5, Replay: 1 << 20}); err == nil || err.Status != 413 {
		t.Errorf("a lower limit: got %v", err)
	}
	if err := x.Prepare(limits); err != nil || x.chosen.Route != route {
		t.Errorf("got %v", err)
	}

	x = w.begin(t, w.good(`{"model":1}`))
	first := x.Prepare(limits)
	if second := x.Prepare(Limits{Body: 1, Upload: 1, Replay: 1 << 20}); first == nil || second != first {
		t.Errorf("got %v, then %v", first, second)
	}
}

func TestPrepareDoesNotReadTheBodyOfAStranger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body := &countingReader{}
	r := w.call("", "x-gw-api-key", "unknown", "x-gw-provider", "file")
	r.Body, r.ContentLength = io.NopCloser(body), -1
	if err := w.begin(t, r).Prepare(limits); err == nil || err.Status != 401 || body.n != 0 {
		t.Errorf("got %v after %d bytes", err, body.n)
	}
}

func FuzzPrepare(f *testing.F) {
	for _, seed := range []string{
		`{}`, chat, `{"model":"@file/gpt","stream":true,` + messages + `}`, `{"model":"gpt","Model":"x",` + messages + `}`, `{"mod\u0065l":"@file/a/b",` + messages + `}`,
		`{"model":"@file/",` + messages + `}`, `{"stream":1,` + messages + `}`, `{"model":null,"stream":null,` + messages + `}`, `{"model":"@own/x",` + messages + `}`,
		`{"model":"@file/\ud800\u0041",` + messages + `}`, "{\"model\":\"@file/\xff\"," + messages + "}",
	} {
		f.Add(seed)
	}
	w := newWorld(f)
	f.Fuzz(func(t *testing.T, body string) {
		r := w.good(body)
		x := w.Begin(httptest.NewRecorder(), r, endpointOf(r))
		defer x.Close()
		if err := x.Prepare(limits); err != nil {
			mustBeEnvelope(t, err.JSON(Envelope{}))
			if err.Status != 400 {
				t.Fatalf("status %d of %q", err.Status, body)
			}
			return
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(body), &members); err != nil {
			t.Fatalf("accepted %q: %v", body, err)
		}
		// A decoder that takes keys in any letter case reads what the gateway read.
		var loose struct {
			Model  *string
			Stream *bool
		}
		if err := json.Unmarshal([]byte(body), &loose); err != nil {
			t.Fatalf("accepted %q: %v", body, err)
		}
		if (loose.Stream != nil && *loose.Stream) != x.Stream {
			t.Fatalf("%q: stream is %v", body, x.Stream)
		}
		if loose.Model != nil && x.chosen.Route.Model == "" && string([]rune(x.Model)) != *loose.Model {
			t.Fatalf("%q: the model is %q, others read %q", body, x.Model, *loose.Model)
		}
		b, _, err := x.chosen.Payload().JSON(false)
		if err != nil {
			t.Fatalf("no body of %q: %v", body, err)
		}
		defer b.Release()
		mustReplaceOnlyTheModel(t, x, body, string(b.Bytes()))
	})
}
