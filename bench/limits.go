package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// What limits are compared with.
const (
	eventsPerKey = 10               // that a limit of the many keys allows for a day
	allowed      = 100              // that the limit of the one key allows in a window
	offered      = 3 * time.Second  // of calls above the limit of the one key, each time
	shortWindow  = time.Second      // of the limit that is offered more all the time
	longWindow   = time.Minute      // of the one whose process is killed
	killedUntil  = 30 * time.Second // within which both turns of calls are
)

// A limitResult says how a limiter kept its limits.
type limitResult struct {
	Name        string  `json:"name"`
	Keys        int     `json:"keys"`          // of which each made a call
	PeakBytes   int64   `json:"peak_bytes"`    // more than before these calls
	PerKey      float64 `json:"bytes_per_key"` // of these
	Over        int     `json:"over"`          // calls beyond the limit in the window with most of them
	OverRestart int     `json:"over_restart"`  // the same, if the process is killed and started again in the window
}

// A limiterSite is a limiter under test: a process with one site for calls of one of many keys, and others for calls of one key.
type limiterSite struct {
	name, binary string
	config       func(p *process, window time.Duration, events int) string
	prepare      func(ctx context.Context, p *process, window time.Duration, events, keys int) (of func(i int) http.Header, err error)
}

// compareLimits measures the limiters one after the other.
func compareLimits(ctx context.Context, o Options, keys int, progress io.Writer) ([]limitResult, error) {
	dir, err := os.MkdirTemp("", "gw-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if o.binary == "" {
		fmt.Fprintln(progress, "building ./cmd/caddy")
		if o.binary, err = build(ctx, dir); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	up, err := newCountingUpstream(ctx)
	if err != nil {
		return nil, err
	}
	sites := []limiterSite{up.gatewaySite(o.binary, true), up.gatewaySite(o.binary, false)}
	if o.limiter != "" {
		sites = append([]limiterSite{up.pluginSite(o.limiter)}, sites...)
	}
	var results []limitResult
	for _, s := range sites {
		fmt.Fprintf(progress, "%s: a call of each of %d keys, and calls above a limit\n", s.name, keys)
		r, err := up.measureLimits(ctx, filepath.Join(dir, strconv.Itoa(len(results))), s, keys)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		results = append(results, r)
	}
	return results, nil
}

func (u *countingUpstream) measureLimits(ctx context.Context, dir string, s limiterSite, keys int) (r limitResult, err error) {
	r = limitResult{Name: s.name, Keys: keys}
	err = u.with(ctx, filepath.Join(dir, "memory"), s, 24*time.Hour, eventsPerKey, keys, func(p *process, _ func() error, of func(int) http.Header) error {
		before, err := p.memory()
		if err == nil {
			err = p.forgetPeak()
		}
		if err == nil {
			err = p.callOnce(ctx, keys, of)
		}
		after, unread := p.memory()
		if err == nil {
			err = unread
		}
		r.PeakBytes = after.Peak - before.Resident
		r.PerKey = float64(r.PeakBytes) / float64(keys)
		return err
	})
	if err != nil {
		return r, err
	}
	err = u.with(ctx, filepath.Join(dir, "short"), s, shortWindow, allowed, 1, func(p *process, _ func() error, of func(int) http.Header) error {
		if err := p.offer(ctx, 2*offered, of(0)); err != nil {
			return err
		}
		r.Over = worstWindow(u.taken(), shortWindow) - allowed
		return nil
	})
	if err != nil {
		return r, err
	}
	err = u.with(ctx, filepath.Join(dir, "killed"), s, longWindow, allowed, 1, func(p *process, again func() error, of func(int) http.Header) error {
		begun := time.Now()
		if err := p.offer(ctx, offered, of(0)); err != nil {
			return err
		}
		if err := again(); err != nil {
			return err
		}
		if err := p.offer(ctx, offered, of(0)); err != nil {
			return err
		}
		if took := time.Since(begun); took > killedUntil {
			return fmt.Errorf("both turns took %v, more than %v", took, killedUntil)
		}
		r.OverRestart = worstWindow(u.taken(), longWindow) - allowed
		return nil
	})
	return r, err
}

// with runs a limiter's process; again kills it and starts it anew.
func (u *countingUpstream) with(ctx context.Context, dir string, s limiterSite, window time.Duration, events, keys int,
	do func(p *process, again func() error, of func(int) http.Header) error,
) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	addresses, err := freeAddresses(1)
	if err != nil {
		return err
	}
	p := &process{name: s.name, home: dir, addresses: map[string]string{echo: addresses[0]}}
	config := s.config(p, window, events)
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		if p.exited != nil {
			<-p.exited
		}
	}()
	if err := p.runCaddy(ctx, s.binary, config); err != nil {
		return err
	}
	of, err := s.prepare(ctx, p, window, events, keys)
	if err != nil {
		return err
	}
	u.taken() // what preparing took
	return do(p, func() error {
		if err := p.cmd.Process.Kill(); err != nil {
			return err
		}
		<-p.exited
		return p.runCaddy(ctx, s.binary, config)
	}, of)
}

