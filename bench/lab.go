package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// A lab holds the processes of a run.
type lab struct {
	echo, plain, gateway *process
	stop                 context.CancelFunc
}

// proxies are the compared processes, in the order of their turns.
func (l *lab) proxies() [2]*process { return [2]*process{l.plain, l.gateway} }

func (l *lab) close() {
	l.stop()
	for _, p := range []*process{l.echo, l.plain, l.gateway} {
		if p != nil && p.exited != nil {
			<-p.exited
		}
	}
}

const reverseProxy = `reverse_proxy %s {
	transport http {
		keepalive_idle_conns_per_host 256
		compression off
	}
}
`

const gatewayOptions = `gw {
	admin_key %s
	provider echo {
		type openai
		base_url http://%s/v1
		api_key bench-provider-key
	}
}
`

const gatewaySite = `gw_admin
gw_ratelimit
gw_inference
`

const gatewayName = "gateway"

// openLab starts the processes and checks that each of them answers. All of them run
// the same binary, so that differences between builds do not affect the comparison.
func openLab(ctx context.Context, o Options, dir string) (*lab, error) {
	addresses, err := freeAddresses(5)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &lab{
		echo:    &process{name: "echo", address: addresses[0]},
		plain:   &process{name: "plain", address: addresses[1], headers: "Authorization: Bearer bench-provider-key\r\n"},
		gateway: &process{name: gatewayName, address: addresses[2]},
		stop:    cancel,
	}
	if o.profile != "" {
		l.plain.admin, l.gateway.admin = addresses[3], addresses[4]
	}
	adminKey := rand.Text() + rand.Text()
	for _, s := range []struct {
		p             *process
		options, site string
	}{
		{l.echo, "", "gw_echo\n"},
		{l.plain, "", fmt.Sprintf(reverseProxy, l.echo.address)},
		{l.gateway, fmt.Sprintf(gatewayOptions, adminKey, l.echo.address), gatewaySite},
	} {
		if err = start(ctx, o.binary, dir, s.p, caddyfile(s.p, s.options, s.site)); err != nil {
			break
		}
	}
	if err == nil {
		err = l.setUp(ctx, adminKey)
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// setUp prepares the gateway so that it does all of its work on each call: it creates
// an API key, and a rate limit that matches every call and refuses none.
func (l *lab) setUp(ctx context.Context, adminKey string) error {
	var key struct{ Key string }
	err := l.control(ctx, adminKey, "/v1/api-keys/workspace/service", `{"name":"bench","scopes":["completions.write"]}`, &key)
	if err != nil {
		return err
	}
	err = l.control(ctx, adminKey, "/v1/policies/rate-limits",
		`{"type":"requests","unit":"rpd","value":1e15,"conditions":[{"key":"provider","value":"echo"}],"group_by":[{"key":"api_key"}]}`, nil)
	if err != nil {
		return err
	}
	l.gateway.headers = fmt.Sprintf("X-Gw-Api-Key: %s\r\nX-Gw-Provider: echo\r\n", key.Key)
	return l.verify(ctx, key.Key)
}

// control makes a call to the gateway's control plane.
func (l *lab) control(ctx context.Context, adminKey, path, body string, to any) error {
	res, err := l.post(ctx, path, http.Header{"X-Gw-Api-Key": {adminKey}}, []byte(body))
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
	case res.StatusCode/100 != 2:
		err = fmt.Errorf("answered %s: %s", res.Status, answer)
	case to != nil:
		err = json.Unmarshal(answer, to)
	}
	if err != nil {
		return fmt.Errorf("POST %s: %w%s", path, err, l.gateway.output())
	}
	return nil
}

// verify checks that the gateway answers and applies the rate limit.
func (l *lab) verify(ctx context.Context, key string) error {
	c := cases[0]
	res, err := l.post(ctx, "/v1/chat/completions", http.Header{"X-Gw-Api-Key": {key}, "X-Gw-Provider": {"echo"}}, c.body())
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if err := c.check(res); err != nil {
		return fmt.Errorf("gateway: %w%s", err, l.gateway.output())
	}
	if res.Header.Get("X-Ratelimit-Limit-Requests") == "" {
		return errors.New("gateway: the rate-limit policy does not match")
	}
	return nil
}

func (l *lab) post(ctx context.Context, path string, header http.Header, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+l.gateway.address+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = header
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, strings.TrimRight(l.gateway.output(), "\n"))
	}
	return res, nil
}
