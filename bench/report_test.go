package main

import (
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		of   []float64
		want float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 1, 3, 2}, 2.5},
	} {
		if got := median(test.of); got != test.want {
			t.Errorf("median(%v) = %v; want %v", test.of, got, test.want)
		}
	}
}

func TestRatiosAreMediansOfTheRounds(t *testing.T) {
	result := summarize("2KB", []Round{
		{Plain: Sample{10, 100, 50, 1, 0, 0}, Gateway: Sample{11, 80, 60, 2, 300, 0}},
		{Plain: Sample{10, 200, 50, 1, 0, 0}, Gateway: Sample{11, 180, 55, 1, 310, 0}},
		{Plain: Sample{10, 50, 200, 4, 0, 0}, Gateway: Sample{11, 10, 300, 6, 9000, 0}}, // noise
	})
	if want := (Ratio{PerSecond: 0.8, CPU: 1.2, P50: 1.5}); result.Ratio != want {
		t.Errorf("ratio %+v; want %+v", result.Ratio, want)
	}
	if want := (Sample{33, 80, 60, 2, 310, 0}); result.Gateway != want {
		t.Errorf("gateway %+v; want %+v", result.Gateway, want)
	}
}

func TestTableIsAligned(t *testing.T) {
	report := Report{
		Options: Options{Rounds: 5, Duration: 3 * time.Second, Connections: 16, Rest: 2 * time.Minute},
		Go:      "go1.26.8", System: "linux/amd64", CPUs: 2,
		Results: []Result{
			{"2KB", Sample{45000, 3000, 250.4, 5.5, 0, 65 << 20}, Sample{42000, 2800, 280, 5.75, 330.6, 98 << 20}, Ratio{0.93, 1.118, 1.05, 1.504}, nil},
			{"stream", Sample{900, 60, 0, 12, 0, 0}, Sample{800, 57, 0, 13, 0, 0}, Ratio{0.95, 0, 1.08, 0}, nil},
		},
		Idle: IdleMemory{Plain: 60 << 20, Gateway: 80 << 20},
	}
	const want = `go1.26.8, linux/amd64, 2 CPUs; 16 connections, 5 rounds of 3s for each proxy: medians

case    proxy           requests    req/s   CPU µs/req   p50 ms  peak MiB  written B/req
2KB     plain              45000     3000          250     5.50        65              0
2KB     gateway            42000     2800          280     5.75        98            331
2KB     gateway/plain                0.93         1.12     1.05      1.50
stream  plain                900       60          n/a    12.00       n/a            n/a
stream  gateway              800       57          n/a    13.00       n/a            n/a
stream  gateway/plain                0.95          n/a     1.08       n/a

memory after 2m0s without requests: plain 60 MiB, gateway 80 MiB
`
	if got := report.table(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
