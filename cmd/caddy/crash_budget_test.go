package main_test

import (
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// Clients spend a budget of dollars while the process is killed again and again. After each restart, all that the
// provider has served is counted, and no more besides than what was leased or reserved when the process was
// killed; and in the end the provider has never served more than the budget allows.
func TestABudgetOfDollarsSurvivesKill9(t *testing.T) {
	const (
		clients, kills = 8, 5
		token          = 1e-3 // dollars
		each           = 30 * token
		limit          = 2000 * each
		lease          = limit / 64
		rounding       = 1e-6
		body           = `{"model":"m","max_tokens":20,"messages":[{"role":"user","content":"hi"}]}`
		reserved       = float64(len(body)+len("@paid/")+20) * token // at most: a byte of the body is not more than a token
	)
	provider := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],`+
			`"usage":{"prompt_tokens":10,"completion_tokens":20,"total_tokens":30}}`)
	})
	p := newProcess(t)
	text, err := os.ReadFile(p.file)
	if err != nil {
		t.Fatal(err)
	}
	options := "gw {\nprice paid m {\ninput_mtok 1000\noutput_mtok 1000\n}\n" + provider.Provider("paid")
	if err := os.WriteFile(p.file, []byte(strings.Replace(string(text), "gw {\n", options, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	p.start()
	owner := p.key()
	_, answer := p.do("POST", "/v1/api-keys/workspace/service", owner, `{"name":"k","scopes":["completions.write"]}`)
	key := gjson.Get(answer, "key").Str
	status, answer := p.do("POST", "/v1/policies/usage-limits", owner, `{"type":"cost","credit_limit":60}`)
	id := gjson.Get(answer, "id").Str
	if status != 200 || id == "" || limit != 60 {
		t.Fatalf("%d %s", status, answer)
	}
	counted := func() float64 {
		_, policy := p.do("GET", "/v1/policies/usage-limits/"+id+"?include_usage=true", owner, "")
		return gjson.Get(policy, "value_key_usage_map.default.current_usage").Float()
	}
	recorded := func() (sum float64) {
		for cursor := ""; ; {
			status, page := p.do("GET", "/v1/logs?page_size=500"+cursor, owner, "")
			if status != http.StatusOK {
				t.Fatalf("%d %s", status, page)
			}
			for _, cents := range gjson.Get(page, "data.#.cost").Array() {
				sum += cents.Float() / 100
			}
			next := gjson.Get(page, "next_cursor").Str
			if next == "" {
				return sum
			}
			cursor = "&cursor=" + next
		}
	}
	asked := strings.Replace(body, `"m"`, `"@paid/m"`, 1)
	// spend makes calls until the budget is spent, or until the process is killed, which it is after some answers; 0:
	// it is not.
	spend := func(killAfter int) (spent bool) {
		answered, ended := make(chan int), make(chan struct{})
		var group sync.WaitGroup
		for range clients {
			group.Go(func() {
				for {
					status, _, err := p.try("POST", "/v1/chat/completions", key, asked)
					if err != nil {
						return
					}
					answered <- status
					if status != http.StatusOK {
						return
					}
				}
			})
		}
		go func() { group.Wait(); close(ended) }()
		for n := 0; ; {
			select {
			case status := <-answered:
				switch status {
				case http.StatusOK:
					n++
				case http.StatusPreconditionFailed:
					spent = true
				default:
					t.Errorf("status %d", status)
				}
				if n == killAfter && killAfter > 0 {
					if err := p.cmd.Process.Kill(); err != nil {
						t.Error(err)
					}
				}
			case <-ended:
				return spent
			}
		}
	}
	random := rand.New(rand.NewPCG(15, 9))
	call := func() { // and wait until it is recorded
		before := recorded()
		if status, answer := p.do("POST", "/v1/chat/completions", key, asked); status != http.StatusOK {
			t.Fatalf("%d %s", status, answer)
		}
		for deadline := time.Now().Add(10 * time.Second); recorded() < before+each-rounding; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("a call is not recorded")
			}
		}
	}
	for round := range kills {
		call()
		begun := time.Now()
		if spend(1 + random.IntN(250)) {
			t.Fatalf("round %d: the budget is spent already", round)
		}
		p.kill()
		took := time.Since(begun)
		for deadline := time.Now().Add(10 * time.Second); provider.Open() > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the provider still has connections of a process that was killed")
			}
		}
		p.start()
		served, has, inRecords := float64(len(provider.Calls()))*each, counted(), recorded()
		lost := float64(round+1) * (lease + clients*reserved)
		t.Logf("round %d, killed after %v: served %.3f, counted %.3f, recorded %.3f", round, took, served, has, inRecords)
		if has < served-rounding || has < inRecords-rounding || has > served+lost+rounding || inRecords > served+rounding || inRecords < float64(round+1)*each-rounding {
			t.Errorf("round %d: %v dollars are counted and %v recorded, the provider has served %v; at most %v more may count", round, has, inRecords, served, lost)
		}
	}
	before := len(provider.Calls())
	if !spend(0) {
		t.Error("the budget is not spent")
	}
	last := float64(len(provider.Calls())-before) * each
	for deadline := time.Now().Add(10 * time.Second); recorded() < last-rounding; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%v dollars are recorded, %v were served since the last restart", recorded(), last)
		}
	}
	served, lost := float64(len(provider.Calls()))*each, kills*(lease+clients*reserved)
	if served > limit+rounding || served < limit-lost-reserved {
		t.Errorf("the provider has served %v dollars of %v", served, limit)
	}
}