// pluginSite is plain Caddy with the plugin caddy-ratelimit.
func (u *countingUpstream) pluginSite(binary string) limiterSite {
	return limiterSite{
		name: limiterName, binary: binary,
		config: func(p *process, window time.Duration, events int) string {
			limit := fmt.Sprintf("rate_limit {\n\tzone bench {\n\t\tkey {http.request.header.X-Bench-Key}\n\t\twindow %s\n\t\tevents %d\n\t}\n}\n", window, events)
			return caddyfile(p, setup{}, "", map[string]string{p.addresses[echo]: "route {\n" + indent(limit+fmt.Sprintf(reverseProxy, u.address)) + "}\n"})
		},
		prepare: func(context.Context, *process, time.Duration, int, int) (func(int) http.Header, error) {
			return func(i int) http.Header { return http.Header{"X-Bench-Key": {"key-" + strconv.Itoa(i)}} }, nil
		},
	}
}

// units are the units of rate limits by their windows.
var units = map[time.Duration]string{time.Second: "rps", time.Minute: "rpm", 24 * time.Hour: "rpd"}

// gatewaySite is the gateway with a policy that groups by API keys, or by values that callers make up.
func (u *countingUpstream) gatewaySite(binary string, byKey bool) limiterSite {
	adminKey := rand.Text() + rand.Text()
	name, group := "gateway, by metadata", "metadata.user"
	if byKey {
		name, group = "gateway, by API key", "api_key"
	}
	return limiterSite{
		name: name, binary: binary,
		config: func(p *process, _ time.Duration, _ int) string {
			options := fmt.Sprintf("gw {\n\tadmin_key %s\n\tprovider echo {\n\t\ttype openai\n\t\tbase_url http://%s/v1\n\t\tapi_key bench\n\t}\n}\n", adminKey, u.address)
			return caddyfile(p, setup{}, options, map[string]string{p.addresses[echo]: gatewaySite(setup{limits: true})})
		},
		prepare: func(ctx context.Context, p *process, window time.Duration, events, keys int) (func(int) http.Header, error) {
			policy := fmt.Sprintf(`{"type":"requests","unit":%q,"value":%d,"conditions":[{"key":"provider","value":"echo"}],"group_by":[{"key":%q}]}`, units[window], events, group)
			if err := p.control(ctx, adminKey, "/v1/policies/rate-limits", policy, nil); err != nil {
				return nil, err
			}
			if !byKey {
				keys = 1
			}
			workspaces := make([]string, 1+(keys-1)/keysPerWorkspace)
			for i := range workspaces {
				var made struct{ ID string }
				if err := p.control(ctx, adminKey, "/v1/admin/workspaces", fmt.Sprintf(`{"name":"bench %d"}`, i), &made); err != nil {
					return nil, err
				}
				workspaces[i] = made.ID
			}
			all := make([]string, keys)
			err := inParallel(ctx, keys, func(i int) error {
				var key struct{ Key string }
				err := p.control(ctx, adminKey, "/v1/api-keys/workspace/service", fmt.Sprintf(`{"name":"bench %d","workspace_id":%q,"scopes":["completions.write"]}`, i, workspaces[i/keysPerWorkspace]), &key)
				all[i] = key.Key
				return err
			})
			return func(i int) http.Header {
				if byKey {
					return http.Header{"X-Gw-Api-Key": {all[i]}, "X-Gw-Provider": {echo}}
				}
				return http.Header{"X-Gw-Api-Key": {all[0]}, "X-Gw-Provider": {echo}, "X-Gw-Metadata": {`{"user":"key-` + strconv.Itoa(i) + `"}`}}
			}, err
		},
	}
}

