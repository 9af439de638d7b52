package inference

import (
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/exchange"
	"github.com/caddy-gw/gateway/providers"
)

// Headers of a provider's answer that are between the provider and the gateway.
var notAnswered = []string{
	"Access-Control-Allow-Credentials", "Access-Control-Allow-Headers", "Access-Control-Allow-Methods", "Access-Control-Allow-Origin",
	"Access-Control-Expose-Headers", "Access-Control-Max-Age", "Alt-Svc", "Clear-Site-Data", "Set-Cookie", "Strict-Transport-Security",
}

// answered takes a provider's answer in: fixes its headers, and wraps its body so
// that what passes is watched.
func (a *attempt) answered(res *http.Response) {
	x := a.x
	x.Status = res.StatusCode
	x.Gateway.Headers.Strip(res.Header)
	for _, name := range notAnswered {
		delete(res.Header, name)
	}
	for _, f := range x.AnswerHeader { // the gateway's own stand in the answer already
		delete(res.Header, f.Name)
	}

	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	x.HearText(media, res.Header.Get("Content-Encoding"))
	if t := a.tape; t != nil && res.StatusCode == http.StatusOK && res.Body != nil && res.Header.Get("Content-Encoding") == "" {
		t.src, t.media, t.stream = res.Body, res.Header.Get("Content-Type"), media == "text/event-stream"
		res.Body = t
	}
	switch {
	case res.StatusCode == http.StatusSwitchingProtocols || res.Body == nil || res.Body == http.NoBody:
	case media == "text/event-stream" && res.StatusCode == http.StatusOK && res.Header.Get("Content-Encoding") == "":
		s := newStream(res.Body, x, a.idle)
		s.unasked = a.unasked
		res.Body = s
		res.ContentLength = -1 // an error event may follow; also makes Caddy flush at once
		delete(res.Header, "Content-Length")
	default:
		res.Body = &body{src: res.Body, x: x, json: strings.HasSuffix(media, "json") && res.StatusCode == http.StatusOK && res.Header.Get("Content-Encoding") == ""}
	}
}

// maxWatched bounds what is kept of an answer in order to read its usage, which
// may stand anywhere in it.
const maxWatched = 1 << 20

// A body watches an answer in one piece: the time of its first byte, its usage.
type body struct {
	src  io.ReadCloser
	x    *exchange.Exchange
	json bool
	kept []byte
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	b.x.Hear(p[:n])
	if n > 0 {
		if b.x.FirstByte.IsZero() {
			b.x.FirstByte = b.x.Gateway.Now()
		}
		if b.json {
			if len(b.kept)+n > maxWatched {
				b.json, b.kept = false, nil
			} else {
				b.kept = append(b.kept, p[:n]...)
			}
		}
	}
	switch {
	case err == io.EOF:
		if b.json {
			answer := gjson.ParseBytes(b.kept)
			readUsage(b.x, answer.Get("usage"))
			b.x.Usage.Pages = answer.Get("usage_info.pages_processed").Int() // of OCR
			b.x.AnsweredBy(answer)
			if b.x.Endpoint.Cacheable && b.x.Failure == "" && onlyError(answer) {
				b.x.Failure = "the provider answered with an error and status 200"
			}
			describe(b.x, b.kept)
			if b.x.Endpoint.Name == exchange.CreateResponse {
				b.x.Remember(gjson.GetBytes(b.kept, "id").Str)
			}
			b.json, b.kept = false, nil
		}
	case err != nil:
		b.x.Failure = "the provider's answer broke off: " + plain(err)
	}
	return n, err
}

func (b *body) Close() error { return b.src.Close() }

// readUsage books what a provider says was used, by OpenAI's names and by those of its
// newer endpoints, or by Anthropic's. The last word counts; what it leaves out stays.
func readUsage(x *exchange.Exchange, usage gjson.Result) {
	if !usage.IsObject() || x.Endpoint.Method == http.MethodGet { // what is only fetched was counted when it was made
		return
	}
	u := &x.Usage
	take := func(to *int64, names ...string) bool {
		for _, name := range names {
			if v := usage.Get(name); v.Type == gjson.Number {
				*to = v.Int()
				return true
			}
		}
		return false
	}
	details := func(to *int64, of, name string) {
		take(to, of+"_tokens_details."+name, of+"_token_details."+name)
	}
	if seconds := usage.Get("seconds"); seconds.Type == gjson.Number { // of audio, which is not counted in tokens
		u.Milliseconds = int64(min(seconds.Num, maxSeconds) * 1000)
		return
	}
	u.Known = true
	whole := take(&u.Completion, "completion_tokens", "output_tokens")
	take(&u.Reasoning, "completion_tokens_details.reasoning_tokens", "output_tokens_details.reasoning_tokens", "output_tokens_details.thinking_tokens")
	if x.Endpoint.Name == providers.Messages {
		uncached := u.Prompt - u.CacheRead - u.CacheWrite // Anthropic counts the rest of the prompt
		take(&uncached, "input_tokens")
		take(&u.CacheRead, "cache_read_input_tokens")
		take(&u.CacheWrite, "cache_creation_input_tokens")
		take(&u.CacheHour, "cache_creation.ephemeral_1h_input_tokens")
		u.Prompt = uncached + u.CacheRead + u.CacheWrite
		return
	}
	take(&u.Prompt, "prompt_tokens", "input_tokens")
	for _, prompt := range [...]string{"prompt", "input"} {
		details(&u.CacheRead, prompt, "cached_tokens")
		details(&u.CacheWrite, prompt, "cache_write_tokens")
		details(&u.CacheHour, prompt, "cache_write_1h_tokens")
		details(&u.AudioIn, prompt, "audio_tokens")
		details(&u.ImageIn, prompt, "image_tokens")
	}
	for _, completion := range [...]string{"completion", "output"} {
		details(&u.AudioOut, completion, "audio_tokens")
		details(&u.ImageOut, completion, "image_tokens")
	}
	if whole {
		u.Settle(usage.Get("total_tokens").Int())
	}
}

// maxSeconds is more than any audio lasts.
const maxSeconds = 1e9
