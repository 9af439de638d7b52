// Command bench measures the overhead of the gateway over a plain reverse_proxy of the
// same Caddy. It starts processes on loopback: gw_echo as the upstream, and plain Caddy
// and the gateway in front of it, each with metrics and an access log. It loads the
// proxies in turns, and prints requests per second, CPU time, latency and bytes written
// per request, and peak memory of each, with their ratios to the first. At the end it
// prints the memory of each when idle.
//
// With -limits, it compares the memory of limits, and how many calls they let pass in the worst window, instead.
//
//	go run ./bench [-quick] [-rest 2m] [-json] [-chart FILE] [-cases 2KB,stream] [-proxies plain,gateway,nginx] [-profile DIR]
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Options are the settings of a run.
type Options struct {
	Rounds      int           `json:"rounds"`      // per case
	Duration    time.Duration `json:"duration_ns"` // of each proxy's turn in a round
	Connections int           `json:"connections"` // kept alive; each has one request at a time
	Requests    int64         `json:"requests"`    // maximum per turn
	Cases       []string      `json:"cases"`
	Proxies     []string      `json:"proxies"`
	Rest        time.Duration `json:"rest_ns"` // time without requests before idle memory is read

	warm    time.Duration // of each proxy, before the rounds of a case
	binary  string        // a Caddy binary with the gateway; empty: build one
	other   string        // a binary of another build, for the proxy of that name
	limiter string        // a binary with the plugin rate_limit, for the proxy of that name
	profile string        // the folder for profiles; empty: no profiles
	chart   string        // the file for a chart; empty: none
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	o := Options{warm: time.Second}
	flags.IntVar(&o.Rounds, "rounds", 40, "`rounds` of each case; the figures are their medians")
	flags.DurationVar(&o.Duration, "duration", time.Second/4, "`time` of a round of one proxy")
	flags.IntVar(&o.Connections, "connections", 16, "`connections` that are kept alive")
	flags.Int64Var(&o.Requests, "requests", 1_000_000, "most `requests` in a round of one proxy")
	flags.DurationVar(&o.Rest, "rest", 2*time.Minute, "`time` without requests, after which resting memory is read")
	flags.StringVar(&o.binary, "caddy", "", "Caddy `binary` to measure (default: build ./cmd/caddy)")
	flags.StringVar(&o.other, "other", "", "Caddy `binary` of the proxy \"other\", such as one from before a change")
	flags.StringVar(&o.limiter, "limiter", "", "Caddy `binary` of the proxy \"rate_limit\", with github.com/mholt/caddy-ratelimit")
	flags.StringVar(&o.profile, "profile", "", "write CPU and allocation profiles of both proxies into `folder`, after the rounds of each case")
	flags.StringVar(&o.chart, "chart", "", "write an SVG chart of the ratios of CPU time to `file`")
	quick := flags.Bool("quick", false, "one round of 0.1 s and no rest, to see that it works")
	asJSON := flags.Bool("json", false, "print JSON")
	limits := flags.Bool("limits", false, "compare only how limits are kept, and their memory: of gw_ratelimit, and of the plugin of -limiter")
	keys := flags.Int("keys", 1_000_000, "`keys` of which each makes a call, with -limits")
	only := flags.String("cases", strings.Join(caseNames(), ","), "`names` of the cases, comma-separated")
	proxies := flags.String("proxies", plainName+","+gatewayName, "`names` of the proxies, comma-separated; the first is what the others are compared with: "+strings.Join(setupNames(), ", "))
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *quick {
		o.Rounds, o.Duration, o.warm, o.Rest = 1, time.Second/10, time.Second/10, 0
	}
	o.Cases = strings.Split(*only, ",")
	o.Proxies = strings.Split(*proxies, ",")
	chosen, err := casesOf(o.Cases)
	compared, wrong := setupsOf(o.Proxies)
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case err != nil:
		return err
	case wrong != nil:
		return wrong
	case slices.Contains(o.Proxies, otherName) != (o.other != ""):
		return fmt.Errorf("-other and the proxy %q need each other", otherName)
	case *limits && *keys < 1:
		return fmt.Errorf("keys must be positive")
	case !*limits && slices.Contains(o.Proxies, limiterName) != (o.limiter != ""):
		return fmt.Errorf("-limiter and the proxy %q need each other", limiterName)
	case o.Rest < 0:
		return fmt.Errorf("rest must not be negative")
	case o.Rounds < 1 || o.Duration <= 0 || o.Connections < 1 || o.Requests < 1:
		return fmt.Errorf("rounds, duration, connections and requests must be positive")
	}

	if *limits {
		results, err := compareLimits(ctx, o, *keys, stderr)
		switch {
		case err != nil:
			return err
		case *asJSON:
			return printJSON(stdout, results)
		}
		_, err = io.WriteString(stdout, limitTable(results))
		return err
	}
	report, err := run(ctx, o, chosen, compared, stderr)
	if err != nil {
		return err
	}
	if o.chart != "" {
		if err := os.WriteFile(o.chart, []byte(report.chart()), 0o644); err != nil {
			return err
		}
	}
	if *asJSON {
		return printJSON(stdout, report)
	}
	_, err = io.WriteString(stdout, report.table())
	return err
}

