package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A load is the result of one proxy in a round.
type load struct {
	took      time.Duration
	latencies []time.Duration
}

// answerTimeout limits the time for a single answer.
const answerTimeout = 30 * time.Second

// load keeps all connections busy with requests of case c for the duration of a round.
// The client shares the machine with the processes that it measures, so it does as
// little as possible: it always writes the same bytes, and parses only the answers.
func (p *process) load(ctx context.Context, o Options, c benchCase) (load, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	request := p.request(&c)
	var left atomic.Int64
	left.Store(o.Requests)
	latencies := make([][]time.Duration, o.Connections)
	var clients sync.WaitGroup
	start := time.Now()
	for i := range o.Connections {
		clients.Go(func() {
			var err error
			if latencies[i], err = p.client(ctx, request, &c, start.Add(o.Duration), &left); err != nil {
				cancel(err)
			}
		})
	}
	clients.Wait()
	done := load{time.Since(start), slices.Concat(latencies...)}
	err := context.Cause(ctx)
	if err == nil && len(done.latencies) == 0 {
		err = errors.New("no request was made")
	}
	if err != nil {
		return load{}, fmt.Errorf("%s: %w%s", p.name, err, p.output())
	}
	return done, nil
}

// client sends one request after the other on its own connection, and one in any case: on a busy
// machine, connecting alone may take longer than a short round.
func (p *process) client(ctx context.Context, request []byte, c *benchCase, until time.Time, left *atomic.Int64) ([]time.Duration, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", p.addresses[c.upstream])
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer func() { _ = conn.Close() }()
	answers := bufio.NewReaderSize(conn, 16<<10)
	var latencies []time.Duration
	for now := time.Now(); (len(latencies) == 0 || now.Before(until)) && left.Add(-1) >= 0; {
		if err := conn.SetDeadline(now.Add(answerTimeout)); err != nil {
			return nil, err
		}
		if err := exchange(conn, answers, request, c); err != nil {
			return nil, err
		}
		end := time.Now()
		latencies = append(latencies, end.Sub(now))
		now = end
	}
	return latencies, nil
}

// exchange sends a request and checks its answer.
func exchange(conn net.Conn, answers *bufio.Reader, request []byte, c *benchCase) error {
	if _, err := conn.Write(request); err != nil {
		return fmt.Errorf("sending a request: %w", err)
	}
	res, err := http.ReadResponse(answers, nil)
	if err != nil {
		return fmt.Errorf("reading an answer: %w", err)
	}
	if err := c.check(res); err != nil {
		return err
	}
	if res.Close {
		return errors.New("the answer closes the connection")
	}
	return res.Body.Close()
}

// request returns the bytes of an HTTP/1.1 request as an API client would send it.
func (p *process) request(c *benchCase) []byte {
	body := c.body()
	head := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: application/json\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n%s\r\n", p.addresses[c.upstream], len(body), p.headers(c))
	return append([]byte(head), body...)
}

// sample turns a load into figures. A negative CPU time means that it is unknown.
func (l load) sample(used spent) Sample {
	n := float64(len(l.latencies))
	slices.Sort(l.latencies)
	return Sample{
		Requests:  len(l.latencies),
		PerSecond: n / l.took.Seconds(),
		CPUMicros: max(float64(used.cpu.Nanoseconds())/1e3/n, 0),
		P50Millis: float64(l.latencies[len(l.latencies)/2].Microseconds()) / 1e3,
		Written:   float64(used.written) / n,
	}
}
