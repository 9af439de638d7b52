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

// A Round is one turn of each proxy, in their order.
type Round []Sample

// A Result summarizes the rounds of a case.
type Result struct {
	Case    string        `json:"case"`
	Proxies []ProxyResult `json:"proxies"`
	Rounds  []Round       `json:"rounds"`
}

// A ProxyResult is what the rounds of one proxy came to.
type ProxyResult struct {
	Proxy  string `json:"proxy"`
	Sample        // medians; requests are the sum of all rounds
	Ratio  *Ratio `json:"ratio,omitempty"` // to the first proxy, which has none
}

// A Ratio is one proxy to the first: the median of the ratios of all rounds.
type Ratio struct {
	PerSecond float64    `json:"requests_per_second"`
	CPU       float64    `json:"cpu,omitempty"`           // 0: unknown
	Quartiles [2]float64 `json:"cpu_quartiles,omitempty"` // the middle half of the rounds
	P50       float64    `json:"p50"`
	Peak      float64    `json:"peak_memory,omitempty"` // ratio of the peaks; 0: unknown
}

// IdleMemory is the resident memory of an idle proxy, in bytes; 0: unknown.
type IdleMemory struct {
	Proxy string `json:"proxy"`
	Bytes int64  `json:"bytes,omitempty"`
}

// A Report holds the results of a run.
type Report struct {
	Options Options      `json:"options"`
	Go      string       `json:"go"`
	System  string       `json:"system"`
	CPUs    int          `json:"cpus"`
	Results []Result     `json:"results"`
	Idle    []IdleMemory `json:"resting_memory"`
}

// summarize makes the result of a case; peaks are those of memory, in bytes.
func summarize(name string, proxies []string, rounds []Round, peaks []int64) Result {
	result := Result{Case: name, Rounds: rounds}
	for i, proxy := range proxies {
		figures := func(figure func(Round) float64) []float64 {
			all := make([]float64, len(rounds))
			for j, r := range rounds {
				all[j] = figure(r)
			}
			return all
		}
		middle := func(figure func(Sample) float64) float64 {
			return median(figures(func(r Round) float64 { return figure(r[i]) }))
		}
		p := ProxyResult{Proxy: proxy, Sample: Sample{
			PerSecond: middle(func(s Sample) float64 { return s.PerSecond }),
			CPUMicros: middle(func(s Sample) float64 { return s.CPUMicros }),
			P50Millis: middle(func(s Sample) float64 { return s.P50Millis }),
			Written:   middle(func(s Sample) float64 { return s.Written }),
			PeakBytes: peaks[i],
		}}
		for _, r := range rounds {
			p.Requests += r[i].Requests
		}
		if i > 0 {
			ratios := func(of func(Sample) float64) []float64 {
				return figures(func(r Round) float64 { return ratio(of(r[i]), of(r[0])) })
			}
			cpu := ratios(func(s Sample) float64 { return s.CPUMicros })
			p.Ratio = &Ratio{
				PerSecond: median(ratios(func(s Sample) float64 { return s.PerSecond })),
				CPU:       median(cpu),
				Quartiles: quartiles(cpu),
				P50:       median(ratios(func(s Sample) float64 { return s.P50Millis })),
				Peak:      ratio(float64(peaks[i]), float64(peaks[0])),
			}
		}
		result.Proxies = append(result.Proxies, p)
	}
	return result
}

// quartiles returns the first and the third quartile of values.
func quartiles(of []float64) (q [2]float64) {
	if len(of) == 0 {
		return q
	}
	sorted := slices.Sorted(slices.Values(of))
	n := len(sorted)
	return [2]float64{median(sorted[:(n+1)/2]), median(sorted[n/2:])}
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
		row := fmt.Sprintf("%-18s%-22s%9s%9s%13s%13s%9s%10s%15s", of, proxy, requests, figures[0], figures[1], figures[2], figures[3], figures[4], figures[5])
		b.WriteString(strings.TrimRight(row, " ") + "\n")
	}
	line("case", "proxy", "requests", "req/s", "CPU µs/req", "quartiles", "p50 ms", "peak MiB", "written B/req")
	for _, result := range r.Results {
		for _, p := range result.Proxies {
			written := "n/a" // as memory is
			if p.PeakBytes > 0 {
				written = fmt.Sprintf("%.0f", p.Written)
			}
			line(result.Case, p.Proxy, fmt.Sprint(p.Requests), known("%.0f", p.PerSecond), known("%.0f", p.CPUMicros), "", known("%.2f", p.P50Millis),
				known("%.0f", mebibytes(p.PeakBytes)), written)
		}
		for _, p := range result.Proxies {
			if of := p.Ratio; of != nil {
				between := ""
				if of.CPU > 0 {
					between = fmt.Sprintf("%.2f-%.2f", of.Quartiles[0], of.Quartiles[1])
				}
				line(result.Case, p.Proxy+"/"+result.Proxies[0].Proxy, "", known("%.2f", of.PerSecond), known("%.2f", of.CPU), between, known("%.2f", of.P50), known("%.2f", of.Peak), "")
			}
		}
	}
	fmt.Fprintf(&b, "\nmemory after %v without requests:", r.Options.Rest)
	for i, idle := range r.Idle {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, " %s %s MiB", idle.Proxy, known("%.0f", mebibytes(idle.Bytes)))
	}
	b.WriteString("\n")
	return b.String()
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

func known(form string, figure float64) string {
	if figure == 0 {
		return "n/a"
	}
	return fmt.Sprintf(form, figure)
}
