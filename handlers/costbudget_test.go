package handlers_test

import (
	"context"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// An ending is a way in which a call ends.
type ending struct {
	serve  http.HandlerFunc // what the provider does
	header string           // of the call
	leaves bool             // the client does, soon
}

const (
	soon  = 30 * time.Millisecond
	hasty = "x-gw-request-timeout: 30"
)

// reset ends the provider's connection by a TCP reset.
func reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

// endings are those of the fault wall and those that clients and timeouts bring about, of answers in one piece and of
// streams.
func endings() map[string][]ending {
	page := respond(200, "<html>maintenance</html>", "Content-Type", "text/html")
	redirect := respond(307, "", "Location", "http://models.example/")
	half := gatewaytest.Completion[:50]
	big := strings.Repeat("x", 1<<20)
	every := []ending{
		{serve: cut},
		{serve: reset},
		{serve: raw("SSH-2.0-OpenSSH\r\n\r\n")},
		{serve: raw("HTTP/1.1 200 OK\r\nContent-Ty")},
		{serve: raw("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")},
		{serve: respond(200, "", "X-Big", big)},
		{serve: silence, header: hasty},
		{serve: silence, leaves: true},
		{serve: redirect},
		{serve: page},
		{serve: respond(429, overloaded, "Retry-After", "7")},
		{serve: respond(500, overloaded)},
		{serve: respond(500, `{"err`, "Content-Length", "100")},
		{serve: respond(503, "")},
		{serve: respond(401, overloaded)},
		{serve: respond(200, "")},
		{serve: respond(200, overloaded)},
		{serve: then(respond(200, ""), flush, cut)},
		{serve: then(respond(200, ""), flush, silence), leaves: true},
	}
	of := map[string][]ending{"JSON": {{serve: answerWithUsage}}, "streams": {{serve: streamWithUsage}}}
	of["JSON that ends in every way"] = append([]ending{
		{serve: answerWithUsage},
		{serve: respond(200, half, "Content-Length", "1000")},
		{serve: then(respond(200, half), flush, reset)},
		{serve: then(respond(200, half), flush, silence), leaves: true},
		{serve: respond(200, `{"choices":[{"message":{"content":"hello"}}]}`)},
		{serve: respond(200, `{"choices":[],"x":"`+big+`"}`)},
		{serve: answerWithUsage},
	}, every...)
	streams := append([]ending{{serve: streamWithUsage}}, every...)
	for _, portions := range [][]string{
		{"data: " + overloaded + "\n\n"},
		{role + "data: " + overloaded + "\n\n"},
		{": ping\n\n", "data: " + overloaded + "\n\n"},
		{},
		{done},
		{role, hello, hello[:20]},
		{role, hello, "data: " + overloaded + "\n\n"},
		{role, hello, stopped, done},
		{role, hello, stopped},
		{role + hello + counted + done},
		{role, hello, "data: {half\n\n", stopped, done},
		{"data: {half\n\n"},
		{role, hello, stopped, done, hello, done},
		strings.SplitAfter(role+umlaut+stopped+done, "\xc3"),
		{strings.ReplaceAll(role+hello+stopped+done, "\n", "\r\n")},
		{role, `data: {"choices":[{"delta":{"content":"` + big + `"}}]}` + "\n\n", stopped, done},
	} {
		streams = append(streams, ending{serve: stream(portions...)})
	}
	for _, portions := range [][]string{{}, {role}, {role, hello[:30]}, {role, hello, hello[:20]}} {
		sends := stream(portions...)
		streams = append(streams, ending{serve: then(sends, cut)}, ending{serve: then(sends, reset)}, ending{serve: then(sends, silence), header: hasty}, ending{serve: then(sends, silence), leaves: true})
	}
	of["streams that end in every way"] = append(streams, ending{serve: streamWithUsage})
	return of
}

// 64 clients against a budget of dollars that fits a thousand calls, with answers that end in every way: it is spent
// but for less than one reservation and never overspent, and the records of the calls sum up to what is booked.
func TestManyClientsSpendABudgetOfDollarsExactly(t *testing.T) {
	const (
		clients = 64
		token   = 1e-3 // dollars
	)
	fits := 1000
	if testing.Short() {
		fits /= 5 // as many as properties have fewer draws
	}
	limit := float64(fits) * 30 * token // answerWithUsage and streamWithUsage use thirty
	for name, ways := range endings() {
		t.Run(name, func(t *testing.T) {
			up := gatewaytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				way, err := strconv.Atoi(r.Header.Get("X-Client-Request-Id"))
				if err != nil {
					t.Error(err)
					return
				}
				ways[way].serve(w, r)
			})
			g := gatewaytest.New(t, "price file m {\n input_mtok 1000\n output_mtok 1000\n}\n"+up.Provider("file"))
			if len(ways) > 1 { // some of which stand still
				g.Site = "gw_admin\ngw_ratelimit\ngw_inference {\n\tstream_idle_timeout 200ms\n}"
			}
			g.Load()
			key, _ := g.Key("k")
			id := usageLimit(g, map[string]any{"type": "cost", "credit_limit": limit})
			body := boundedChat
			if strings.HasPrefix(name, "streams") {
				body = `{"stream":true,` + boundedChat[1:]
			}
			var calls, passed atomic.Int64
			// ask makes a call that ends in one of the ways, and reports whether the budget is spent.
			ask := func() (spent bool) {
				way := int(calls.Add(1)) % len(ways)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				if ways[way].leaves {
					defer time.AfterFunc(soon, leave).Stop()
				}
				headers := []string{"x-gw-api-key: " + key, "x-gw-provider: file", cue + strconv.Itoa(way)}
				if more := ways[way].header; more != "" {
					headers = append(headers, more)
				}
				res, err := g.Send(func() *http.Request {
					return g.Request("POST", "/v1/chat/completions", body, headers...).WithContext(ctx)
				})
				if err != nil {
					return false // the client left, or the answer broke off
				}
				defer res.Body.Close()
				_, _ = io.Copy(io.Discard, res.Body)
				if res.StatusCode == http.StatusOK {
					passed.Add(1)
				}
				return res.StatusCode == http.StatusPreconditionFailed
			}
			var group sync.WaitGroup
			for range clients {
				group.Go(func() {
					for !ask() {
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
			if each := 30 * token; len(ways) == 1 && math.Abs(used()-each*float64(passed.Load())) > 1e-6 {
				t.Errorf("%v dollars are booked of %d calls, at %v each", used(), passed.Load(), each)
			}
		})
	}
}
