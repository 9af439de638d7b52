package inference

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/stored"
	"github.com/caddy-gw/gateway/providers"
)

// ownership is the stage that keeps workspaces apart whose calls share a credential: each may
// use only the objects that it has created at the provider.
type ownership struct{ f *Forwarder }

// Before refuses a target if the URL names objects of other workspaces there.
func (*ownership) Before(_ context.Context, c *Candidate) (Visit, *Reply, *exchange.Error) {
	return nil, nil, c.Chosen().Ownership().CheckNamed()
}

// Request refuses a body that names objects of other workspaces. It returns the claims of the
// attempt, if its answer matters.
func (o *ownership) Request(ctx context.Context, r *Request) (any, *exchange.Error) {
	target, x := r.Attempt, r.rt.x
	if !target.Ownership().Recorded() {
		return nil, nil
	}
	responses := x.Endpoint.Name == exchange.CreateResponse
	adapted := responses && dialect(target.Route).Adapts(providers.CreateResponse)
	if refusal := target.Ownership().CheckBody(r.Body, adapted); refusal != nil {
		return nil, refusal
	}
	objects := &x.Endpoint.Objects
	c := &claims{rt: r.rt, target: target, responses: responses, models: objects.ModelList && target.Ownership().Guarded()}
	if objects.List && target.Ownership().Guarded() {
		t, to := r.Target, operation{endpoint: x.Endpoint.Name, method: x.Method(), path: r.Path}
		c.page = func(query string) (int, []byte, error) {
			to := to
			to.query = query
			return o.f.fetch(ctx, x, target, t, to)
		}
		c.object = func(id, query string) (int, []byte, error) {
			path := to.path + "/" + url.PathEscape(id)
			of, _ := exchange.EndpointOf(http.MethodGet, "/v1"+path)
			if of == nil {
				return http.StatusNotFound, nil, nil
			}
			return o.f.fetch(ctx, x, target, t, operation{of.Name, http.MethodGet, path, query})
		}
	}
	if !adapted {
		c.claim(objects, r.Body)
	}
	if !c.claims && c.page == nil && !c.models && !objects.Location && x.Method() != http.MethodDelete {
		return nil, nil
	}
	return c, nil
}

// claims note the objects that an attempt creates as its workspace's, before the client gets
// their ids, and hide those of other workspaces in lists.
type claims struct {
	rt     *roundTrip
	target *exchange.Attempt
	claims bool // the answer may have ids of objects that are created:

	created, events   []string // as in exchange.Objects
	related, byModels []string

	responses bool
	seen      map[string]bool

	models bool // the answer is a list of models, some of which are hidden
	// page fetches another page of the list that is requested; nil: the answer is not filtered.
	page func(query string) (status int, body []byte, err error)
	// object fetches an object of that list.
	object func(id, query string) (status int, body []byte, err error)
}

// claim says where the ids of created objects are in the answer to a request.
func (c *claims) claim(o *exchange.Objects, body []byte) {
	if !o.Creates() && len(o.Related)+len(o.Models) == 0 {
		return
	}
	c.created, c.events, c.related, c.byModels = o.Created, o.CreatedInEvents, o.Related, o.Models
	if o.StoreParam != "" && !c.stores(body, o.StoreParam, o.StoreDefault) {
		c.created, c.events = nil, nil
		c.related = slices.DeleteFunc(slices.Clone(o.Related), func(name string) bool { return !strings.HasSuffix(name, "container_id") })
		if len(c.related) == 0 || !bytes.Contains(body, []byte("container")) && !bytes.Contains(body, []byte("code_interpreter")) {
			return
		}
	}
	c.claims = true
}

// stores reports whether the provider stores what the call creates.
func (c *claims) stores(body []byte, parameter string, otherwise bool) bool {
	if !c.target.Payload().MayHave(parameter) {
		return otherwise
	}
	switch v := gjson.GetBytes(body, parameter); v.Type {
	case gjson.True:
		return true
	case gjson.False:
		return false
	}
	return otherwise
}

