package main

import (
	"fmt"
	"slices"
	"strings"
)

// A Sample is the figures of one proxy. Of a stream, a request is all of it.
type Sample struct {
	Requests  int     `json:"requests"`
	PerSecond float64 `json:"requests_per_second"`
	CPUMicros float64 `json:"cpu_us_per_request,omitempty"` // of the proxy's process; 0: unknown
	P50Millis float64 `json:"p50_ms"`
}

// A Round is one turn of each proxy.
type Round struct {
	Plain   Sample `json:"plain"`
	Gateway Sample `json:"gateway"`
}

// of returns the sample of a proxy, by the order of their turns.
func (r *Round) of(proxy int) *Sample { return [...]*Sample{&r.Plain, &r.Gateway}[proxy] }

// A Result is what the rounds of a case come to.
type Result struct {
	Case    string  `json:"case"`
	Plain   Sample  `json:"plain"`   // medians; requests are those of all rounds
	Gateway Sample  `json:"gateway"` // likewise
	Ratio   Ratio   `json:"ratio"`
	Rounds  []Round `json:"rounds"`
}

// A Ratio is gateway to plain: the median of the ratios of each round.
type Ratio struct {
	PerSecond float64 `json:"requests_per_second"`
	CPU       float64 `json:"cpu,omitempty"` // 0: unknown
	P50       float64 `json:"p50"`
}

// A Report is what a run found.
type Report struct {
	Options Options  `json:"options"`
	Go      string   `json:"go"`
	System  string   `json:"system"`
	CPUs    int      `json:"cpus"`
	Results []Result `json:"results"`
}

func summarize(name string, rounds []Round) Result {
	middle := func(figure func(Round) float64) float64 {
		figures := make([]float64, len(rounds))
		for i, r := range rounds {
			figures[i] = figure(r)
		}
		return median(figures)
	}
	sample := func(of func(Round) Sample) (s Sample) {
		for _, r := range rounds {
			s.Requests += of(r).Requests
		}
		s.PerSecond = middle(func(r Round) float64 { return of(r).PerSecond })
		s.CPUMicros = middle(func(r Round) float64 { return of(r).CPUMicros })
		s.P50Millis = middle(func(r Round) float64 { return of(r).P50Millis })
		return s
	}
	return Result{
		Case:    name,
		Plain:   sample(func(r Round) Sample { return r.Plain }),
		Gateway: sample(func(r Round) Sample { return r.Gateway }),
		Ratio: Ratio{
			PerSecond: middle(func(r Round) float64 { return ratio(r.Gateway.PerSecond, r.Plain.PerSecond) }),
			CPU:       middle(func(r Round) float64 { return ratio(r.Gateway.CPUMicros, r.Plain.CPUMicros) }),
			P50:       middle(func(r Round) float64 { return ratio(r.Gateway.P50Millis, r.Plain.P50Millis) }),
		},
		Rounds: rounds,
	}
}

// median returns the middle one, or the mean of the two middle ones; 0 of none.
func median(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// ratio is a/b, and 0 where b is 0 or unknown.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// table shows a report to people.
func (r *Report) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, %d CPUs; %d connections, %d rounds of %v for each proxy: medians\n\n",
		r.Go, r.System, r.CPUs, r.Options.Connections, r.Options.Rounds, r.Options.Duration)
	line := func(of, proxy, requests string, figures ...string) {
		fmt.Fprintf(&b, "%-8s%-15s%9s%9s%13s%9s\n", of, proxy, requests, figures[0], figures[1], figures[2])
	}
	line("case", "proxy", "requests", "req/s", "CPU µs/req", "p50 ms")
	for _, result := range r.Results {
		sample := func(proxy string, s Sample) {
			line(result.Case, proxy, fmt.Sprint(s.Requests), known("%.0f", s.PerSecond), known("%.0f", s.CPUMicros), known("%.2f", s.P50Millis))
		}
		sample("plain", result.Plain)
		sample("gateway", result.Gateway)
		of := result.Ratio
		line(result.Case, "gateway/plain", "", known("%.2f", of.PerSecond), known("%.2f", of.CPU), known("%.2f", of.P50))
	}
	return b.String()
}

func known(form string, figure float64) string {
	if figure == 0 {
		return "n/a"
	}
	return fmt.Sprintf(form, figure)
}
