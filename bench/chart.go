package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// chart draws the ratios of CPU time as an SVG image: a bar for each proxy of each case,
// whose line is the middle half of the rounds.
func (r *Report) chart() string {
	const left, width, bar, gap = 220, 480, 16, 10
	type row struct {
		label string
		of    *Ratio
		first bool // of its case
	}
	var rows []row
	most := 1.0
	for _, result := range r.Results {
		first := true
		for _, p := range result.Proxies {
			if p.Ratio == nil || p.Ratio.CPU == 0 {
				continue
			}
			label := result.Case
			if len(result.Proxies) > 2 {
				label += ", " + p.Proxy
			}
			rows = append(rows, row{label, p.Ratio, first})
			most, first = max(most, p.Ratio.Quartiles[1], p.Ratio.CPU), false
		}
	}
	scale := width / math.Ceil(most*2) * 2
	x := func(ratio float64) float64 { return left + ratio*scale }
	height := 40
	for _, row := range rows {
		height += bar + 4
		if row.first {
			height += gap
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", left+width+60, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/><text x="%d" y="18">CPU time per request, as a ratio to %s</text>`+"\n", left, html.EscapeString(r.base()))
	y := 26
	for _, row := range rows {
		if row.first {
			y += gap
		}
		middle := float64(y) + bar/2
		fmt.Fprintf(&b, `<text x="%d" y="%.0f" text-anchor="end">%s</text>`, left-8, middle+4, html.EscapeString(row.label))
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="#4c78a8"/>`, left, y, row.of.CPU*scale, bar)
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#222"/>`, x(row.of.Quartiles[0]), x(row.of.Quartiles[1]), middle, middle)
		fmt.Fprintf(&b, `<text x="%.1f" y="%.0f">%.2f</text>`+"\n", x(max(row.of.Quartiles[1], row.of.CPU))+6, middle+4, row.of.CPU)
		y += bar + 4
	}
	fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="30" y2="%d" stroke="#e45756" stroke-dasharray="4 3"/>`+"\n</svg>\n", x(1), x(1), y)
	return b.String()
}

// base is the proxy that the others are compared with.
func (r *Report) base() string {
	if r.Options.Proxies[0] == plainName {
		return "plain Caddy"
	}
	return r.Options.Proxies[0]
}
