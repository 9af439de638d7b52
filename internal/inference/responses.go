package inference

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/stored"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
	"github.com/caddy-gw/gateway/providers/responses"
)

// statelessPaths are the paths of the Responses API that are not about one stored response.
var statelessPaths = []string{"/responses/input_tokens", "/responses/compact"}

// maxShortened bounds how often the older half of a conversation is dropped.
const maxShortened = 4

// adapt prepares a call of the Responses API for a provider that lacks it: the response is made
// from a conversation, with the turns that it continues, and is stored by the gateway.
func (f *Forwarder) adapt(q *request, call *providers.Call) *exchange.Error {
	if !strings.HasPrefix(call.Path, "/responses") {
		return nil
	}
	c := q.call
	switch {
	case !call.Provider.Adapts(providers.CreateResponse):
		return nil
	case slices.Contains(statelessPaths, call.Path):
		return refused(call.Provider.NotServed(call))
	case call.Endpoint != providers.CreateResponse:
		if strings.HasPrefix(call.Path, "/responses/") && call.Endpoint != providers.Proxy {
			return c.Responses().NotFound()
		}
		return nil
	}
	q.conversation.adapted = true
	head := responses.ReadHead(call.Body)
	if refusal := resolve(c, call, &head); refusal != nil {
		return refusal
	}
	call.Shorten = q.conversation.shortened
	q.conversation.mayShorten = head.Auto
	if head.Previous != "" {
		turns, refusal := c.Responses().Conversation(head.Previous)
		if refusal != nil {
			return refusal
		}
		for i := range turns {
			for _, items := range [][]byte{turns[i].Input, member(turns[i].Object, "output")} {
				messages, tools, err := responses.Messages(items, call.Provider.Name)
				if err != nil {
					return exchange.AsError(err)
				}
				call.History = append(call.History, messages...)
				call.HistoryTools = append(call.HistoryTools, tools...)
			}
		}
	}
	if !head.Store {
		return nil
	}
	if len(head.Input) > stored.MaxInput {
		return refused(&providers.RequestError{
			Param: "input", Code: "input_too_large_to_store",
			Message: "The input has more than " + strconv.Itoa(stored.MaxInput) + " bytes, too many to be stored. Send store: false",
		})
	}
	if err := c.Memory.Reserve(len(head.Input)); err != nil {
		return exchange.Overloaded(err)
	}
	input := bytes.Clone(head.Input) // the body is released before the response is complete
	call.Keep = func(response []byte) error {
		q.mask(false).Hide(response)
		if q.withheld {
			q.unstored = response
			return nil
		}
		err := c.Responses().Store(gjson.GetBytes(response, "id").Str, &stored.Response{Object: response, Input: input, Previous: head.Previous})
		if err == nil {
			return nil
		}
		f.logger.Error("response not stored", zap.String("trace_id", c.Trace.ID), zap.Error(err.Err))
		q.reports.fail("the response could not be stored: " + err.Err.Error())
		return err
	}
	return nil
}

// storeWithheld stores a response that was withheld until hooks had looked at it.
func (rt *roundTrip) storeWithheld() error {
	response := rt.unstored
	rt.withheld, rt.unstored = false, nil
	if response == nil {
		return nil
	}
	return rt.store(response)
}

// member returns the value of an object's member, or nil if there is none.
func member(object []byte, name string) (value []byte) {
	r := jsonscan.NewReader(object)
	r.Object(func(key jsonscan.Key) {
		if key.Is(name) {
			value = r.Value()
		}
	})
	return value
}

// overflows are the phrases by which providers say that a conversation is longer than their
// model's context window.
var overflows = []string{
	"context_length_exceeded", "context length", "context window", "context limit", "prompt is too long", "input is too long",
	"input token count", "too many tokens", "too many input tokens", "maximum number of tokens", "model_max_prompt_tokens_exceeded",
}

// overflow turns a failure that says that the conversation is too long into OpenAI's own error
// for that.
func (rt *roundTrip) overflow(res *http.Response, f *providers.Failure) {
	if !rt.conversation.adapted || res.StatusCode == http.StatusTooManyRequests {
		return
	}
	text := strings.ToLower(f.Code + " " + f.Type + " " + f.Message)
	if !slices.ContainsFunc(overflows, func(words string) bool { return strings.Contains(text, words) }) {
		return
	}
	rt.overflowed = true
	res.StatusCode, res.Status = http.StatusBadRequest, "400 Bad Request"
	f.Type, f.Param, f.Code = "invalid_request_error", "input", "context_length_exceeded"
}

