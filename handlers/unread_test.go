package handlers_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

func gzipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(s))
	_ = w.Close()
	return b.String()
}

func utf16LE(s string) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(s)) {
		b.WriteByte(byte(u))
		b.WriteByte(byte(u >> 8))
	}
	return b.String()
}

// What of a call may have a model that was not read passes where nothing depends on it.
// A limit on a model counts what was read, and refuses the rest; a config's change of a
// field is made, or the call is refused.
func TestNothingUnreadPassesALimitOrAnEdit(t *testing.T) {
	const (
		dear      = `{"model":"dear","prompt":"p"}`
		jsonType  = "content-type: application/json"
		formType  = "content-type: multipart/form-data; boundary=b"
		anyPath   = "/v1/passed/on"
		socket    = "connection: Upgrade\nupgrade: websocket\nsec-websocket-key: a\nsec-websocket-version: 13"
		part      = "--b\r\nContent-Disposition: form-data; name="
		end       = "\r\n--b--\r\n"
		textField = part + "\"prompt\"\r\n\r\np\r\n"
	)
	const (
		counted = 429 // by the limit on the model
		unread  = 400
		free    = 200
	)
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"c"},"finish_reason":"stop"}]}`))
	})
	g := gatewaytest.Start(t, "block_inline_config off\n"+strings.Replace(up.Provider("file"), "{\n", "{\npassthrough_paths /v1/passed/* /v1/models/* /v1/x/*\n", 1))
	key, _ := g.Key("k")

	for name, c := range map[string]struct {
		method, path, body, headers string
		bare, limited, edited       int
	}{
		"JSON":                            {"POST", "/v1/chat/completions", gatewaytest.Chat, jsonType, 200, free, 200},
		"JSON with the model":             {"POST", anyPath, dear, jsonType, 200, counted, 200},
		"JSON with a charset":             {"POST", anyPath, dear, jsonType + "; charset=UTF-8", 200, counted, 200},
		"JSON without a model":            {"POST", anyPath, `{"engine":"x"}`, jsonType, 200, unread, 200},
		"no content type":                 {"POST", anyPath, dear, "content-type:", 200, unread, 400},
		"another content type":            {"POST", anyPath, dear, "content-type: text/plain", 200, unread, 400},
		"two content types in one":        {"POST", anyPath, dear, "content-type: text/plain, application/json", 200, unread, 400},
		"JSON of a kind":                  {"POST", anyPath, dear, "content-type: text/json", 200, unread, 400},
		"a form in the URL's encoding":    {"POST", anyPath, "model=dear", "content-type: application/x-www-form-urlencoded", 200, unread, 400},
		"UTF-16":                          {"POST", anyPath, utf16LE(dear), jsonType + "; charset=utf-16", 200, unread, 400},
		"UTF-16, unsaid":                  {"POST", anyPath, utf16LE(dear), jsonType, 200, unread, 400},
		"UTF-7":                           {"POST", anyPath, `{"+AG0AbwBkAGUAbA-":"dear"}`, jsonType + "; charset=utf-7", 200, unread, 400},
		"UTF-7, listed":                   {"POST", "/v1/chat/completions", gatewaytest.Chat, jsonType + "; charset=utf-7", 400, 400, 400},
		"two charsets":                    {"POST", anyPath, `{"+AG0AbwBkAGUAbA-":"dear"}`, jsonType + "; charset*=utf-8''utf-8; charset=utf-7", 200, unread, 400},
		"two charsets, listed":            {"POST", "/v1/chat/completions", gatewaytest.Chat, jsonType + "; charset*=utf-8''utf-8; charset=utf-7", 400, 400, 400},
		"not UTF-8":                       {"POST", anyPath, `{"model":"dear","x":"` + "\xff" + `"}`, jsonType, 200, unread, 400},
		"not UTF-8, listed":               {"POST", "/v1/chat/completions", strings.Replace(gatewaytest.Chat, `"user"`, `"user","name":"`+"\xff"+`"`, 1), jsonType, 400, 400, 400},
		"a byte order mark":               {"POST", anyPath, "\xef\xbb\xbf" + dear, jsonType, 200, unread, 400},
		"gzip":                            {"POST", anyPath, gzipped(dear), jsonType + "\ncontent-encoding: gzip", 200, counted, 200},
		"gzip, listed":                    {"POST", "/v1/chat/completions", gzipped(gatewaytest.Chat), jsonType + "\ncontent-encoding: gzip", 200, free, 200},
		"said to be gzip":                 {"POST", anyPath, dear, jsonType + "\ncontent-encoding: gzip", 400, 400, 400},
		"lines of JSON":                   {"POST", anyPath, dear + "\n" + dear, jsonType, 200, unread, 400},
		"GET with JSON":                   {"GET", "/v1/files", dear, jsonType, 200, counted, 200},
		"GET with something":              {"GET", "/v1/files", dear, "content-type:", 200, unread, 400},
		"DELETE with something":           {"DELETE", anyPath, dear, "content-type: x/y", 200, unread, 400},
		"a body that is not expected":     {"POST", "/v1/batches/b/cancel", dear, "content-type: x/y", 200, unread, 400},
		"no body":                         {"POST", anyPath, "", "content-type:", 200, unread, 400},
		"a list":                          {"GET", "/v1/files", "", "", 200, free, 200},
		"an object":                       {"GET", "/v1/files/f", "", "", 200, free, 200},
		"what is deleted":                 {"DELETE", "/v1/files/f", "", "", 200, free, 200},
		"cancelled":                       {"POST", "/v1/batches/b/cancel", "", "", 200, free, 200},
		"cancelled with an empty object":  {"POST", "/v1/batches/b/cancel", "{}", jsonType, 200, free, 200},
		"models":                          {"GET", "/v1/models", "", "", 200, free, 200},
		"a query":                         {"POST", anyPath + "?model=dear", "", "content-type:", 200, counted, 200},
		"a query with media":              {"POST", anyPath + "?a=1&model=dear", "RIFF\x00\x01\x02", "content-type: audio/wav", 200, counted, 200},
		"a query with what may be JSON":   {"POST", anyPath + "?model=cheap", dear, "content-type: text/plain", 200, unread, 400},
		"a query with media that is JSON": {"POST", anyPath + "?model=cheap", " " + dear, "content-type: audio/wav", 200, unread, 400},
		"a query in capitals":             {"POST", anyPath + "?Model=dear", "", "content-type:", 200, counted, 200},
		"a query in escapes":              {"POST", anyPath + "?mod%65l=de%61r", "", "content-type:", 200, counted, 200},
		"a query with a semicolon":        {"POST", anyPath + "?a=1;model=dear", "", "content-type:", 200, counted, 200},
		"two in a query":                  {"POST", anyPath + "?model=cheap&model=dear", "", "content-type:", 200, unread, 400},
		"a query with a body":             {"POST", anyPath + "?model=dear", `{"model":"cheap"}`, jsonType, 200, unread, 200},
		"a query that agrees":             {"POST", anyPath + "?model=dear", dear, jsonType, 200, counted, 200},
		"a path with a verb":              {"POST", "/v1/models/dear:generate", `{"a":1}`, jsonType, 200, counted, 400},
		"a path":                          {"POST", "/v1/x/deployments/dear/complete", `{"a":1}`, jsonType, 200, counted, 400},
		"a path in escapes":               {"POST", "/v1/x/deployments/dear%20one/complete", `{"a":1}`, jsonType, 200, free, 400},
		"a path with a body":              {"POST", "/v1/models/dear:generate", `{"model":"cheap"}`, jsonType, 200, unread, 400},
		"a long path":                     {"POST", "/v1/models/of/dear:generate", `{"a":1}`, jsonType, 200, unread, 400},
		"a model that is looked at":       {"GET", "/v1/models/dear", "", "", 200, counted, 400},
		"a form":                          {"POST", "/v1/images/edits", part + "\"model\"\r\n\r\ndear" + end, formType, 200, counted, 200},
		"a form of an unlisted path":      {"POST", anyPath, textField[:len(textField)-2] + end, formType, 200, unread, 400},
		"a file named model":              {"POST", "/v1/images/edits", part + "\"model\"; filename=\"m\"\r\n\r\ndear" + end, formType, 200, unread, 400},
		"a file named model behind":       {"POST", "/v1/images/edits", part + "\"model\"\r\n\r\ncheap\r\n" + part + "\"model\"; filename=\"m\"\r\n\r\ndear" + end, formType, 400, 400, 400},
		"JSON in a form":                  {"POST", "/v1/images/edits", dear, formType, 400, 400, 400},
		"a form in another charset":       {"POST", "/v1/images/edits", part + "\"model\"\r\n\r\ncheap" + end, formType + "; charset=utf-7", 400, 400, 400},
		"audio":                           {"POST", "/v1/audio/transcriptions", "RIFF", "content-type: audio/wav", 200, unread, 400},
		"an upload":                       {"POST", "/v1/files", part + "\"purpose\"\r\n\r\nbatch" + end, formType, 200, free, 200},
		"realtime":                        {"GET", "/v1/realtime?model=dear", "", socket, 200, counted, 200},
		"realtime without a model":        {"GET", "/v1/realtime?call_id=c", "", socket, 200, unread, 400},
		"a socket":                        {"GET", anyPath, "", socket, 200, unread, 400},
		"an image without a model":        {"POST", "/v1/images/generations", `{"prompt":"p"}`, jsonType, 200, unread, 200},
		"a moderation without a model":    {"POST", "/v1/moderations", `{"input":"i"}`, jsonType, 200, unread, 200},
		"a model that is null":            {"POST", "/v1/images/generations", `{"model":null,"prompt":"p"}`, jsonType, 200, unread, 200},
		"a stored prompt":                 {"POST", "/v1/responses", `{"prompt":{"id":"pmpt_1"}}`, jsonType, 200, unread, 200},
		"an eval":                         {"POST", "/v1/evals/e/runs", `{"model":"cheap","data_source":{"type":"completions","model":"dear"}}`, jsonType, 200, unread, 400},
		"parameters of an eval":           {"POST", "/v1/evals/e/runs", `{"data_source":{"sampling_params":{"model":"dear"}}}`, jsonType, 200, unread, 400},
		"a criterion of an eval":          {"POST", "/v1/evals", `{"model":"cheap","testing_criteria":[{"type":"label_model","model":"dear"}]}`, jsonType, 200, unread, 400},
		"a grader":                        {"POST", "/v1/fine_tuning/alpha/graders/run", `{"model":"cheap","grader":{"graders":{"a":{"model":"dear"}}}}`, jsonType, 200, unread, 400},
		"a client secret":                 {"POST", "/v1/realtime/client_secrets", `{"model":"cheap","session":{"model":"dear"}}`, jsonType, 200, unread, 400},
		"a session in capitals":           {"POST", "/v1/realtime/client_secrets", `{"model":"cheap","Session":{"model":"dear"}}`, jsonType, 200, unread, 400},
		"a session in escapes":            {"POST", "/v1/realtime/client_secrets", `{"model":"cheap","s\u0065ssion":{"model":"dear"}}`, jsonType, 200, unread, 400},
		"a session with a transcription":  {"POST", "/v1/realtime/sessions", `{"model":"cheap","input_audio_transcription":{"model":"dear"}}`, jsonType, 200, unread, 400},
		"a session":                       {"POST", "/v1/realtime/sessions", `{"model":"dear"}`, jsonType, 200, counted, 200},
		"a call with a session":           {"POST", "/v1/realtime/calls", part + "\"model\"\r\n\r\ncheap\r\n" + part + "\"session\"\r\n\r\n{\"model\":\"dear\"}" + end, formType, 200, unread, 400},
		"a workflow":                      {"POST", "/v1/chatkit/sessions", `{"model":"cheap","workflow":{"id":"w"}}`, jsonType, 200, unread, 400},
		"models to fall back to":          {"POST", "/v1/chat/completions", `{"models":["dear"],` + gatewaytest.Chat[1:], jsonType, 200, unread, 400},
		"a tool with a model":             {"POST", "/v1/responses", `{"model":"cheap","input":"i","tools":[{"type":"image_generation","model":"dear"}]}`, jsonType, 200, unread, 400},
		"an adviser among tools":          {"POST", "/v1/messages", `{"model":"cheap","max_tokens":9,"messages":[{"role":"user","content":"c"}],"tools":[{"type":"advisor","model":"dear"}]}`, jsonType, 400, unread, 400},
		"a transcription's model":         {"POST", "/v1/realtime/transcription_sessions", `{"transcription":{"model":"dear"}}`, jsonType, 200, unread, 400},
		"a tool that asks for a model":    {"POST", "/v1/responses", `{"model":"cheap","input":"i","tools":[{"type":"function","name":"f","parameters":{"properties":{"model":{}}}}]}`, jsonType, 200, free, 200},
		"a job with a grader":             {"POST", "/v1/fine_tuning/jobs", `{"model":"cheap","training_file":"f","method":{"type":"reinforcement","reinforcement":{"grader":{"model":"dear"}}}}`, jsonType, 200, unread, 400},
		"a job with a method":             {"POST", "/v1/fine_tuning/jobs", `{"model":"cheap","training_file":"f","method":{"type":"supervised"}}`, jsonType, 200, free, 200},
		"a deployment":                    {"GET", "/v1/realtime?deployment=dear", "", socket, 200, counted, 400},
		"a deployment with a model":       {"GET", "/v1/realtime?model=cheap&deployment=dear", "", socket, 200, unread, 400},
		"an assistant":                    {"POST", "/v1/assistants", `{"model":"dear"}`, jsonType, 200, counted, 200},
		"a run":                           {"POST", "/v1/threads/t/runs", `{"assistant_id":"a"}`, jsonType, 200, unread, 200},
		"a session of an unlisted path":   {"POST", anyPath, `{"model":"cheap","session":{"model":"dear"}}`, jsonType, 200, unread, 400},
		"a parameter of the path":         {"POST", "/v1/chat/completions;a", gatewaytest.Chat, jsonType, 404, 404, 404},
		"a parameter behind a slash":      {"POST", "/v1/chat/completions/;", gatewaytest.Chat, jsonType, 404, 404, 404},
		"capitals in the path":            {"POST", "/v1/Chat/completions", gatewaytest.Chat, jsonType, 404, 404, 404},
		"a slash at the end":              {"POST", "/v1/chat/completions/", gatewaytest.Chat, jsonType, 404, 404, 404},
		"an escaped letter":               {"POST", "/v1/%63hat/completions", gatewaytest.Chat, jsonType, 404, 404, 404},
		"an escaped line end":             {"POST", "/v1/chat/completions%0a", gatewaytest.Chat, jsonType, 404, 404, 404},
		"an escaped semicolon":            {"POST", "/v1/chat/completions%3Ba", gatewaytest.Chat, jsonType, 404, 404, 404},
		"a suffix":                        {"POST", "/v1/chat/completions.json", gatewaytest.Chat, jsonType, 404, 404, 404},
		"capitals behind an id":           {"GET", "/v1/files/f/Content", "", "", 404, 404, 404},
	} {
		t.Run(name, func(t *testing.T) {
			g.T = t
			ask := func(way string) (*gatewaytest.Answer, int) {
				before := len(up.Calls())
				headers := append([]string{"x-gw-api-key: " + key, "content-type:", way}, strings.Split(c.headers, "\n")...)
				return g.Do(c.method, c.path, c.body, headers...), len(up.Calls()) - before
			}
			check := func(what, way string, want int) {
				t.Helper()
				a, sent := ask(way)
				if a.Status != want || (sent > 0) != (want == 200) || want == 400 && a.Get("error.message").Str == "" {
					t.Errorf("%s: %d %s, and the provider got %d calls", what, a.Status, a.Body, sent)
				}
			}
			const file, edit = "x-gw-provider: file", `x-gw-config: {"provider":"@file","override_params":{"model":"set"}}`
			check("bare", file, c.bare)
			check("edited", edit, c.edited)
			if c.edited == 200 {
				sent := up.Last(t)
				if body, query := sent.Body, sent.Query; strings.Contains(body+query, "dear") || strings.Contains(body+query, "cheap") {
					t.Errorf("edited: the provider got %q %q", query, body)
				}
			}
			id := policy(g, map[string]any{"value": 0, "conditions": when("model", "dear")})
			check("limited", file, c.limited)
			g.Admin("DELETE", "/v1/policies/rate-limits/"+id, nil)
			id = policy(g, map[string]any{"value": 0, "group_by": by("model"), "conditions": when("endpoint_type", "ocr")})
			check("limited otherwise", file, c.bare)
			g.Admin("DELETE", "/v1/policies/rate-limits/"+id, nil)
		})
	}
}

// A condition on a parameter is not answered by what nobody read: the call is refused, and
// does not go to the default target. The model is known where the form or the URL has it.
func TestConditionsReadNoParametersOfAnUnreadBody(t *testing.T) {
	const (
		formType = "content-type: multipart/form-data; boundary=b"
		form     = "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\ndear\r\n--b--\r\n"
		socket   = "connection: Upgrade\nupgrade: websocket\nsec-websocket-key: a\nsec-websocket-version: 13"
		model    = `{"params.model":"dear"}`
		user     = `{"params.user":"u"}`
	)
	up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(`{"id":"x"}`)) })
	g := gatewaytest.Start(t, "block_inline_config off\n"+strings.Replace(up.Provider("file")+up.Provider("other"), "{\n", "{\npassthrough_paths /v1/passed/*\n", 2))
	key, _ := g.Key("k")
	for name, c := range map[string]struct {
		method, path, body, headers, query string
		want                               string // index of the target; "": refused
	}{
		"JSON":                              {"POST", "/v1/passed/on", `{"user":"u"}`, "content-type: application/json", user, "1"},
		"JSON without it":                   {"POST", "/v1/passed/on", `{"a":1}`, "content-type: application/json", user, "0"},
		"another content type":              {"POST", "/v1/passed/on", `{"user":"u"}`, "content-type: text/plain", user, ""},
		"what is not JSON":                  {"POST", "/v1/passed/on", `{"user":`, "content-type: application/json", user, ""},
		"a form":                            {"POST", "/v1/audio/transcriptions", form, formType, user, ""},
		"the model of a form":               {"POST", "/v1/audio/transcriptions", form, formType, model, "1"},
		"the model of a form that has none": {"POST", "/v1/audio/transcriptions", strings.Replace(form, "model", "other", 1), formType, model, ""},
		"the model of a query":              {"POST", "/v1/passed/on?model=dear", `{"a":1}`, "content-type: application/json", model, "1"},
		"a socket":                          {"GET", "/v1/realtime?model=dear", "", socket, user, ""},
		"the model of a socket":             {"GET", "/v1/realtime?model=dear", "", socket, model, "1"},
		"no body":                           {"GET", "/v1/passed/on", "", "content-type:", user, "0"},
		"what was decided before":           {"POST", "/v1/passed/on", `x`, "content-type: text/plain", `{"$or":[{"headers.x-a":"b"},` + user + `]}`, "1"},
		"what nothing decides":              {"POST", "/v1/passed/on", `x`, "content-type: text/plain", `{"$and":[{"headers.x-a":"c"},` + user + `]}`, "0"},
		"metadata":                          {"POST", "/v1/passed/on", `x`, "content-type: text/plain", `{"metadata.a":"b"}`, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			g.T = t
			before := len(up.Calls())
			config := `x-gw-config: {"strategy":{"mode":"conditional","conditions":[{"query":` + c.query + `,"then":"b"}],"default":"a"},"targets":[{"name":"a","provider":"@file"},{"name":"b","provider":"@other"}]}`
			a := g.Do(c.method, c.path, c.body, append([]string{"content-type:", "x-gw-api-key: " + key, config, "x-a: b"}, strings.Split(c.headers, "\n")...)...)
			if sent := len(up.Calls()) - before; c.want == "" && (a.Status != 400 || sent != 0 || a.Get("error.code").Str != "params_unread" ||
				!strings.Contains(a.Get("error.message").Str, "params.")) || c.want != "" && (sent != 1 || a.Header.Get("x-gw-last-used-option-index") != "config.targets["+c.want+"]") {
				t.Errorf("%d %s, target %q, %d calls", a.Status, a.Body, a.Header.Get("x-gw-last-used-option-index"), sent)
			}
		})
	}
}

// A provider reads a body as the gateway did: it is told nothing that the client said of its charset.
func TestAJSONBodyIsSentAsWhatItWasReadAs(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answering)
	g := gatewaytest.Start(t, up.Provider("file"))
	key, _ := g.Key("k")
	for _, contentType := range []string{"Application/JSON; charset=UTF-8", "application/json; charset=us-ascii; x=y"} {
		a := g.Do("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-api-key: "+key, "x-gw-provider: @file", "content-type: "+contentType)
		calls := up.Calls()
		if a.Status != 200 || len(calls) == 0 || calls[len(calls)-1].Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s, %d calls", contentType, a.Status, a.Body, len(calls))
		}
	}
}
