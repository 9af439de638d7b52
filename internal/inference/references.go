package inference

import (
	"errors"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/responses"
)

// resolve replaces references to items of responses that the gateway stores by the items: some
// clients send references in a tool loop. Other references stay, and are refused.
func resolve(c *exchange.Call, call *providers.Call, head *responses.Head) *exchange.Error {
	r := &references{call: c, items: make(map[string][]byte), seen: make(map[string]bool)}
	input, err := responses.Expand(head.Input, r.find)
	switch {
	case errors.Is(err, responses.ErrExpanded):
		return refused(&providers.RequestError{Param: "input", Code: "input_too_large", Message: "The input is too large with the items that it refers to"})
	case err != nil:
		return exchange.AsError(err)
	case input == nil:
		return nil
	}
	call.MayHave = nil
	call.Body = slices.Concat(call.Body[:head.At], input, call.Body[head.At+len(head.Input):])
	head.Input = input
	return nil
}

// references finds the items of responses that an input refers to.
type references struct {
	call  *exchange.Call
	items map[string][]byte // by id
	seen  map[string]bool   // responses that were read
	size  int               // of these responses, in bytes
	lost  bool              // one was not found, and the call will be refused
}

// find returns an item by its id, or nil if the gateway does not store it.
func (r *references) find(id string) ([]byte, error) {
	owner := responses.Owner(id)
	if owner == "" || r.seen[owner] || r.lost {
		return r.items[id], nil
	}
	r.seen[owner] = true
	turn, refusal := r.call.Responses().Own(owner)
	switch {
	case refusal != nil:
		return nil, refusal
	case turn == nil:
		r.lost = true
		return nil, nil
	}
	if r.size += len(turn.Object) + len(turn.Input); r.size > responses.MaxExpanded {
		return nil, responses.ErrExpanded
	}
	for _, item := range gjson.GetBytes(turn.Object, "output").Array() {
		r.items[item.Get("id").Str] = []byte(item.Raw)
	}
	for _, m := range responses.Items(turn.Input, owner) {
		r.items[m.Name] = m.Value
	}
	return r.items[id], nil
}
