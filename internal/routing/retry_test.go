package routing

import (
	"net/http"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// constant is a Rand that always says the same.
type constant float64

func (c constant) Float64() float64 { return float64(c) }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		header map[string]string
		want   time.Duration
		ok     bool
	}{
		{nil, 0, false},
		{map[string]string{"Retry-After": "2"}, 2 * time.Second, true},
		{map[string]string{"Retry-After": " 0.5 "}, 500 * time.Millisecond, true},
		{map[string]string{"Retry-After": "0"}, 0, true},
		{map[string]string{"Retry-After": "-1"}, 0, false},
		{map[string]string{"Retry-After": "soon"}, 0, false},
		{map[string]string{"Retry-After": "Inf"}, 0, false},
		{map[string]string{"Retry-After": "0x10"}, 0, false},
		{map[string]string{"Retry-After": "99999999999999999999"}, 1e9 * time.Second, true},
		{map[string]string{"Retry-After": "Sun, 01 Mar 2026 12:00:30 GMT"}, 30 * time.Second, true},
		{map[string]string{"Retry-After": "Sun, 01 Mar 2026 11:00:00 GMT"}, 0, true},
		{map[string]string{"Retry-After-Ms": "1500", "Retry-After": "9"}, 1500 * time.Millisecond, true},
		{map[string]string{"X-Ms-Retry-After-Ms": "250", "Retry-After": "9"}, 250 * time.Millisecond, true},
		{map[string]string{"Retry-After-Ms": "1", "X-Ms-Retry-After-Ms": "2"}, time.Millisecond, true},
		{map[string]string{"Retry-After-Ms": "x", "Retry-After": "9"}, 9 * time.Second, true},
		{map[string]string{"Retry-After-Ms": "Sun, 01 Mar 2026 12:00:30 GMT"}, 0, false},
	} {
		h := make(http.Header)
		for name, value := range c.header {
			h.Set(name, value)
		}
		if got, ok := RetryAfter(h, noon); got != c.want || ok != c.ok {
			t.Errorf("%v: %v %v, want %v %v", c.header, got, ok, c.want, c.ok)
		}
	}
}

func TestWait(t *testing.T) {
	asks := http.Header{"Retry-After": {"20"}}
	obeys := &Retry{Attempts: 5, On: retryable, UseRetryAfter: true}
	ignores := &Retry{Attempts: 5, On: retryable}
	const half = constant(0.5)
	for _, c := range []struct {
		name   string
		retry  *Retry
		n      int
		status int
		header http.Header
		waited time.Duration
		want   time.Duration
		ok     bool
	}{
		{"the first", ignores, 0, 500, nil, 0, 500 * time.Millisecond, true},
		{"the second", ignores, 1, 500, nil, 0, time.Second, true},
		{"the fifth", ignores, 4, 500, nil, 0, 8 * time.Second, true},
		{"no more than 16 s", ignores, 60, 500, nil, 0, 8 * time.Second, true},
		{"what the provider asks for", obeys, 0, 429, asks, 0, 20 * time.Second, true},
		{"unless the config does not say so", ignores, 0, 429, asks, 0, 500 * time.Millisecond, true},
		{"or it is no 429", obeys, 0, 503, asks, 0, 500 * time.Millisecond, true},
		{"or there is nothing to read", obeys, 0, 429, nil, 0, 500 * time.Millisecond, true},
		{"exactly what is left", obeys, 0, 429, asks, 40 * time.Second, 20 * time.Second, true},
		{"more than what is left", obeys, 0, 429, asks, 40*time.Second + 1, 0, false},
		{"more than a minute", obeys, 0, 429, http.Header{"Retry-After": {"61"}}, 0, 0, false},
		{"a backoff that exceeds what is left", ignores, 4, 500, nil, 55 * time.Second, 0, false},
	} {
		if got, ok := c.retry.Wait(c.n, c.status, c.header, c.waited, noon, half); got != c.want || ok != c.ok {
			t.Errorf("%s: %v %v, want %v %v", c.name, got, ok, c.want, c.ok)
		}
	}
}

func TestAgain(t *testing.T) {
	var none *Retry
	r := parse(t, `{"retry":{"attempts":2}}`).Root.Retry
	for status, want := range map[int]bool{429: true, 500: true, 502: true, 503: true, 504: true, 501: false, 408: false, 400: false, 200: false, 0: false, -1: false, 9999: false} {
		if r.Again(status, 1) != want || r.Again(status, 2) || none.Again(status, 0) {
			t.Errorf("status %d", status)
		}
	}
	if !parse(t, `{"retry":{"attempts":1,"on_status_codes":[408]}}`).Root.Retry.Again(408, 0) {
		t.Error("a listed status is not tried again")
	}
}

func TestWaitsStayWithinAMinute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &Retry{Attempts: MaxRetries, On: retryable, UseRetryAfter: rapid.Bool().Draw(t, "use")}
		var waited time.Duration
		for n := 0; r.Again(429, n); n++ {
			h := http.Header{"Retry-After": {rapid.SampledFrom([]string{"1", "30", "59", "61", "x"}).Draw(t, "header")}}
			wait, ok := r.Wait(n, 429, h, waited, noon, constant(rapid.Float64Range(0, 1).Draw(t, "random")))
			if !ok {
				break
			}
			if waited += wait; wait < 0 || waited > MaxWait {
				t.Fatalf("waits %v, %v in all", wait, waited)
			}
		}
	})
}
