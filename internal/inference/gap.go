package inference

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

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

// settles is how long an object that the provider does not have may be one that it does not have yet.
const settles = time.Hour

// A gap is a part of a list in which the workspace has nothing. Whatever the others made, the page
// behind it costs at most maxPages and maxFetches requests: as many as it has objects, and more only
// for those of the workspace that the provider does not have any more, or that the query leaves out, and
// for the order of those that were made within one second.
type gap struct {
	first     *page      // of the list
	query     url.Values // of the call
	backwards bool
	created   int64 // when the last object was made that was seen; 0: that is not known
	most      int   // objects of a page

	bodies  map[string][]byte // of objects that were fetched
	without map[string]bool   // those that the query leaves out
	made    map[string]int64  // when those that follow were made
	orders  map[int64][]string
	fetches int // by now
	held    int // bytes of memory
}

func newGap(first *page, query url.Values, backwards bool, created int64, most int) *gap {
	return &gap{
		first: first, query: query, backwards: backwards, created: created, most: most,
		bodies: make(map[string][]byte), without: make(map[string]bool), made: make(map[string]int64), orders: make(map[int64][]string),
	}
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
	_, refusal := c.target.Ownership().Learn(seen, nil)
	return refusal
}

// reached reports whether the pages that were read go further than the second in which the object was made that
// the list begins behind. Within that second, and where the provider's list has another order than that of when
// objects were made, the provider alone says what follows it.
func (c *claims) reached(g *gap) (bool, *exchange.Error) {
	from := g.query.Get("after")
	if g.backwards {
		from = g.query.Get("before")
	}
	if from == "" || g.created == 0 {
		return true, nil
	}
	made, refusal := c.target.Ownership().CreatedAt(from)
	if refusal == nil && made == 0 { // it is not known yet
		if refusal = c.learnUnsure(g); refusal == nil {
			made, refusal = c.target.Ownership().CreatedAt(from)
		}
	}
	if refusal != nil || made == 0 {
		return true, refusal
	}
	if g.stretch(c.rt.x.Endpoint.Objects.OldestFirst).Newest {
		return g.created < made, nil
	}
	return g.created > made, nil
}

// fetched returns the page that follows a gap.
func (c *claims) fetched(g *gap) ([]byte, *exchange.Error) {
	defer func() { c.rt.x.Memory.Free(g.held) }()
	most := min(g.most, maxObjects)
	stretch := g.stretch(c.rt.x.Endpoint.Objects.OldestFirst)
	if refusal := c.learnUnsure(g); refusal != nil {
		return nil, refusal
	}
	for {
		next, more, refusal := c.target.Ownership().Next(stretch, most, g.includes)
		if refusal != nil {
			return nil, refusal
		}
		requests, refusal := c.inOrder(g, next)
		if refusal != nil {
			return nil, refusal
		}
		g.fetches += requests
		if len(next) > most {
			next, more = next[:most], true
		}
		var missing []string
		for _, o := range next {
			g.made[o.ID] = o.Created
			if g.bodies[o.ID] == nil {
				missing = append(missing, o.ID)
			}
		}
		switch {
		case len(missing) == 0:
			return g.page(next, more), nil
		case g.fetches+len(missing) > maxFetches:
			// Those before the first one that is missing are what follows.
			i := slices.IndexFunc(next, func(o stored.Listed) bool { return g.bodies[o.ID] == nil })
			if i > 0 {
				return g.page(next[:i], true), nil
			}
			return nil, refusedList("of " + strconv.Itoa(g.fetches) + " objects that this workspace made next, none is left with the provider that the query asks for: try again, or ask for others")
		}
		g.fetches += len(missing)
		if refusal := c.fetchAll(g, missing); refusal != nil {
			return nil, refusal
		}
	}
}

// learnUnsure fetches those objects whose place in the list is not known: files that jobs and
// tools made.
func (c *claims) learnUnsure(g *gap) *exchange.Error {
	for {
		ids, refusal := c.target.Ownership().Unsure(fetchAtOnce)
		switch {
		case refusal != nil || len(ids) == 0:
			return refusal
		case g.fetches+len(ids) > maxFetches:
			return refusedList("where objects of this workspace are in the list has to be asked first, which was done for " + strconv.Itoa(g.fetches) + " of them: try again")
		}
		g.fetches += len(ids)
		if refusal := c.fetchAll(g, ids); refusal != nil {
			return refusal
		}
	}
}

