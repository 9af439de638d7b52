package main

import (
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
	lab, err := openLab(ctx, o, []setup{setups[1]}, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lab.close()
	gateway, forwarding := lab.proxy(gatewayName), cases[0]
	answered := forwarding
	answered.header = "X-Gw-Cache: simple\r\n"
	cost := func(c benchCase) time.Duration {
		t.Helper()
		warm := o
		warm.Requests = 200
		if _, err := gateway.load(ctx, warm, c); err != nil {
			t.Fatal(err)
		}
		before, err := gateway.cpu()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := gateway.load(ctx, o, c); err != nil {
			t.Fatal(err)
		}
		after, err := gateway.cpu()
		if err != nil {
			t.Fatal(err)
		}
		return (after - before) / time.Duration(o.Requests)
	}
	forwarded, hit := cost(forwarding), cost(answered)
	t.Logf("a hit costs %v, a forwarded call %v", hit, forwarded)
	if hit >= forwarded {
		t.Errorf("a hit costs %v, a forwarded call %v", hit, forwarded)
	}
	res, err := gateway.post(ctx, "/v1/chat/completions", gateway.header(&answered), answered.body())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if status := res.Header.Get("X-Gw-Cache-Status"); status != "HIT" {
		t.Errorf("the calls were not hits: %s", status)
	}
}
