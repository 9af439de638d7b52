package inference

import (
	"bytes"
	"cmp"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/internal/usage"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
)

// book books what an answer, or the response in an event, says was used, and by which model.
func (w *watcher) book(m *members) {
	if !w.x.UsesModel() { // what is only fetched, changed or cancelled was counted when it was made
		return
	}
	readUsage(&w.attempt.Usage, w.x.Endpoint.Name, bytes.TrimSpace(m.usage))
	if pages, given := usage.Count(m.usageInfo, "pages_processed"); given { // of OCR
		w.attempt.Usage.Pages = pages
	}
	if u := &w.attempt.Usage; w.x.Endpoint.Hears() && !u.Known && u.Milliseconds == 0 { // of audio, in an answer without a usage
		u.Milliseconds = usage.Seconds(m.duration)
	}
	if w.x.Endpoint.Name == exchange.CreateResponse { // whose usage does not say it
		found := m.hosted
		if m.output != nil {
			found = hostedIn(m.output)
		}
		w.attempt.Usage.WebSearches, w.attempt.Usage.FileSearches = found.web, found.files
	}
	if model := text(m.model); model != "" {
		w.attempt.SetAnswerModel(model)
	}
}

// remember has the provider of a stored response found when the client asks for it.
func (w *watcher) remember(m *members) {
	if w.remembers {
		w.remembers = false
		w.out.Failure = cmp.Or(w.attempt.Ownership().Remember(text(m.id)), w.out.Failure)
	}
}

// readUsage books what a usage in an answer of an endpoint says, if it says anything. The last
// word counts; what it leaves out stays.
func readUsage(u *exchange.Usage, endpoint string, object []byte) {
	if len(object) > 0 && object[0] == '{' && usage.Read(&u.Usage, object, u.Known, endpoint == providers.Messages) {
		u.Known = true
	}
}

// tokensOf returns what a translated answer used as what is priced.
func tokensOf(u *chat.Usage) prices.Usage {
	return prices.Usage{
		Prompt: u.Prompt, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, CacheHour: u.CacheHour, AudioIn: u.AudioIn, ImageIn: u.ImageIn,
		Completion: u.Completion, AudioOut: u.AudioOut, ImageOut: u.ImageOut, Reasoning: u.Reasoning,
		WebSearches: u.WebSearches,
	}
}