// fetchAll fetches objects by their ids, and notes what they say.
func (c *claims) fetchAll(g *gap, ids []string) *exchange.Error {
	query := make(url.Values)
	if version := g.query["api-version"]; version != nil {
		query["api-version"] = version
	}
	owns, refusal := c.target.Ownership().Owns(ids)
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
			g.without[ids[i]] = !matchesQuery(g.query, object)
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
	// Those that were just made stay in the list, because providers may be late to have them.
	recent := c.rt.x.Gateway.Now().Add(-settles).Unix()
	gone = slices.DeleteFunc(gone, func(id string) bool { return g.made[id] > recent })
	_, refusal = c.target.Ownership().Learn(seen, gone)
	return refusal
}

// inOrder puts objects that were made within one second into the order in which the provider lists them,
// which it alone knows: a client goes on behind the last one of a page, and the provider says what follows it.
// It returns how many requests that took.
func (c *claims) inOrder(g *gap, objects []stored.Listed) (requests int, _ *exchange.Error) {
	for len(objects) > 0 {
		n := 1
		for n < len(objects) && objects[n].Created == objects[0].Created {
			n++
		}
		same := objects[:n]
		objects = objects[n:]
		if n == 1 {
			continue
		}
		order := g.orders[same[0].Created]
		if slices.ContainsFunc(same, func(o stored.Listed) bool { return !slices.Contains(order, o.ID) }) {
			var asked int
			var refusal *exchange.Error
			order, asked, refusal = c.orderOf(g, same)
			if requests += asked; refusal != nil {
				return requests, refusal
			}
			g.orders[same[0].Created] = order
		}
		slices.SortFunc(same, func(a, b stored.Listed) int {
			return cmp.Compare(slices.Index(order, a.ID), slices.Index(order, b.ID))
		})
	}
	return requests, nil
}

// orderOf returns the ids of objects that were made within one second, in the order in which the list is read.
func (c *claims) orderOf(g *gap, same []stored.Listed) (order []string, requests int, _ *exchange.Error) {
	var rest []string
	for _, o := range same {
		rest = append(rest, o.ID)
	}
	for len(rest) > 1 && requests < maxFetches {
		next := rest[0]
		follow, asked, refusal := c.follow(g, next, same[0].Created)
		if requests += asked; refusal != nil {
			return nil, requests, refusal
		}
		follow = slices.DeleteFunc(follow, func(id string) bool { return id == next || !slices.Contains(rest, id) })
		rest = slices.DeleteFunc(rest, func(id string) bool { return id == next || slices.Contains(follow, id) })
		order = slices.Concat([]string{next}, follow, order)
	}
	return slices.Concat(rest, order), requests, nil
}

// follow returns the ids of what the provider lists behind an object, as far as it was made in the same second.
func (c *claims) follow(g *gap, id string, second int64) (ids []string, requests int, _ *exchange.Error) {
	x := c.rt.x
	query := maps.Clone(g.query)
	query.Set("limit", strconv.Itoa(pageLimit))
	cursor := "after"
	if g.backwards {
		cursor = "before"
	} else {
		query.Del("before")
	}
	for requests < maxInSecond {
		query.Set(cursor, id)
		requests++
		status, body, err := c.page(query.Encode())
		p := readPage(body)
		switch {
		case err != nil:
			return nil, requests, c.rt.failure(err)
		case status >= 400 && status < 500 && status != http.StatusTooManyRequests:
			x.Memory.Free(cap(body))
			return ids, requests, nil // the object is gone, or the query leaves it out
		case status != http.StatusOK || p == nil:
			x.Memory.Free(cap(body))
			return nil, requests, refusedList("provider " + c.rt.target.Route.Provider + " answered " + strconv.Itoa(status) + " for a page of it")
		}
		last := created(p.data, g.backwards)
		some := slices.Clone(p.ids)
		x.Memory.Free(cap(body))
		if g.backwards {
			slices.Reverse(some)
		}
		if ids = append(ids, some...); len(some) == 0 || !p.more || last != second {
			return ids, requests, nil
		}
		id = some[len(some)-1]
	}
	return ids, requests, nil
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
	if g.created != 0 {
		s.From = "" // the pages that were read go further than that
	}
	return s
}

// includes reports whether the query includes an object, as far as that is known.
func (g *gap) includes(o *stored.Listed) bool {
	purpose := g.query["purpose"]
	return !g.without[o.ID] && (o.Purpose == "" || len(purpose) == 0 || slices.Contains(purpose, o.Purpose))
}

// matchesQuery reports whether an object has the values that a query names, for the members that it has.
func matchesQuery(query url.Values, object gjson.Result) bool {
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