// Response notes the objects that an answer has created or deleted, and filters lists.
func (c *claims) Response(_ context.Context, res *http.Response) error {
	rt, x := c.rt, c.rt.x
	if res.StatusCode < 200 || res.StatusCode >= 300 {
		return nil
	}
	if x.Method() == http.MethodDelete {
		if failure := c.target.Ownership().Deleted(); failure != "" {
			rt.out.Failure = failure
		}
		return nil
	}
	if x.Endpoint.Objects.Location {
		if location := res.Header.Get("Location"); location != "" {
			if err := c.target.Ownership().Claim([]stored.Listed{{ID: path.Base(location)}}, false); err != nil {
				res.Body.Close()
				return err
			}
		}
		return nil
	}
	media := mediaType(res.Header)
	switch {
	case c.page == nil && !c.models && (!c.claims || media == "text/event-stream" && res.StatusCode == http.StatusOK):
		return nil // the events of a stream are looked at as they pass
	case res.Header.Get("Content-Encoding") != "":
		return rt.unreadable(res, "the provider sent "+res.Header.Get("Content-Encoding")+", which was not requested")
	}
	body, err := readAtMost(rt.call, res.Body, maxWhole)
	switch {
	case inflight.Refused(err):
		res.Body.Close()
		return err
	case err != nil:
		x.Memory.Free(cap(body))
		return rt.unreadable(res, "the provider's answer cannot be read: "+err.Error())
	}
	if c.page != nil {
		out, refusal := c.shown(body)
		x.Memory.Free(cap(body))
		if refusal == nil {
			refusal = c.take(out)
		}
		if refusal != nil {
			res.Body.Close()
			return refusal
		}
		return rt.replaceBody(res, out)
	}
	res.Body.Close()
	if c.models {
		out := withoutModels(body, c.target.Ownership().Hides)
		x.Memory.Free(cap(body))
		return rt.replaceBody(res, out)
	}
	if refusal := c.take(body); refusal != nil {
		x.Memory.Free(cap(body))
		return refusal
	}
	res.Body, res.ContentLength = &peeked{call: rt.call, seen: body, src: http.NoBody}, int64(len(body))
	return nil
}

// take notes the objects that a complete answer has created. The error is for the client.
func (c *claims) take(body []byte) *exchange.Error {
	if !c.claims {
		return nil
	}
	if err := c.target.Ownership().Claim(c.made(body, c.created, true), false); err != nil {
		return err
	}
	if err := c.target.Ownership().Claim(c.made(body, c.related, false), true); err != nil {
		return err
	}
	var models []string
	for _, member := range c.byModels {
		models = append(models, c.fresh(body, member)...)
	}
	return c.target.Ownership().ClaimModels(models)
}

// Event notes the objects that an event of a stream has created.
func (c *claims) Event(data []byte) error {
	// Most events of a response are pieces of text.
	if !c.claims || c.responses && !bytes.Contains(data, []byte(`"response"`)) && !bytes.Contains(data, []byte(`"item"`)) {
		return nil
	}
	err := c.target.Ownership().Claim(c.made(data, c.events, true), false)
	if err == nil {
		err = c.target.Ownership().Claim(c.made(data, c.related, false), true)
	}
	if err == nil {
		return nil
	}
	return &cut{kind: "object_not_stored", why: "made something whose owner could not be stored: " + err.Error()}
}

// made returns the objects in members of an answer that were not seen in this call before. With
// created, the call has created them.
func (c *claims) made(body []byte, members []string, created bool) (objects []stored.Listed) {
	add := func(body []byte, member string) {
		for _, id := range c.fresh(body, member) {
			objects = append(objects, c.target.Ownership().Listed(body, member, id, created))
		}
	}
	for _, member := range members {
		of, inList := strings.CutPrefix(member, "data.#.")
		if !inList {
			add(body, member)
			continue
		}
		gjson.GetBytes(body, "data").ForEach(func(_, item gjson.Result) bool {
			add([]byte(item.Raw), of)
			return true
		})
	}
	return objects
}

// fresh returns the ids in a member of an answer that were not seen in this call before.
func (c *claims) fresh(body []byte, member string) (ids []string) {
	var add func(v gjson.Result)
	add = func(v gjson.Result) {
		switch {
		case v.IsArray():
			v.ForEach(func(_, v gjson.Result) bool {
				add(v)
				return true
			})
		case v.Type != gjson.String || v.Str == "" || c.seen[v.Str]:
		default:
			if c.seen == nil {
				c.seen = make(map[string]bool)
			}
			c.seen[v.Str] = true
			ids = append(ids, v.Str)
		}
	}
	add(gjson.GetBytes(body, member))
	return ids
}

// Interface guards
var (
	_ Hook         = (*ownership)(nil)
	_ RequestHook  = (*ownership)(nil)
	_ ResponseHook = (*claims)(nil)
	_ EventHook    = (*claims)(nil)
)
