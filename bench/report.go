package main

import (
	"fmt"
	"slices"
	"strings"
)

// A Sample holds the figures of one proxy. A stream counts as one request.
type Sample struct {
	Requests  int     `json:"requests"`
	PerSecond float64 `json:"requests_per_second"`
	CPUMicros float64 `json:"cpu_us_per_request,omitempty"` // of the proxy's process; 0: unknown
	P50Millis float64 `json:"p50_ms"`
	Written   float64 `json:"written_bytes_per_request"`   // to disks
	PeakBytes int64   `json:"peak_memory_bytes,omitempty"` // resident, over all rounds; 0: unknown
}

// A Round is one turn of each proxy.
type Round struct {
	Plain   Sample `json:"plain"`
	Gateway Sample `json:"gateway"`
}

// of returns the sample of a proxy by its index.
func (r *Round) of(proxy int) *Sample { return [...]*Sample{&r.Plain, &r.Gateway}[proxy] }

// A Result summarizes the rounds of a case.
type Result struct {
	Case    string  `json:"case"`
	Plain   Sample  `json:"plain"`   // medians; requests are the sum of all rounds
	Gateway Sample  `json:"gateway"` // likewise
	Ratio   Ratio   `json:"ratio"`
	Rounds  []Round `json:"rounds"`
}

// A Ratio is gateway to plain: the median of the ratios of all rounds.
type Ratio struct {
	PerSecond float64 `json:"requests_per_second"`
	CPU       float64 `json:"cpu,omitempty"` // 0: unknown
	P50       float64 `json:"p50"`
	Peak      float64 `json:"peak_memory,omitempty"` // ratio of the peaks; 0: unknown
}

// IdleMemory is the resident memory of the idle proxies, in bytes; 0: unknown.
type IdleMemory struct {
	Plain   int64 `json:"plain_bytes,omitempty"`
	Gateway int64 `json:"gateway_bytes,omitempty"`
}

// A Report holds the results of a run.
type Report struct {
	Options Options    `json:"options"`
	Go      string     `json:"go"`
	System  string     `json:"system"`
	CPUs    int        `json:"cpus"`
	Results []Result   `json:"results"`
	Idle    IdleMemory `json:"resting_memory"`
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
		s.Written = middle(func(r Round) float64 { return of(r).Written })
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

// median returns the middle value, or the mean of the two middle values, or 0 for no
// values.
func median(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// ratio returns a/b, or 0 if b is 0 or unknown.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// table prints a report for people.
func (r *Report) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, %d CPUs; %d connections, %d rounds of %v for each proxy: medians\n\n",
		r.Go, r.System, r.CPUs, r.Options.Connections, r.Options.Rounds, r.Options.Duration)
	line := func(of, proxy, requests string, figures ...string) {
		row := fmt.Sprintf("%-8s%-15s%9s%9s%13s%9s%10s%15s", of, proxy, requests, figures[0], figures[1], figures[2], figures[3], figures[4])
		b.WriteString(strings.TrimRight(row, " ") + "\n")
	}
	line("case", "proxy", "requests", "req/s", "CPU µs/req", "p50 ms", "peak MiB", "written B/req")
	for _, result := range r.Results {
		sample := func(proxy string, s Sample) {
			written := "n/a" // as memory is
			if s.PeakBytes > 0 {
				written = fmt.Sprintf("%.0f", s.Written)
			}
			line(result.Case, proxy, fmt.Sprint(s.Requests), known("%.0f", s.PerSecond), known("%.0f", s.CPUMicros), known("%.2f", s.P50Millis),
				known("%.0f", mebibytes(s.PeakBytes)), written)
		}
		sample("plain", result.Plain)
		sample("gateway", result.Gateway)
		of := result.Ratio
		line(result.Case, "gateway/plain", "", known("%.2f", of.PerSecond), known("%.2f", of.CPU), known("%.2f", of.P50), known("%.2f", of.Peak), "")
	}
	fmt.Fprintf(&b, "\nmemory after %v without requests: plain %s MiB, gateway %s MiB\n", r.Options.Rest,
		known("%.0f", mebibytes(r.Idle.Plain)), known("%.0f", mebibytes(r.Idle.Gateway)))
	return b.String()
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

func known(form string, figure float64) string {
	if figure == 0 {
		return "n/a"
	}
	return fmt.Sprintf(form, figure)
}
