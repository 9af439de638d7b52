package inference

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Withholds reports whether hooks may refuse or change the answer.
func (g *guard) Withholds() bool { return hooks.Decides(g.after) }

// Inspect refuses an answer that hooks have to judge and cannot read, and has them judge a stream.
func (g *guard) Inspect(ctx context.Context, res *Response) error {
	if err := g.readable(res); err != nil {
		res.Body.Close()
		return err
	}
	if mediaType(res.Header) != "text/event-stream" {
		return nil
	}
	g.begin()
	switch mode, most := g.mode(); mode {
	case hooks.Window:
		return g.judgeWindows(ctx, res)
	case hooks.Buffer:
		return g.judgeWhole(ctx, res, most)
	default: // when it is over
		return nil
	}
}

// readable returns an error for an answer that hooks have to judge and cannot read.
func (g *guard) readable(res *Response) error {
	provider := "Provider " + res.Attempt.Route.Provider
	switch {
	case !hooks.Has(g.after, false) || res.StatusCode >= http.StatusMultipleChoices || res.StatusCode < http.StatusOK:
		return nil
	case res.StatusCode != http.StatusOK: // such an answer is not read
		if !hooks.Decides(g.after) || res.Body == nil || emptyBody(res.Response) {
			return nil
		}
		return misbehaved(provider+" answered with status "+strconv.Itoa(res.StatusCode)+", whose body guardrails cannot check", nil)
	}
	media := mediaType(res.Header)
	if res.Header.Get("Content-Encoding") == "" && (media == "text/event-stream" || strings.HasSuffix(media, "json")) {
		return nil
	}
	return misbehaved(provider+" answered with what is neither JSON nor a stream, so that guardrails cannot check it", nil)
}

// Complete runs the hooks of an answer in one piece.
func (g *guard) Complete(ctx context.Context, answer *Answer) *exchange.Error {
	g.begin()
	j := g.judgment
	if !hooks.Has(g.after, false) {
		if j.failed {
			answer.Status = exchange.StatusHooksFailed
		}
		if len(g.after) > 0 && g.reserve(len(answer.Body)) == nil {
			g.answer = bytes.Clone(answer.Body)
		}
		return nil
	}
	if jsonscan.Members(answer.Body, nil) != nil {
		return misbehaved("Provider "+answer.Attempt.Route.Provider+" answered with what is not a JSON object, so that guardrails cannot check it", nil)
	}
	if err := g.reserve(3 * len(answer.Body)); err != nil { // for the copy, its texts, and what is made of it
		return exchange.Overloaded(err)
	}
	s := g.subject(answer.Attempt, guardrails.Output)
	s.Response, s.Status = bytes.Clone(answer.Body), http.StatusOK // a check may be left behind with it
	out := hooks.Run(ctx, g.after, s, false, g.x.Gateway.Now)
	if out.Unread != "" {
		return misbehaved("Provider "+answer.Attempt.Route.Provider+" answered with what guardrails cannot check: "+out.Unread, nil)
	}
	g.count("output", out.Results)
	j.after = out.Results
	j.failed = j.failed || out.Failed
	j.hideAnswer, answer.Attempt.Private = out.Unfinished, out.Unfinished
	g.answer = s.Response
	switch {
	case out.Denied != nil:
		why := hooks.Why(out.Denied, guardrails.Output)
		soft := g.softRefusal(answer.Attempt, why)
		if !out.Denied.SoftDeny || soft == nil {
			return exchange.Denied(why, j.JSON())
		}
		j.failed, answer.Attempt.Private = false, true
		answer.Body = soft
		if usage := gjson.GetBytes(s.Response, "usage"); usage.Exists() {
			if with, err := sjson.SetRawBytes(soft, "usage", []byte(usage.Raw)); err == nil {
				answer.Body = with
			}
		}
	case out.Body != nil:
		answer.Body, g.answer = out.Body, out.Body
	}
	if j.failed {
		answer.Status = exchange.StatusHooksFailed
	}
	return nil
}

// begin forgets what hooks found in the answer of another attempt.
func (g *guard) begin() {
	j := g.judgment
	j.after, j.failed, j.hideAnswer, j.deferred = nil, failed(j.before), false, nil
	g.x.Memory.Free(g.reserved)
	g.reserved = 0
	g.answer, g.recorder = nil, nil
}

// Annotate returns hook_results. Clients of streams that ask for no more than OpenAI's own do not
// get them.
func (g *guard) Annotate(stream bool) Annotation {
	j := g.judgment
	var a Annotation
	if j.failed {
		a.Status = exchange.StatusHooksFailed
	}
	if !stream {
		a.Member = append([]byte(`"hook_results":`), j.JSON()...)
		return a
	}
	if j.strict {
		return a
	}
	if g.x.Endpoint.Name != "chatComplete" && g.x.Endpoint.Name != "complete" {
		a.Event = append(a.Event, "event: hook_results\n"...)
	}
	a.Event = append(a.Event, `data: {"type":"hook_results","hook_results":`...)
	a.Event = append(a.Event, j.JSON()...)
	a.Event = append(a.Event, "}\n\n"...)
	return a
}

// count counts what hooks came to.
func (g *guard) count(phase string, results []hooks.Result) {
	for i := range results {
		if !results[i].Skipped || results[i].State == hooks.Dropped {
			g.x.Gateway.Metrics.Hook(g.x.Endpoint.Name, phase, results[i].Counted())
		}
	}
}

// reserve reserves memory for copies of the answer, until another attempt begins or the call ends.
func (g *guard) reserve(size int) error {
	if err := g.x.Memory.Reserve(size); err != nil {
		return err
	}
	g.reserved += size
	return nil
}

// failed reports whether a hook failed.
func failed(results []hooks.Result) bool {
	for i := range results {
		if !results[i].Verdict {
			return true
		}
	}
	return false
}

// Interface guards
var (
	_ AnswerHook   = (*guard)(nil)
	_ InspectHook  = (*guard)(nil)
	_ WithholdHook = (*guard)(nil)
	_ AnnotateHook = (*guard)(nil)
)
