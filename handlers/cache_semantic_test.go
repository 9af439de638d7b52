package handlers_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// meanings is a model of embeddings for which two texts are the same if they begin the
// same, in two dimensions.
func meanings(t *testing.T) *gatewaytest.Upstream {
	var m *gatewaytest.Upstream
	m = gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sk-of-the-file-meanings" || r.Header.Get("X-Client-Request-Id") != "" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		vector := "[1,0]"
		switch text := gjson.Get(m.Last(t).Body, "input").Str; {
		case strings.Contains(text, "broken"):
			w.WriteHeader(http.StatusInternalServerError)
			return
		case strings.Contains(text, "long"):
			vector = "[1,0,0]"
		case strings.Contains(text, "weather"):
			vector = "[0,1]"
		case strings.Contains(text, "nearly"):
			vector = "[0.96,0.28]"
		case strings.Contains(text, "hardly"):
			vector = "[0.9,0.4359]"
		}
		respond(200, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":`+vector+`}],"model":"e","usage":{"prompt_tokens":1}}`)(w, r)
	})
	return m
}

func TestQuestionsOfTheSameMeaningShareAnAnswer(t *testing.T) {
	m := meanings(t)
	l := newLab(t, m.Provider("meanings")+"semantic_cache {\n\t\t\tprovider meanings\n\t\t}\n", "")
	var n atomic.Int64
	l.on("n", replies(&n))
	ask := func(messages, more string, headers ...string) (answer, status string) {
		t.Helper()
		a, err := l.ask("POST", "/v1/chat/completions", `{"model":"m","messages":[`+messages+`]`+more+`}`, append(headers, cue+"n", "x-gw-provider: bad")...)
		if err != nil || a.Status != 200 {
			t.Fatalf("%d %s %v", a.Status, a.Body, err)
		}
		return a.Get("choices.0.message.content").Str, a.Header.Get("x-gw-cache-status")
	}
	user := func(text string) string { return `{"role":"user","content":"` + text + `"}` }
	const semantic = "x-gw-cache: semantic"
	five := strings.Repeat(user("a")+",", 4) + user("b")
	for _, c := range []struct {
		name, messages, more string
		headers              []string
		answer, status       string
	}{
		{"the first", user("capital of France"), "", []string{semantic}, "answer 1", "SEMANTIC MISS"},
		{"the same letters", user("capital of France"), "", []string{semantic}, "answer 1", "HIT"},
		{"other letters", user("which city is it"), "", []string{semantic}, "answer 1", "SEMANTIC HIT"},
		{"near enough", user("nearly the same"), "", []string{semantic}, "answer 1", "SEMANTIC HIT"},
		{"not near enough", user("hardly the same"), "", []string{semantic}, "answer 2", "SEMANTIC MISS"},
		{"another meaning", user("the weather"), "", []string{semantic}, "answer 3", "SEMANTIC MISS"},
		{"other parameters", user("which city is that"), `,"temperature":0.5`, []string{semantic}, "answer 4", "SEMANTIC MISS"},
		{"a namespace", user("which city is that"), "", []string{semantic, "x-gw-cache-namespace: a"}, "answer 5", "SEMANTIC MISS"},
		{"too many messages", five, "", []string{semantic}, "answer 6", "MISS"},
		{"an image", `{"role":"user","content":[{"type":"text","text":"what"},{"type":"image_url","image_url":{"url":"https://x.example/a.png"}}]}`, "", []string{semantic}, "answer 7", "MISS"},
		{"texts in parts", `{"role":"user","content":[{"type":"text","text":"which"},{"type":"text","text":" city"}]}`, "", []string{semantic}, "answer 1", "SEMANTIC HIT"},
		{"a model that fails", user("broken"), "", []string{semantic}, "answer 8", "SEMANTIC MISS"},
		{"by letters only", user("which town"), "", []string{simple}, "answer 9", "MISS"},
		{"a message of the system's", `{"role":"system","content":"be brief"},` + user("yet another"), "", []string{semantic}, "answer 10", "SEMANTIC MISS"},
		{"the same one", `{"role":"system","content":"be brief"},` + user("and another"), "", []string{semantic}, "answer 10", "SEMANTIC HIT"},
		{"another one", `{"role":"system","content":"be cruel"},` + user("and another"), "", []string{semantic}, "answer 11", "SEMANTIC MISS"},
		{"turns before", user("a") + `,{"role":"assistant","content":"b"},` + user("and another"), "", []string{semantic}, "answer 12", "SEMANTIC MISS"},
		{"tools", user("and another"), `,"tools":[{"type":"function","function":{"name":"f"}}]`, []string{semantic}, "answer 13", "SEMANTIC MISS"},
	} {
		if answer, status := ask(c.messages, c.more, c.headers...); answer != c.answer || status != c.status {
			t.Errorf("%s: got %q, %s; want %q, %s", c.name, answer, status, c.answer, c.status)
		}
	}
	if sent := m.Last(t); sent.Path != "/v1/embeddings" || gjson.Get(sent.Body, "model").Str != "text-embedding-3-small" {
		t.Errorf("%s %s", sent.Path, sent.Body)
	}
	if _, status := ask(`{"role":"user","name":"x","content":"which city"}`, "", semantic); status != "MISS" {
		t.Errorf("a name: %s", status)
	}
	l.Load() // what was learned survives
	if answer, status := ask(user("and which one"), "", semantic); answer != "answer 1" || status != "SEMANTIC HIT" {
		t.Errorf("after a reload: %q, %s", answer, status)
	}
	if a := l.chat(`{"model":"m","messages":[`+user("which else")+`]}`, `{"provider":"@bad","cache":{"mode":"semantic"}}`, cue+"n"); a.Header.Get("x-gw-cache-status") != "SEMANTIC HIT" {
		t.Errorf("by a config: %v", a.Header)
	}
	// A fresh answer is found by its meaning, too.
	if _, status := ask(user("the weather, but fresh"), "", semantic, "x-gw-cache-namespace: fresh", "x-gw-cache-force-refresh: true"); status != "REFRESH" {
		t.Errorf("refreshed: %s", status)
	}
	if _, status := ask(user("weather"), "", semantic, "x-gw-cache-namespace: fresh"); status != "SEMANTIC HIT" {
		t.Errorf("after a refresh: %s", status)
	}
	// Meanings of another length are others.
	for _, c := range []struct{ text, want string }{{"long", "SEMANTIC MISS"}, {"long too", "SEMANTIC HIT"}, {"which city", "SEMANTIC HIT"}} {
		if _, status := ask(user(c.text), "", semantic); status != c.want {
			t.Errorf("%s: %s, want %s", c.text, status, c.want)
		}
	}
	// Another model has other words for meanings.
	l.Options = strings.Replace(l.Options, "provider meanings\n", "provider meanings\n\t\t\tmodel other\n", 1)
	l.Load()
	if _, status := ask(user("which of them"), "", semantic); status != "SEMANTIC MISS" {
		t.Errorf("with another model: %s", status)
	}
}

