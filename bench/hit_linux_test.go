package main

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// Cache hits cost the gateway less CPU time than forwarded requests.
func TestAHitCostsLessThanAForwardedCall(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	o := Options{Duration: time.Minute, Connections: 4, Requests: 3000}
	var err error
	if o.binary, err = build(ctx, dir); err != nil {
		t.Fatal(err)
	}
	lab, err := openLab(ctx, o, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lab.close()
	cost := func() time.Duration {
		t.Helper()
		warm := o
		warm.Requests = 200
		if _, err := lab.gateway.load(ctx, warm, cases[0]); err != nil {
			t.Fatal(err)
		}
		before, err := lab.gateway.cpu()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lab.gateway.load(ctx, o, cases[0]); err != nil {
			t.Fatal(err)
		}
		after, err := lab.gateway.cpu()
		if err != nil {
			t.Fatal(err)
		}
		return (after - before) / time.Duration(o.Requests)
	}
	forwarded := cost()
	lab.gateway.headers += "X-Gw-Cache: simple\r\n"
	hit := cost()
	t.Logf("a hit costs %v, a forwarded call %v", hit, forwarded)
	if hit >= forwarded {
		t.Errorf("a hit costs %v, a forwarded call %v", hit, forwarded)
	}
	header := make(http.Header)
	for line := range strings.SplitSeq(strings.TrimSpace(lab.gateway.headers), "\r\n") {
		name, value, _ := strings.Cut(line, ": ")
		header.Set(name, value)
	}
	res, err := lab.post(ctx, "/v1/chat/completions", header, cases[0].body())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if status := res.Header.Get("X-Gw-Cache-Status"); status != "HIT" {
		t.Errorf("the calls were not hits: %s", status)
	}
}
