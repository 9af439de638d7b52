package handlers_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// Each file of testdata/clients is a client. NAME.http is a call as the client makes it: a
// line with its method and path, its headers, and its body after an empty line. gw-key stands
// for a service key, and UPSTREAM for the provider's address. NAME.up is what the provider
// gets of it. The provider "stored" is the Caddyfile's.
func TestCallsOfClientsReachTheirProvider(t *testing.T) {
	up := gatewaytest.NewUpstream(t, answerAnything)
	g := gatewaytest.Start(t, "block_inline_config off\ntrusted_custom_hosts 127.0.0.1\npassthrough_paths POST /v1/fim/completions\n"+
		up.Provider("stored")+
		strings.Replace(up.Provider("claude"), "type openai", "type anthropic", 1)+
		strings.Replace(up.Provider("mistral"), "type openai", "type mistral-ai\npassthrough_paths POST /v1/fim/completions", 1))
	key, _ := g.Key("k")
	g.Admin("POST", "/v1/virtual-keys", map[string]any{"name": "vk", "slug": "vk", "provider": "openai", "key": "sk-of-vk", "custom_host": up.URL + "/v1"})
	unseen := make(map[string]bool)
	for _, name := range []string{
		"ocr", "chatComplete", "complete", "moderate", "embed", "createBatch", "listBatches", "retrieveBatch", "cancelBatch", "listFinetunes", "retrieveFinetune",
		"cancelFinetune", "createModelResponse", "getModelResponse", "deleteModelResponse", "messages", "messagesCountTokens", "models",
	} {
		unseen[name] = true
	}
	files, err := filepath.Glob("testdata/clients/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no clients: %v", err)
	}
	for _, file := range files {
		client, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		members := make(map[string]string)
		for _, m := range client.Files {
			members[m.Name] = string(m.Data)
		}
		for _, m := range client.Files {
			name, isCall := strings.CutSuffix(m.Name, ".http")
			if up, isUp := strings.CutSuffix(m.Name, ".up"); !isCall && (!isUp || members[up+".http"] == "") {
				t.Errorf("%s: %s is neither a call nor what becomes of one", file, m.Name)
			}
			if !isCall {
				continue
			}
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+"/"+name, func(t *testing.T) {
				method, path, headers, body := clientCall(t, strings.NewReplacer("gw-key", key, "UPSTREAM", up.URL).Replace(string(m.Data)))
				before := len(up.Calls())
				a := g.Do(method, path, body, headers...)
				if sent := len(up.Calls()) - before; a.Status != http.StatusOK || sent != 1 {
					t.Fatalf("%d %s, sent %d", a.Status, a.Body, sent)
				}
				if got, want := sentUp(up.Last(t)), members[name+".up"]; got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
				plain, _, _ := strings.Cut(path, "?")
				if e, _ := exchange.EndpointOf(method, plain); e != nil {
					delete(unseen, e.Name)
				}
			})
		}
	}
	if len(unseen) > 0 {
		t.Errorf("no client calls %v", unseen)
	}
}

// clientCall reads a call of testdata/clients. Its headers are as Gateway.Do takes them; those
// that Go's client would add are not sent.
func clientCall(t *testing.T, text string) (method, path string, headers []string, body string) {
	t.Helper()
	r := bufio.NewReader(strings.NewReader(text))
	line, _ := textproto.NewReader(r).ReadLine() // an empty one fails below
	method, path, ok := strings.Cut(line, " ")
	header, err := textproto.NewReader(r).ReadMIMEHeader()
	if !ok || err != nil && err != io.EOF {
		t.Fatalf("no call: %v\n%s", err, text)
	}
	rest, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		if name == "Content-Type" {
			continue // Do sets it
		}
		headers = append(headers, name+": "+strings.Join(values, ", "))
	}
	return method, path, headers, strings.TrimSuffix(string(rest), "\n")
}

// perCall are headers that differ from call to call, or from machine to machine.
var perCall = []string{"Cdn-Loop", "Content-Length", "Traceparent", "X-Request-Id"}

// sentUp is a call that a provider got, as testdata/clients has it.
func sentUp(c gatewaytest.Call) string {
	path := c.Path
	if c.Query != "" {
		path += "?" + c.Query
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", c.Method, path)
	var names []string
	for name := range c.Header {
		if !slices.Contains(perCall, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(c.Header[name], ", "))
	}
	if c.Body != "" {
		fmt.Fprintf(&b, "\n%s\n", c.Body)
	}
	return b.String()
}

// answerAnything answers each call with something that is an answer to it.
func answerAnything(w http.ResponseWriter, r *http.Request) {
	answer := gatewaytest.Completion
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/models"):
		answer = `{"object":"list","data":[]}`
	case r.Method == http.MethodGet && !strings.Contains(path, "_1") && !strings.Contains(path, "-1"):
		answer = `{"object":"list","data":[],"has_more":false}`
	case strings.Contains(path, "batch"):
		answer = `{"id":"batch_1","object":"batch"}`
	case strings.Contains(path, "fine_tuning"):
		answer = `{"id":"ftjob-1","object":"fine_tuning.job"}`
	case strings.Contains(path, "/responses"):
		answer = `{"id":"resp_1","object":"response","status":"completed","output":[]}`
	case strings.Contains(path, "/messages"):
		answer = `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"At 4."}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`
	case strings.Contains(path, "/moderations"):
		answer = `{"id":"mod-1","model":"m","results":[{"flagged":false,"categories":{},"category_scores":{}}]}`
	case strings.Contains(path, "/embeddings"):
		answer = `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5]}],"model":"m","usage":{"prompt_tokens":1,"total_tokens":1}}`
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, answer)
}
