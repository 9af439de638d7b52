package inference

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/stored"
)

// Bounds of what is fetched by its id for a page of a list.
const (
	maxObjects  = 20 // of such a page
	maxFetches  = 100
	fetchAtOnce = 8
)

// A gap is a part of a list in which the workspace has nothing. Whatever the others made, the page
// behind it costs at most maxPages and maxFetches requests: as many as it has objects, and more only
// for those of the workspace that the provider does not have any more, or that the query leaves out.
type gap struct {
	first     *page      // of the list
	query     url.Values // of the call
	backwards bool
	created   int64 // when the last object was made that was seen; 0: that is not known
	most      int   // objects of a page

	bodies  map[string][]byte // of objects that were fetched
	without map[string]bool   // those that the query leaves out
	held    int               // bytes of memory
}

// created returns when the object at the end of a page was made, on the side of the next one.
func created(data [][]byte, backwards bool) int64 {
	if len(data) == 0 {
		return 0
	}
	at := data[len(data)-1]
	if backwards {
		at = data[0]
	}
	var o stored.Listed
	exchange.SeenIn(gjson.ParseBytes(at), &o)
	return o.Created
}

// learn notes when the objects of a page were made.
func (c *claims) learn(p *page) *exchange.Error {
	seen := make([]stored.Listed, len(p.ids))
	for i, id := range p.ids {
		seen[i] = stored.Listed{ID: id, List: c.rt.x.Endpoint.Objects.In}
		exchange.SeenIn(gjson.ParseBytes(p.data[i]), &seen[i])
	}
	_, refusal := c.target.Learn(seen, nil)
	return refusal
}

// fetched returns the page that follows a gap.
func (c *claims) fetched(g *gap) ([]byte, *exchange.Error) {
	g.bodies, g.without = make(map[string][]byte), make(map[string]bool)
	defer func() { c.rt.x.Free(g.held) }()
	most := min(g.most, maxObjects)
	stretch := g.stretch(c.rt.x.Endpoint.Objects.OldestFirst)
	fetches, refusal := c.learnUnsure(g)
	if refusal != nil {
		return nil, refusal
	}
	for {
		next, more, refusal := c.target.Next(stretch, most, g.wants)
		if refusal != nil {
			return nil, refusal
		}
		var missing []string
		for _, o := range next {
			if g.bodies[o.ID] == nil {
				missing = append(missing, o.ID)
			}
		}
		switch {
		case len(missing) == 0:
			return g.page(next, more), nil
		case fetches+len(missing) > maxFetches:
			// Those before the first one that is missing are what follows.
			i := slices.IndexFunc(next, func(o stored.Listed) bool { return g.bodies[o.ID] == nil })
			if i > 0 {
				return g.page(next[:i], true), nil
			}
			return nil, refusedList("of " + strconv.Itoa(fetches) + " objects that this workspace made next, none is left with the provider that the query asks for: try again, or ask for others")
		}
		fetches += len(missing)
		if refusal := c.fetchAll(g, missing); refusal != nil {
			return nil, refusal
		}
	}
}

// learnUnsure fetches those objects of which it is not known where in the list they are: files that jobs and
// tools made. It returns how many that were.
func (c *claims) learnUnsure(g *gap) (fetches int, refusal *exchange.Error) {
	for {
		ids, refusal := c.target.Unsure(fetchAtOnce)
		switch {
		case refusal != nil || len(ids) == 0:
			return fetches, refusal
		case fetches+len(ids) > maxFetches:
			return 0, refusedList("where objects of this workspace are in the list has to be asked first, which was done for " + strconv.Itoa(fetches) + " of them: try again")
		}
		fetches += len(ids)
		if refusal := c.fetchAll(g, ids); refusal != nil {
			return 0, refusal
		}
	}
}

