package inference

import (
	"bytes"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Bounds of the search for the next object of a workspace in the list of all. What is not found there
// is asked for by its id.
const (
	maxPages    = 2
	maxInSecond = 20  // pages that were made in the same second as the object that a list begins behind
	pageLimit   = 100 // objects of a page, as providers have it
)

// A page is a page of a list, in OpenAI's format.
type page struct {
	data    [][]byte
	ids     []string
	object  []byte
	ends    bool // it has first_id and last_id
	hasMore bool // it has has_more
	more    bool
}

// readPage reads a page; it returns nil if the body is none.
func readPage(body []byte) *page {
	p := new(page)
	lists := 0
	r := jsonscan.NewReader(body)
	ok := r.Object(func(key jsonscan.Key) {
		switch key.String() {
		case "data":
			lists++
			if !r.Array(func() {
				item := r.Raw()
				p.data = append(p.data, item)
				p.ids = append(p.ids, gjson.GetBytes(item, "id").Str)
			}) {
				lists++
			}
		case "object":
			p.object = r.Raw()
		case "last_id":
			p.ends = true
		case "has_more":
			p.hasMore, p.more = true, string(r.Raw()) == "true"
		}
	})
	if !ok || r.Err() != nil || lists != 1 {
		return nil
	}
	return p
}

// shown returns the list in an answer with only the objects that the call's workspace made. If a
// page has none of them, the next page is fetched: clients continue from the last object of a
// page. If that has none either, what others made may go on for long: the gateway knows which objects
// of the workspace are behind it, and fetches some of them.
func (c *claims) shown(body []byte) ([]byte, *exchange.Error) {
	rt, x := c.rt, c.rt.x
	query, err := url.ParseQuery(x.Query)
	if err != nil {
		return nil, refusedList("its query cannot be read")
	}
	backwards := query.Get("before") != "" && query.Get("after") == ""
	asked := maps.Clone(query)
	first := readPage(body)
	p, most, held := first, 0, 0
	defer func() { x.Memory.Free(held) }()
	for n := 1; ; n++ {
		if p == nil {
			return nil, refusedList("what provider " + rt.target.Route.Provider + " answered is not a list")
		}
		if n == 1 {
			most = max(len(p.data), 1)
			if limit, err := strconv.Atoi(query.Get("limit")); err == nil && limit > 0 {
				most = limit
			}
		}
		owns, refusal := rt.target.Ownership().Owns(p.ids)
		if refusal != nil {
			return nil, refusal
		}
		var end string // of the page, on the side of the next one
		switch {
		case len(p.ids) == 0:
		case backwards:
			end = p.ids[0]
		default:
			end = p.ids[len(p.ids)-1]
		}
		last := created(p.data, backwards)
		p.keep(owns)
		if len(p.data) > 0 || !p.more || end == "" {
			p.cut(most, backwards)
			return p.append(first), c.learn(p)
		}
		if n >= maxPages {
			g := newGap(first, asked, backwards, last, most)
			switch reached, refusal := c.reached(g); {
			case refusal != nil:
				return nil, refusal
			case reached:
				return c.fetched(g)
			case n == maxInSecond: // which of them follow the cursor, the pages alone say
				return nil, refusedList("of the first " + strconv.Itoa(n) + " pages this workspace made nothing, and they are not of another second than the object that they begin behind")
			}
			x.Memory.Free(g.held)
		}
		query.Set("limit", strconv.Itoa(pageLimit))
		if backwards {
			query.Set("before", end)
		} else {
			query.Set("after", end)
		}
		x.Memory.Free(held)
		status, body, err := c.page(query.Encode())
		held = cap(body)
		if err != nil {
			return nil, rt.failure(err)
		}
		if status != http.StatusOK {
			return nil, refusedList("provider " + rt.target.Route.Provider + " answered " + strconv.Itoa(status) + " for a page of it")
		}
		p = readPage(body)
	}
}

// keep removes the objects of other workspaces.
func (p *page) keep(owns []bool) {
	n := 0
	for i, ok := range owns {
		if ok {
			p.data[n], p.ids[n] = p.data[i], p.ids[i]
			n++
		}
	}
	p.data, p.ids = p.data[:n], p.ids[:n]
}

// cut removes the objects beyond the size of a page.
func (p *page) cut(most int, backwards bool) {
	over := len(p.data) - most
	switch {
	case over <= 0:
		return
	case backwards:
		p.data, p.ids = p.data[over:], p.ids[over:]
	default:
		p.data, p.ids = p.data[:most], p.ids[:most]
	}
	p.more = true
}

// append writes the page with the members of the first page of the list.
func (p *page) append(first *page) []byte {
	b := jsonscan.Builder(nil)
	b.Open('{')
	if first.object != nil {
		b.Key("object").Raw(first.object)
	}
	b.Key("data").Open('[')
	b = append(b, bytes.Join(p.data, []byte{','})...)
	b.Close(']')
	if n := len(p.ids); first.ends && n > 0 {
		b.Key("first_id").Text(p.ids[0])
		b.Key("last_id").Text(p.ids[n-1])
	} else if first.ends {
		b.Key("first_id").Raw([]byte("null"))
		b.Key("last_id").Raw([]byte("null"))
	}
	if first.hasMore {
		b.Key("has_more").Bool(p.more)
	}
	b.Close('}')
	return b
}

// refusedList refuses a list that cannot be filtered by workspace.
func refusedList(why string) *exchange.Error {
	return &exchange.Error{
		Status: http.StatusBadGateway, Type: "provider_error", Code: "list_not_filtered", Pointless: true,
		Message: "The list is of all workspaces that share the credential, and what this one made cannot be shown: " + why + "; use a virtual key of the workspace",
	}
}
