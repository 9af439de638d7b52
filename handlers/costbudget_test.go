package handlers_test

import (
	"io"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// Ways in which an answer ends, in turn, by the number of the call.
var endings = map[string][]http.HandlerFunc{
	"JSON":            {answerWithUsage},
	"JSON that fails": {answerWithUsage, respond(500, overloaded), cut, respond(200, overloaded), respond(200, ""), answerWithUsage},
	"streams":         {streamWithUsage},
	"streams that fail": {
		streamWithUsage, then(stream(role, hello), cut), stream(role, hello, hello[:20]), stream(role, hello, "data: "+overloaded+"\n\n"),
		stream(), respond(429, overloaded), stream(role + hello + stopped + done), then(stream(role), cut), stream("data: " + overloaded + "\n\n"), stream(role + hello + stopped),
	},
}

// 64 clients against a budget of dollars, with answers that end in every way: it is spent but for less
// than one reservation and never overspent, and the records of the calls sum up to what is booked.
func TestManyClientsSpendABudgetOfDollarsExactly(t *testing.T) {
	const (
		clients = 64
		token   = 1e-3 // dollars
		limit   = 9.0
	)
	for name, answers := range endings {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				answers[int(calls.Add(1))%len(answers)](w, r)
			})
			g := gatewaytest.Start(t, "price file m {\n input_mtok 1000\n output_mtok 1000\n}\n"+up.Provider("file"))
			key, _ := g.Key("k")
			id := usageLimit(g, map[string]any{"type": "cost", "credit_limit": limit})
			body := boundedChat
			if name[0] == 's' {
				body = `{"stream":true,` + boundedChat[1:]
			}
			var group sync.WaitGroup
			for range clients {
				group.Go(func() {
					for {
						a, _ := g.TryRequest("POST", "/v1/chat/completions", body, "x-gw-api-key: "+key, "x-gw-provider: file") // answers may break off
						if a != nil && a.Status == 412 {
							return
						}
					}
				})
			}
			group.Wait()
			used := func() float64 {
				return g.Admin("GET", "/v1/policies/usage-limits/"+id+"?include_usage=true", nil).Get("value_key_usage_map.default.current_usage").Float()
			}
			recorded := func() (sum float64) {
				for cursor := ""; ; {
					page := g.Admin("GET", "/v1/logs?page_size=500"+cursor, nil)
					page.Get("data.#.cost").ForEach(func(_, cents gjson.Result) bool {
						sum += cents.Float() / 100
						return true
					})
					next := page.Get("next_cursor").Str
					if next == "" {
						return sum
					}
					cursor = "&cursor=" + next
				}
			}
			reserved := float64(len(body)+20) * token
			defer func() {
				if t.Failed() {
					t.Logf("%v dollars booked of %v, %v in records, by %d calls", used(), limit, recorded(), calls.Load())
				}
			}()
			// The last clients have their answers before their calls have ended.
			eventually(t, "a budget that is spent and recorded exactly", func() bool {
				booked := used()
				return booked <= limit && booked > limit-reserved && math.Abs(recorded()-booked) < 1e-6
			})
		})
	}
}
