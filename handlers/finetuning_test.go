package handlers_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A tuningProvider has OpenAI's files and fine-tuning jobs.
type tuningProvider struct {
	*gatewaytest.Upstream
	mu   sync.Mutex
	file string
	jobs []map[string]any
}

func newTuningProvider(t *testing.T) *tuningProvider {
	p := new(tuningProvider)
	p.Upstream = gatewaytest.NewUpstream(t, p.serve)
	return p
}

func (p *tuningProvider) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.HasSuffix(r.URL.Path, "/content") {
		_, _ = io.WriteString(w, p.file)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	id, action, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/fine_tuning/jobs/"), "/")
	switch {
	case r.URL.Path == "/v1/chat/completions":
		_, _ = io.WriteString(w, gatewaytest.Completion)
	case r.URL.Path == "/v1/fine_tuning/jobs" && r.Method == http.MethodPost:
		job := map[string]any{"id": fmt.Sprint("ftjob-", len(p.jobs)+1), "object": "fine_tuning.job", "model": "m-2026-01-01", "status": "queued", "trained_tokens": nil, "training_file": "in"}
		p.jobs = append(p.jobs, job)
		_, _ = io.WriteString(w, asJSON(job))
	case r.URL.Path == "/v1/fine_tuning/jobs":
		_, _ = io.WriteString(w, asJSON(map[string]any{"object": "list", "data": p.jobs, "has_more": false}))
	default:
		for _, job := range p.jobs {
			if job["id"] == id {
				if action == "cancel" {
					job["status"] = "cancelled"
				}
				_, _ = io.WriteString(w, asJSON(job))
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
	}
}

// ends has the latest job end; tokens: it says so.
func (p *tuningProvider) ends(status string, tokens any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	job := p.jobs[len(p.jobs)-1]
	job["status"], job["trained_tokens"] = status, tokens
}

// jobOf creates a job whose file is read so often.
func jobOf(model string, epochs int) string {
	return fmt.Sprintf(`{"model":%q,"training_file":"in","method":{"type":"supervised","supervised":{"hyperparameters":{"n_epochs":%d}}}}`, model, epochs)
}

// A fine-tuning job is reserved by the lines of its file and its epochs, and booked once by what the provider says in the end, whatever
// happens in between.
func TestAFineTuningJobIsMeteredFromItsFileToItsEnd(t *testing.T) {
	const example = `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]}` // a token for each byte at most
	p := newTuningProvider(t)
	p.file = strings.Repeat(example+"\n", 10)
	once := 10 * len(example)
	g := gatewaytest.Start(t, "price file m {\n input_mtok 100\n training_mtok 25\n}\nprice file other {\n input_mtok 1\n output_mtok 1\n}\n"+p.Provider("file"))
	key, of := g.Key("k")
	id := usageLimit(g, map[string]any{"type": "tokens", "credit_limit": 3*once + 100, "conditions": when("api_key", of)})
	cost := usageLimit(g, map[string]any{"type": "cost", "credit_limit": 1, "conditions": when("api_key", of)})
	onModel := usageLimit(g, map[string]any{"type": "tokens", "credit_limit": 1e6, "conditions": append(when("api_key", of), map[string]any{"key": "model", "value": "@file/m"})})
	ask := func(status int, method, path, body string) *gatewaytest.Answer {
		t.Helper()
		a := g.Do(method, "/v1/fine_tuning/jobs"+path, body, "x-gw-api-key: "+key, "x-gw-provider: @file")
		if a.Status != status {
			t.Fatalf("%s %s: %d %s", method, path, a.Status, a.Body)
		}
		return a
	}
	reserved := func(id string) float64 {
		return g.Admin("GET", "/v1/policies/usage-limits/"+id+"?include_usage=true", nil).Get("value_key_usage_map.default.reserved_usage").Float()
	}
	dollars := func(tokens int) float64 { return float64(tokens) * 25e-6 }
	near := func(got, want float64) bool { return got > want*.999 && got < want*1.001 }

	for body, why := range map[string]string{
		`{"model":"m","training_file":"in"}`: "n_epochs",
		jobOf("other", 1):                    "the price of the model is not known",
		jobOf("m", 4):                        "are left, and the call may use",
	} {
		if a := ask(412, "POST", "", body); !strings.Contains(a.Get("error.message").Str, why) || len(p.jobs) > 0 {
			t.Errorf("%s: %s", body, a.Body)
		}
	}

	job := "/" + ask(200, "POST", "", jobOf("m", 3)).Get("id").Str
	if n, of := reserved(id), reserved(onModel); n != float64(3*once) || of != n {
		t.Errorf("%v and %v are reserved of %d", n, of, 3*once)
	}
	if n := reserved(cost); !near(n, dollars(3*once)) {
		t.Errorf("$%v are reserved", n)
	}
	if a := ask(429, "POST", "", jobOf("m", 1)); !strings.Contains(a.Body, "fine-tuning jobs") || a.Header.Get("Retry-After") != "" {
		t.Errorf("%s", a.Body)
	}
	p.ends("running", nil)
	ask(200, "GET", job, "")
	g.Stop()
	g.Load()
	if n := reserved(id); n != float64(3*once) {
		t.Errorf("%v are reserved after a restart", n)
	}
	p.ends("succeeded", 300)
	for range 2 {
		ask(200, "GET", job, "")
		if n := used(g, id, 300); n != 300 || reserved(id) != 0 {
			t.Errorf("%v tokens booked", n)
		}
		if n := usedBetween(g, cost, dollars(300)*.999, dollars(300)*1.001); !near(n, dollars(300)) {
			t.Errorf("$%v booked", n)
		}
	}
	if n := used(g, onModel, 300); n != 300 {
		t.Errorf("%v tokens of the model booked", n)
	}
	sum, tokens := 0.0, 0.0
	for end := time.Now().Add(5 * time.Second); tokens < 300 && time.Now().Before(end); {
		sum, tokens = 0, 0
		for _, r := range g.Admin("GET", "/v1/logs", nil).Get("data").Array() {
			sum += r.Get("cost").Float()
			tokens += r.Get("req_units").Float() + r.Get("res_units").Float()
		}
	}
	if tokens != 300 || !near(sum, 100*dollars(300)) {
		t.Errorf("records of %v tokens and %v cents", tokens, sum)
	}

	// One that is cancelled gives back what was not trained, once the provider says how much was. One that failed used nothing.
	job = "/" + ask(200, "POST", "", jobOf("m", 2)).Get("id").Str
	ask(200, "POST", job+"/cancel", "")
	if n := reserved(id); n != float64(2*once) {
		t.Errorf("%v are reserved", n)
	}
	p.ends("cancelled", 20)
	ask(200, "GET", "", "") // the list says so
	if n := used(g, id, 320); n != 320 || reserved(id) != 0 {
		t.Errorf("%v tokens booked", n)
	}
	job = "/" + ask(200, "POST", "", jobOf("m", 2)).Get("id").Str
	p.ends("failed", nil)
	ask(200, "GET", job, "")
	if n := used(g, id, 320); n != 320 || reserved(id) != 0 {
		t.Errorf("%v tokens booked", n)
	}
}

// A job of a model whose training has no known price costs nothing where the policy allows that, and its tokens count.
func TestAFineTuningJobWithoutAPriceIsAllowedByThePolicy(t *testing.T) {
	p := newTuningProvider(t)
	p.file = `{"prompt":"a","completion":"b"}`
	g := gatewaytest.Start(t, p.Provider("file"))
	key, of := g.Key("k")
	tokens := usageLimit(g, map[string]any{"type": "tokens", "credit_limit": 1000, "conditions": when("api_key", of)})
	cost := usageLimit(g, map[string]any{"type": "cost", "credit_limit": 1, "conditions": when("api_key", of), "on_unknown_price": "allow"})
	headers := []string{"x-gw-api-key: " + key, "x-gw-provider: @file"}
	made := g.Do("POST", "/v1/fine_tuning/jobs", jobOf("m", 2), headers...)
	p.ends("succeeded", 9)
	if a := g.Do("GET", "/v1/fine_tuning/jobs/"+made.Get("id").Str, "", headers...); a.Status != 200 {
		t.Fatalf("%s, %s", made.Body, a.Body)
	}
	if n, of := used(g, tokens, 9), used(g, cost, 0); n != 9 || of != 0 {
		t.Errorf("%v tokens and $%v booked", n, of)
	}
}
