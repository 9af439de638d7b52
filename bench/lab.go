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
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A lab holds the processes of a run.
type lab struct {
	dir       string
	upstreams map[string]string // addresses of the model servers, and of one that does not listen
	echo      *process
	proxies   []*process // in the order of their turns
	stop      context.CancelFunc
}

// dead is the provider that does not listen.
const dead = "dead"

// proxy returns the proxy of a setup, or nil.
func (l *lab) proxy(name string) *process {
	i := slices.IndexFunc(l.proxies, func(p *process) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return l.proxies[i]
}

func (l *lab) close() {
	l.stop()
	for _, p := range append(l.proxies, l.echo) {
		if p != nil && p.exited != nil {
			<-p.exited
		}
	}
}

// openLab starts the processes and checks that each of them answers. Those of Caddy run
// the same binary, but for the other build.
func openLab(ctx context.Context, o Options, chosen []setup, dir string) (*lab, error) {
	ctx, cancel := context.WithCancel(ctx)
	l := &lab{dir: dir, upstreams: make(map[string]string), stop: cancel}
	err := l.start(ctx, o, chosen)
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *lab) start(ctx context.Context, o Options, chosen []setup) error {
	addresses, err := freeAddresses(len(upstreams) + 1)
	if err != nil {
		return err
	}
	for i, upstream := range append([]string{dead}, upstreams...) {
		l.upstreams[upstream] = addresses[i]
	}
	if err := serveMessages(ctx, l.upstreams[messages]); err != nil {
		return err
	}
	if l.echo, err = l.newProcess("echo"); err != nil {
		return err
	}
	sites := make(map[string]string)
	for upstream, delay := range echoDelays {
		l.echo.addresses[upstream] = l.upstreams[upstream]
		sites[l.upstreams[upstream]] = fmt.Sprintf("gw_echo {\n\tchunk_delay %s\n}\n", delay)
	}
	if err := l.echo.runCaddy(ctx, o.binary, caddyfile(l.echo, setup{}, "", sites)); err != nil {
		return err
	}
	for _, s := range chosen {
		if err := l.startProxy(ctx, o, s); err != nil {
			return err
		}
	}
	return nil
}

// newProcess makes a process with a folder of its own.
func (l *lab) newProcess(name string) (*process, error) {
	p := &process{name: name, addresses: make(map[string]string), home: filepath.Join(l.dir, name)}
	return p, os.Mkdir(p.home, 0o700)
}

// startProxy starts a proxy, and makes requests of each upstream to see that it answers.
func (l *lab) startProxy(ctx context.Context, o Options, s setup) error {
	p, err := l.newProcess(s.name)
	if err != nil {
		return err
	}
	l.proxies = append(l.proxies, p)
	addresses, err := freeAddresses(len(upstreams) + 1)
	if err != nil {
		return err
	}
	for i, upstream := range upstreams {
		p.addresses[upstream] = addresses[i]
		if s.gateway {
			p.addresses[upstream] = addresses[0]
		}
	}
	if o.profile != "" {
		p.admin = addresses[len(upstreams)]
	}
	p.headers = func(*benchCase) string { return "Authorization: Bearer bench-provider-key\r\n" }
	switch {
	case s.name == nginxName:
		binary, err := nginxBinary()
		if err != nil {
			return err
		}
		return p.run(ctx, "nginx.conf", l.nginx(p), binary, "-p", p.home, "-e", "stderr", "-c")
	case s.limiter:
		return p.runCaddy(ctx, o.limiter, caddyfile(p, s, "", l.plainSites(p, s)))
	case !s.gateway:
		return p.runCaddy(ctx, o.binary, caddyfile(p, s, "", l.plainSites(p, s)))
	}
	binary := o.binary
	if s.name == otherName {
		binary = o.other
	}
	adminKey := rand.Text() + rand.Text()
	if err := p.runCaddy(ctx, binary, caddyfile(p, s, l.gatewayOptions(adminKey), map[string]string{addresses[0]: gatewaySite(s)})); err != nil {
		return err
	}
	return p.setUp(ctx, s, adminKey)
}

// setUp prepares a gateway so that it does all of its work on each call: it creates
// an API key, rate limits of which one matches every call and refuses none, and the config of
// the case with a fallback.
func (p *process) setUp(ctx context.Context, s setup, adminKey string) error {
	var key struct{ Key string }
	err := p.control(ctx, adminKey, "/v1/api-keys/workspace/service", `{"name":"bench","scopes":["completions.write"]}`, &key)
	if err != nil {
		return err
	}
	matching, err := json.Marshal(upstreams)
	if err != nil {
		return err
	}
	for i := range s.policies {
		of := string(matching)
		if i > 0 {
			of = `"` + dead + `"`
		}
		err = p.control(ctx, adminKey, "/v1/policies/rate-limits",
			`{"type":"requests","unit":"rpd","value":1e15,"conditions":[{"key":"provider","value":`+of+`}],"group_by":[{"key":"api_key"}]}`, nil)
		if err != nil {
			return err
		}
	}
	var config struct{ Slug string }
	err = p.control(ctx, adminKey, "/v1/configs",
		`{"name":"fallback","config":{"strategy":{"mode":"fallback"},"targets":[{"provider":"@`+dead+`"},{"provider":"@`+echo+`"}]}}`, &config)
	if err != nil {
		return err
	}
	p.headers = func(c *benchCase) string {
		headers := "X-Gw-Api-Key: " + key.Key + "\r\n" + c.header
		if c.fallback {
			return headers + "X-Gw-Config: " + config.Slug + "\r\n"
		}
		return headers + "X-Gw-Provider: " + c.upstream + "\r\n"
	}
	return p.verify(ctx, s)
}

// control makes a call to the gateway's control plane.
func (p *process) control(ctx context.Context, adminKey, path, body string, to any) error {
	res, err := p.post(ctx, path, http.Header{"X-Gw-Api-Key": {adminKey}}, []byte(body))
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
		return fmt.Errorf("POST %s: %w%s", path, err, p.output())
	}
	return nil
}

// verify checks that the gateway answers and applies the rate limit.
func (p *process) verify(ctx context.Context, s setup) error {
	c := &cases[0]
	res, err := p.post(ctx, "/v1/chat/completions", p.header(c), c.body())
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if err := c.check(res); err != nil {
		return fmt.Errorf("%s: %w%s", p.name, err, p.output())
	}
	if limited := res.Header.Get("X-Ratelimit-Limit-Requests") != ""; limited != (s.policies > 0) {
		return errors.New(p.name + ": the rate-limit policy does not match, or should not be there")
	}
	return nil
}

// header returns what clients of the proxy send, as a map.
func (p *process) header(c *benchCase) http.Header {
	header := make(http.Header)
	for line := range strings.SplitSeq(strings.TrimSpace(p.headers(c)), "\r\n") {
		name, value, _ := strings.Cut(line, ": ")
		header.Set(name, value)
	}
	return header
}

func (p *process) post(ctx context.Context, path string, header http.Header, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.addresses[echo]+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = header
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, strings.TrimRight(p.output(), "\n"))
	}
	return res, nil
}