func TestSemanticNeedsAModelOfEmbeddings(t *testing.T) {
	l := newLab(t, "", "")
	if a, _ := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-provider: good", "x-gw-cache: semantic"); a.Status != 400 || !strings.Contains(a.Body, "semantic_cache") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := l.chat(gatewaytest.Chat, `{"provider":"@good","cache":"semantic"}`); a.Status != 400 || !strings.Contains(a.Body, "semantic_cache") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// Who may forward nothing more gets no embeddings either.
func TestMeaningsAreNotAskedForBeyondALimit(t *testing.T) {
	m := meanings(t)
	l := newLab(t, m.Provider("meanings")+"semantic_cache {\n\t\t\tprovider meanings\n\t\t}\n", "")
	var n atomic.Int64
	l.on("n", replies(&n))
	l.Admin("POST", "/v1/policies/rate-limits", map[string]any{"type": "requests", "unit": "rpd", "value": 2})
	ask := func(text string) (status int, cache string) {
		a, _ := l.ask("POST", "/v1/chat/completions", strings.Replace(gatewaytest.Chat, "hi", text, 1), cue+"n", "x-gw-cache: semantic", "x-gw-provider: bad")
		return a.Status, a.Header.Get("x-gw-cache-status")
	}
	for i, c := range []struct {
		text   string
		status int
		cache  string
	}{{"a", 200, "SEMANTIC MISS"}, {"b", 200, "SEMANTIC HIT"}, {"c", 200, "SEMANTIC HIT"}, {"the weather", 200, "SEMANTIC MISS"}, {"a", 200, "HIT"}, {"d", 429, ""}} {
		if status, cache := ask(c.text); status != c.status || c.cache != "" && cache != c.cache {
			t.Errorf("call %d, %s: %d %s", i, c.text, status, cache)
		}
	}
	if asked := len(m.Calls()); asked != 4 {
		t.Errorf("%d embeddings", asked)
	}
}