// keysPerWorkspace is how many API keys a workspace may have.
const keysPerWorkspace = 100_000

// parallel is how many calls are made at once.
const parallel = 16

// inParallel calls do for each of n numbers.
func inParallel(ctx context.Context, n int, do func(i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range parallel {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// callOnce makes a call of each of the keys.
func (p *process) callOnce(ctx context.Context, keys int, of func(int) http.Header) error {
	return inParallel(ctx, keys, func(i int) error {
		status, err := p.call(ctx, of(i))
		if err == nil && status != http.StatusOK && status != http.StatusTooManyRequests { // values that share a counter
			err = fmt.Errorf("key %d: answered with status %d%s", i, status, p.output())
		}
		return err
	})
}

// offer makes calls of a key for a time, as many as it can.
func (p *process) offer(ctx context.Context, while time.Duration, header http.Header) error {
	until := time.Now().Add(while)
	var refused atomic.Bool
	err := inParallel(ctx, parallel, func(int) error {
		for time.Now().Before(until) {
			status, err := p.call(ctx, header.Clone())
			if err != nil {
				return err
			}
			if status == http.StatusTooManyRequests {
				refused.Store(true)
			}
		}
		return nil
	})
	if err == nil && !refused.Load() {
		err = fmt.Errorf("no call was refused: the limit was not reached")
	}
	return err
}

var limitClient = &http.Client{Timeout: answerTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: parallel}}

// call makes a call, and returns the status of its answer.
func (p *process) call(ctx context.Context, header http.Header) (int, error) {
	const body = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.addresses[echo]+"/v1/chat/completions", bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, err
	}
	r.Header = header
	r.Header.Set("Content-Type", "application/json")
	res, err := limitClient.Do(r)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode, err
}

// A countingUpstream is a model server that notes when calls come.
type countingUpstream struct {
	address string

	mu    sync.Mutex
	calls []time.Time
}

func newCountingUpstream(ctx context.Context) (*countingUpstream, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	u := &countingUpstream{address: l.Addr().String()}
	answer, err := json.Marshal(map[string]any{
		"id": "c", "object": "chat.completion", "model": "m",
		"choices": []any{map[string]any{"index": 0, "message": map[string]any{"role": "assistant", "content": "hi"}, "finish_reason": "stop"}},
		"usage":   map[string]any{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
	})
	if err != nil {
		return nil, err
	}
	server := &http.Server{ReadHeaderTimeout: answerTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := time.Now()
		u.mu.Lock()
		u.calls = append(u.calls, now)
		u.mu.Unlock()
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	})}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(l) }() // ends when the server is closed
	return u, nil
}

// taken returns when calls came since it was last called.
func (u *countingUpstream) taken() []time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	calls := u.calls
	u.calls = nil
	return calls
}

// worstWindow is how many calls came in the window with most of them.
func worstWindow(calls []time.Time, window time.Duration) (most int) {
	calls = slices.SortedFunc(slices.Values(calls), time.Time.Compare)
	first := 0
	for i, at := range calls {
		for at.Sub(calls[first]) >= window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// limitTable shows the results for people.
func limitTable(results []limitResult) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| limiter | keys | peak memory for them | bytes a key | over %d in the worst %v | over %d in the worst %v, killed in it |\n|---|---|---|---|---|---|\n", allowed, shortWindow, allowed, longWindow)
	for _, r := range results {
		fmt.Fprintf(&b, "| %s | %d | %.1f MiB | %.0f | %d | %d |\n", r.Name, r.Keys, float64(r.PeakBytes)/(1<<20), r.PerKey, r.Over, r.OverRestart)
	}
	return b.String()
}
