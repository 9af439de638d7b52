package admin

import (
	"net"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/exchange"
)

// Paging has the query parameters of every list. Pages are counted from 0.
type Paging struct {
	PageSize    int `query:"page_size" minimum:"0" maximum:"1000" default:"100" doc:"Items a page."`
	CurrentPage int `query:"current_page" minimum:"0" doc:"The page, counted from 0."`
}

func (p Paging) page() Paging { return p }

// WholePages is Paging for lists whose pages are never empty: the total alone is not asked for.
type WholePages struct {
	PageSize    int `query:"page_size" minimum:"1" maximum:"1000" default:"100" doc:"Items a page."`
	CurrentPage int `query:"current_page" minimum:"0" doc:"The page, counted from 0."`
}

func (p WholePages) page() Paging { return Paging(p) }

// A List is the envelope of every list.
type List[T any] struct {
	Object string `json:"object" enum:"list"`
	Total  int    `json:"total" doc:"Items that match, on all pages."`
	Data   []T    `json:"data"`
}

type listOutput[T any] struct{ Body List[T] }

type empty struct{}

// pageOf returns a page of a list. If none of its rows is left out, it looks only at those of the page.
func pageOf[R, T any](of *choice[R], p Paging, show func(*R) T) *listOutput[T] {
	out := &listOutput[T]{List[T]{Object: "list", Data: []T{}}}
	if of.keep == nil {
		out.Body.Total = len(of.first) + len(of.rows)
		first, end := p.bounds(out.Body.Total)
		out.Body.Data = slices.Grow(out.Body.Data, end-first)
		for i := first; i < end; i++ {
			if i < len(of.first) {
				out.Body.Data = append(out.Body.Data, show(of.first[i]))
			} else {
				out.Body.Data = append(out.Body.Data, show(of.rows[i-len(of.first)]))
			}
		}
		return out
	}
	// Not first*size, which could overflow because current_page is not bounded.
	for _, rows := range [][]*R{of.first, of.rows} {
		for _, row := range rows {
			if !of.keep(row) {
				continue
			}
			if p.PageSize > 0 && out.Body.Total/p.PageSize == p.CurrentPage {
				out.Body.Data = append(out.Body.Data, show(row))
			}
			out.Body.Total++
		}
	}
	return out
}

// bounds returns where the page begins and ends in a list.
func (p Paging) bounds(total int) (first, end int) {
	if p.PageSize == 0 || p.CurrentPage > total/p.PageSize { // or else the product could overflow
		return 0, 0
	}
	first = p.CurrentPage * p.PageSize
	return first, min(first+p.PageSize, total)
}

func clientIP(r *http.Request) string {
	if ip, ok := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string); ok {
		return ip
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

func requestID(headers *exchange.Headers, h http.Header) string {
	id, _ := headers.Get(h, exchange.HeaderTraceID)
	return credentials.Clip(id)
}
