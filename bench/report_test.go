package main

import (
	"math"
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

func TestQuartiles(t *testing.T) {
	for _, test := range []struct {
		of   []float64
		want [2]float64
	}{
		{nil, [2]float64{}},
		{[]float64{3}, [2]float64{3, 3}},
		{[]float64{4, 1, 3, 2}, [2]float64{1.5, 3.5}},
		{[]float64{5, 1, 4, 2, 3}, [2]float64{2, 4}},
	} {
		if got := quartiles(test.of); got != test.want {
			t.Errorf("quartiles(%v) = %v; want %v", test.of, got, test.want)
		}
	}
}

func TestRatiosAreMediansOfTheRounds(t *testing.T) {
	result := summarize("2KB", []string{plainName, gatewayName}, []Round{
		{{10, 100, 50, 1, 0, 0}, {11, 80, 60, 2, 300, 0}},
		{{10, 200, 50, 1, 0, 0}, {11, 180, 55, 1, 310, 0}},
		{{10, 50, 200, 4, 0, 0}, {11, 10, 300, 6, 9000, 0}}, // noise
	}, []int64{50, 100})
	plain, gateway := result.Proxies[0], result.Proxies[1]
	if want := (Ratio{PerSecond: 0.8, CPU: 1.2, Quartiles: [2]float64{1.15, 1.35}, P50: 1.5, Peak: 2}); plain.Ratio != nil || !alike(*gateway.Ratio, want) {
		t.Errorf("ratio %+v; want %+v", gateway.Ratio, want)
	}
	if want := (Sample{33, 80, 60, 2, 310, 100}); gateway.Sample != want {
		t.Errorf("gateway %+v; want %+v", gateway.Sample, want)
	}
}

// alike compares ratios up to the error of a division.
func alike(a, b Ratio) bool {
	near := func(x, y float64) bool { return math.Abs(x-y) < 1e-9 }
	return near(a.PerSecond, b.PerSecond) && near(a.CPU, b.CPU) && near(a.P50, b.P50) && near(a.Peak, b.Peak) &&
		near(a.Quartiles[0], b.Quartiles[0]) && near(a.Quartiles[1], b.Quartiles[1])
}

func TestTableIsAligned(t *testing.T) {
	report := Report{
		Options: Options{Rounds: 40, Duration: time.Second / 4, Connections: 16, Rest: 2 * time.Minute},
		Go:      "go1.26.8", System: "linux/amd64", CPUs: 2,
		Results: []Result{
			{"2KB", []ProxyResult{
				{plainName, Sample{45000, 3000, 250.4, 5.5, 0, 65 << 20}, nil},
				{gatewayName, Sample{42000, 2800, 280, 5.75, 330.6, 98 << 20}, &Ratio{0.93, 1.118, [2]float64{1.1, 1.131}, 1.05, 1.504}},
			}, nil},
			{"stream", []ProxyResult{
				{plainName, Sample{900, 60, 0, 12, 0, 0}, nil},
				{gatewayName, Sample{800, 57, 0, 13, 0, 0}, &Ratio{PerSecond: 0.95, P50: 1.08}},
			}, nil},
		},
		Idle: []IdleMemory{{plainName, 60 << 20}, {gatewayName, 80 << 20}},
	}
	const want = `go1.26.8, linux/amd64, 2 CPUs; 16 connections, 40 rounds of 250ms for each proxy: medians

case              proxy                  requests    req/s   CPU µs/req    quartiles   p50 ms  peak MiB  written B/req
2KB               plain                     45000     3000          250                  5.50        65              0
2KB               gateway                   42000     2800          280                  5.75        98            331
2KB               gateway/plain                       0.93         1.12    1.10-1.13     1.05      1.50
stream            plain                       900       60          n/a                 12.00       n/a            n/a
stream            gateway                     800       57          n/a                 13.00       n/a            n/a
stream            gateway/plain                       0.95          n/a                  1.08       n/a

memory after 2m0s without requests: plain 60 MiB, gateway 80 MiB
`
	if got := report.table(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