func printJSON(to io.Writer, value any) error {
	enc := json.NewEncoder(to)
	enc.SetIndent("", "  ")
	return enc.Encode(value)
}

func run(ctx context.Context, o Options, chosen []benchCase, compared []setup, progress io.Writer) (*Report, error) {
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
	lab, err := openLab(ctx, o, compared, dir)
	if err != nil {
		return nil, err
	}
	defer lab.close()

	report := &Report{Options: o, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU()}
	for _, c := range chosen {
		of := c.options(o)
		fmt.Fprintf(progress, "%s: %d rounds of %v for each proxy\n", c.name, of.Rounds, of.Duration)
		result, err := lab.measure(ctx, of, c)
		if err == nil && o.profile != "" {
			err = lab.profile(ctx, of, c)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		report.Results = append(report.Results, result)
	}
	fmt.Fprintf(progress, "resting for %v\n", o.Rest)
	report.Idle, err = lab.measureIdle(ctx, o.Rest)
	return report, err
}

// measureIdle reads how much memory the proxies use after a time without requests.
func (l *lab) measureIdle(ctx context.Context, while time.Duration) (idle []IdleMemory, err error) {
	select {
	case <-time.After(while):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for _, p := range l.proxies {
		m, err := p.memory()
		if err != nil {
			return nil, err
		}
		idle = append(idle, IdleMemory{p.name, m.Resident})
	}
	return idle, nil
}

// measure runs the rounds of a case. The proxies take turns, so that noise on the
// machine affects all of them.
func (l *lab) measure(ctx context.Context, o Options, c benchCase) (Result, error) {
	warm := o
	warm.Duration = max(o.Duration, o.warm)
	for _, p := range l.proxies {
		if err := p.forgetPeak(); err != nil {
			return Result{}, err
		}
		if c.connections > 0 {
			continue // which would take as long as the case itself
		}
		if _, err := p.load(ctx, warm, c); err != nil {
			return Result{}, err
		}
	}
	rounds := make([]Round, o.Rounds)
	for i := range rounds {
		var err error
		if rounds[i], err = l.round(ctx, o, c); err != nil {
			return Result{}, fmt.Errorf("round %d: %w", i+1, err)
		}
	}
	peaks := make([]int64, len(l.proxies))
	for i, p := range l.proxies {
		m, err := p.memory()
		if err != nil {
			return Result{}, err
		}
		peaks[i] = m.Peak
	}
	return summarize(c.name, o.Proxies, rounds, peaks), nil
}

// round loads one proxy after the other. CPU time and writes are measured over the
// whole round, so that they include work that a proxy deferred until it was idle.
func (l *lab) round(ctx context.Context, o Options, c benchCase) (Round, error) {
	before, done := make([]spent, len(l.proxies)), make([]load, len(l.proxies))
	for i, p := range l.proxies {
		var err error
		if before[i], err = p.spent(); err != nil {
			return nil, err
		}
	}
	for i, p := range l.proxies {
		var err error
		if done[i], err = p.load(ctx, o, c); err != nil {
			return nil, err
		}
	}
	r := make(Round, len(l.proxies))
	for i, p := range l.proxies {
		after, err := p.spent()
		if err != nil {
			return nil, err
		}
		r[i] = done[i].sample(spent{after.cpu - before[i].cpu, after.written - before[i].written})
	}
	return r, nil
}

// casesOf returns the cases with these names, in the order of the names.
func casesOf(names []string) ([]benchCase, error) {
	var chosen []benchCase
	for _, name := range names {
		i := slices.Index(caseNames(), name)
		if i < 0 {
			return nil, fmt.Errorf("unknown case %q: expected some of %s", name, strings.Join(caseNames(), ", "))
		}
		chosen = append(chosen, cases[i])
	}
	return chosen, nil
}