// shortens reports whether the call may be tried again with less of its conversation, if that was
// too long.
func (c *conversation) shortens() bool {
	return c.mayShorten && c.turns > 1 && c.shortened < maxShortened
}

// ServeStored answers a call about a response that the gateway stores.
func (f *Forwarder) ServeStored(w http.ResponseWriter, r *http.Request, x *exchange.Exchange) {
	if !counted(w, r, x) {
		return
	}
	body, err := storedAnswer(r.URL.Query(), x)
	if err != nil {
		x.Fail(w, err)
		return
	}
	x.Conclude(http.StatusOK, "")
	x.SetHeader(w.Header())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("X-Content-Type-Options", "nosniff")
	x.Excerpts.Sent(body)
	_, _ = w.Write(body) //nolint:gosec // JSON, which browsers must not take for anything else
}

func storedAnswer(query url.Values, x *exchange.Exchange) ([]byte, *exchange.Error) {
	id := gjson.GetBytes(x.StoredResponse.Object, "id").Str
	switch x.Endpoint.Name {
	case "getModelResponse":
		if query.Get("stream") == "true" {
			return nil, refused(&providers.RequestError{
				Param: "stream", Code: "unsupported_parameter",
				Message: "This response cannot be streamed because it was not created with background=true.",
			})
		}
		return x.StoredResponse.Object, nil
	case "cancelModelResponse":
		return nil, refused(&providers.RequestError{Param: "response_id", Code: "response_not_cancellable", Message: "Cannot cancel a synchronous response."})
	case "listResponseInputItems":
		return inputItems(query, x, id)
	case "deleteModelResponse":
		if err := x.Responses().Delete(); err != nil {
			return nil, err
		}
		b := jsonscan.Builder(nil)
		b.Open('{')
		b.Key("id").Text(id)
		b.Key("object").Text("response")
		b.Key("deleted").Bool(true)
		b.Close('}')
		return b, nil
	}
	panic("no answer for " + x.Endpoint.Name + " of a held response") // a programming error
}

// Bounds of a list of input items, like OpenAI's.
const (
	defaultItems = 20
	maxItems     = 100
)

// inputItems lists the input of a response: the turns that it continues, and its own input. The
// latest comes first unless the query says otherwise.
func inputItems(query url.Values, x *exchange.Exchange, id string) ([]byte, *exchange.Error) {
	limit := defaultItems
	if v := query.Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > maxItems {
			return nil, refused(&providers.RequestError{
				Param: "limit", Code: "invalid_value",
				Message: "Invalid 'limit': expected a whole number from 1 to " + strconv.Itoa(maxItems) + ".",
			})
		}
		limit = n
	}
	order := query.Get("order")
	if order != "" && order != "asc" && order != "desc" {
		return nil, refused(&providers.RequestError{Param: "order", Code: "invalid_value", Message: "Invalid value for 'order'. Supported values are: 'asc' and 'desc'."})
	}
	turns, refusal := x.Responses().Turns()
	if refusal != nil {
		return nil, refusal
	}
	var items []chat.Member
	for i := range turns {
		own := gjson.GetBytes(turns[i].Object, "id").Str
		items = append(items, responses.Items(turns[i].Input, own)...)
		if own != id {
			items = append(items, responses.Items(member(turns[i].Object, "output"), own)...)
		}
	}
	if order != "asc" {
		slices.Reverse(items)
	}
	for _, name := range []string{"after", "before"} {
		id := query.Get(name)
		if id == "" {
			continue
		}
		at := slices.IndexFunc(items, func(m chat.Member) bool { return m.Name == id })
		switch {
		case at < 0:
			return nil, refused(&providers.RequestError{Param: name, Code: "invalid_value", Message: "Invalid '" + name + "': the response has no such item."})
		case name == "after":
			items = items[at+1:]
		default:
			items = items[:at]
		}
	}
	more := len(items) > limit
	items = items[:min(len(items), limit)]
	b := jsonscan.Builder(nil)
	b.Open('{')
	b.Key("object").Text("list")
	b.Key("data").Open('[')
	for _, m := range items {
		b.Raw(m.Value)
	}
	b.Close(']')
	if n := len(items); n > 0 {
		b.Key("first_id").Text(items[0].Name)
		b.Key("last_id").Text(items[n-1].Name)
	} else {
		b.Key("first_id").Raw([]byte("null"))
		b.Key("last_id").Raw([]byte("null"))
	}
	b.Key("has_more").Bool(more)
	b.Close('}')
	return b, nil
}
