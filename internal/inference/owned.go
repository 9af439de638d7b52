package inference

import (
	"bytes"
	"context"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/providers"
)

// claims note the objects that a call creates as its workspace's, before the caller gets their
// ids.
type claims struct {
	target        *exchange.Attempt
	makes, events []string // as in exchange.Objects
	names, models []string
	responses     bool
	seen          map[string]bool
}

// guard checks that an attempt's body names only objects of its workspace, and has the attempt
// note the objects that it creates, if workspaces share the credential.
func (f *Forwarder) guard(ctx context.Context, rt *roundTrip, t *routing.Target, p *providers.Provider, path string) *exchange.Error {
	x := rt.x
	if !rt.target.Noted() {
		return nil
	}
	var body []byte
	if rt.body != nil {
		body = rt.body.Bytes()
	}
	responses := x.Endpoint.Name == exchange.CreateResponse
	adapted := responses && p.Adapts(providers.CreateResponse)
	if refusal := rt.target.CheckNamed(body, adapted); refusal != nil {
		return refusal
	}
	o := &x.Endpoint.Objects
	if o.List && rt.target.Guarded() {
		rt.page = func(query string) (int, []byte, error) {
			return f.fetch(ctx, x, rt.target, t, operation{x.Endpoint.Name, x.Method(), path, query})
		}
	}
	if adapted || !o.Creates() && len(o.Related)+len(o.Models) == 0 {
		return nil
	}
	c := &claims{target: rt.target, makes: o.Created, events: o.CreatedInEvents, names: o.Related, models: o.Models, responses: responses}
	if o.StoreParam != "" && !stores(body, o.StoreParam, o.StoreDefault) {
		c.makes, c.events = nil, nil
		c.names = slices.DeleteFunc(slices.Clone(o.Related), func(name string) bool { return !strings.HasSuffix(name, "container_id") })
		if len(c.names) == 0 || !bytes.Contains(body, []byte("container")) && !bytes.Contains(body, []byte("code_interpreter")) {
			return nil
		}
	}
	rt.claims = c
	return nil
}

// stores reports whether the provider stores what the call creates.
func stores(body []byte, parameter string, otherwise bool) bool {
	if !bytes.Contains(body, []byte(parameter)) {
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

// own notes the objects that an answer has created or deleted, and filters lists by workspace.
func (rt *roundTrip) own(res *http.Response) error {
	x := rt.x
	if !rt.target.Noted() || res.StatusCode < 200 || res.StatusCode >= 300 {
		return nil
	}
	if x.Method() == http.MethodDelete {
		if failure := rt.target.Deleted(); failure != "" {
			rt.out.Failure = failure
		}
		return nil
	}
	if x.Endpoint.Objects.Location {
		if location := res.Header.Get("Location"); location != "" {
			if err := rt.target.Claim([]string{path.Base(location)}, false); err != nil {
				res.Body.Close()
				return err
			}
		}
		return nil
	}
	media := mediaType(res.Header)
	shows := x.Endpoint.Objects.ModelList && rt.target.Guarded()
	switch {
	case rt.page == nil && !shows && (rt.claims == nil || media == "text/event-stream" && res.StatusCode == http.StatusOK):
		return nil // the events of a stream are looked at as they pass
	case res.Header.Get("Content-Encoding") != "":
		return rt.unreadable(res, "the provider sent "+res.Header.Get("Content-Encoding")+", which nobody asked for")
	}
	body, err := readAtMost(rt.call, res.Body, maxWhole)
	switch {
	case inflight.Refused(err):
		res.Body.Close()
		return err
	case err != nil:
		x.Free(cap(body))
		return rt.unreadable(res, "the provider's answer cannot be read: "+err.Error())
	}
	if rt.page != nil {
		out, refusal := rt.shown(body)
		x.Free(cap(body))
		if refusal != nil {
			res.Body.Close()
			return refusal
		}
		if refusal := rt.claims.whole(out); refusal != nil {
			res.Body.Close()
			return refusal
		}
		return replaceBody(rt.call, res, out)
	}
	res.Body.Close()
	if shows {
		out := withoutModels(body, rt.target.Hides)
		x.Free(cap(body))
		return replaceBody(rt.call, res, out)
	}
	if refusal := rt.claims.whole(body); refusal != nil {
		x.Free(cap(body))
		return refusal
	}
	res.Body, res.ContentLength = &peeked{call: rt.call, seen: body, src: http.NoBody}, int64(len(body))
	return nil
}

// whole notes the objects that an answer in one piece has created. The error is for the caller.
func (c *claims) whole(body []byte) *exchange.Error {
	if c == nil {
		return nil
	}
	if err := c.target.Claim(c.fresh(body, c.makes), false); err != nil {
		return err
	}
	if err := c.target.Claim(c.fresh(body, c.names), true); err != nil {
		return err
	}
	return c.target.ClaimModels(c.fresh(body, c.models))
}

// Event notes the objects that an event of a stream has created.
func (c *claims) Event(data []byte) error {
	// Most events of a response are pieces of text.
	if c.responses && !bytes.Contains(data, []byte(`"response"`)) && !bytes.Contains(data, []byte(`"item"`)) {
		return nil
	}
	err := c.target.Claim(c.fresh(data, c.events), false)
	if err == nil {
		err = c.target.Claim(c.fresh(data, c.names), true)
	}
	if err == nil {
		return nil
	}
	return &cut{"object_not_stored", "made something whose owner could not be stored: " + err.Error()}
}

// fresh returns the ids in members of an answer that were not seen in this call before.
func (c *claims) fresh(body []byte, members []string) (ids []string) {
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
	for _, member := range members {
		add(gjson.GetBytes(body, member))
	}
	return ids
}