// fetchAll fetches objects by their ids, and notes what they say.
func (c *claims) fetchAll(g *gap, ids []string) *exchange.Error {
	query := make(url.Values)
	if version := g.query["api-version"]; version != nil {
		query["api-version"] = version
	}
	owns, refusal := c.target.Owns(ids)
	if refusal != nil {
		return refusal
	}
	type result struct {
		status int
		body   []byte
		err    error
	}
	results := make([]result, len(ids))
	var fetching sync.WaitGroup
	free := make(chan struct{}, fetchAtOnce)
	for i, id := range ids {
		if !owns[i] { // its place outlived it
			results[i].status = http.StatusNotFound
			continue
		}
		free <- struct{}{}
		fetching.Go(func() {
			defer func() { <-free }()
			r := &results[i]
			r.status, r.body, r.err = c.object(id, query.Encode())
		})
	}
	fetching.Wait()
	var seen []stored.Listed
	var gone []string
	for i, r := range results {
		g.held += cap(r.body)
		object := gjson.ParseBytes(r.body)
		switch {
		case r.err != nil:
			refusal = c.rt.failure(r.err)
		case r.status == http.StatusNotFound:
			gone = append(gone, ids[i])
		case r.status != http.StatusOK:
			refusal = refusedList("provider " + c.rt.target.Route.Provider + " answered " + strconv.Itoa(r.status) + " for one of them")
		case !json.Valid(r.body) || object.Get("id").Str != ids[i]:
			refusal = refusedList("what provider " + c.rt.target.Route.Provider + " answered for one of them is not it")
		default:
			g.bodies[ids[i]] = r.body
			g.without[ids[i]] = !asks(g.query, object)
			o := stored.Listed{ID: ids[i], List: c.rt.x.Endpoint.Objects.In}
			exchange.SeenIn(object, &o)
			seen = append(seen, o)
		}
	}
	for _, id := range gone {
		g.without[id] = true
	}
	if refusal != nil {
		return refusal
	}
	_, refusal = c.target.Learn(seen, gone)
	return refusal
}

// stretch returns the part of the list that the query asks for, in the order in which it is read.
func (g *gap) stretch(oldestFirst bool) stored.Stretch {
	newest := !oldestFirst
	switch strings.ToLower(g.query.Get("order")) {
	case "asc":
		newest = false
	case "desc":
		newest = true
	}
	s := stored.Stretch{Newest: newest, From: g.query.Get("after"), Until: g.query.Get("before"), Created: g.created}
	if g.backwards {
		s.Newest, s.From, s.Until = !newest, s.Until, ""
	}
	return s
}

// wants reports whether the query asks for an object, as far as that is known.
func (g *gap) wants(o *stored.Listed) bool {
	purpose := g.query["purpose"]
	return !g.without[o.ID] && (o.Purpose == "" || len(purpose) == 0 || slices.Contains(purpose, o.Purpose))
}

// asks reports whether a query asks for an object: what it says of a member that the object has must be
// so.
func asks(query url.Values, object gjson.Result) bool {
	for name, values := range query {
		switch name {
		case "limit", "after", "before", "order", "order_by", "api-version":
			continue
		}
		parts := strings.FieldsFunc(name, func(r rune) bool { return r == '[' || r == ']' })
		v := object
		for _, part := range parts {
			v = v.Get(gjson.Escape(part))
		}
		of := len(parts) > 1 && parts[0] == "metadata"
		if !v.Exists() && !of || v.IsObject() || v.IsArray() {
			continue
		}
		if !slices.Contains(values, v.String()) {
			return false
		}
	}
	return true
}

// page returns a page of objects that were fetched.
func (g *gap) page(objects []stored.Listed, more bool) []byte {
	p := &page{more: more}
	for _, o := range objects {
		p.data, p.ids = append(p.data, g.bodies[o.ID]), append(p.ids, o.ID)
	}
	if g.backwards {
		slices.Reverse(p.data)
		slices.Reverse(p.ids)
	}
	return p.append(g.first)
}
