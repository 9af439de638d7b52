// Command bench measures the overhead of the gateway over a plain reverse_proxy of the
// same Caddy. It starts three processes on loopback: gw_echo as the upstream, and plain
// Caddy and the gateway in front of it. It loads the two proxies in turns, and prints
// requests per second, CPU time, latency and bytes written per request, and peak memory
// of each, with their ratios. At the end it prints the memory of each when idle.
//
// \tgo run ./bench [-quick] [-rest 2m] [-json] [-cases 2KB,stream] [-profile DIR]
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
	Rest        time.Duration `json:"rest_ns"` // time without requests before idle memory is read

	binary  string // a Caddy binary with the gateway; empty: build one
	profile string // the folder for profiles; empty: no profiles
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
	var o Options
	flags.IntVar(&o.Rounds, "rounds", 5, "`rounds` of each case; the figures are their medians")
	flags.DurationVar(&o.Duration, "duration", 3*time.Second, "`time` of a round of one proxy")
	flags.IntVar(&o.Connections, "connections", 16, "`connections` that are kept alive")
	flags.Int64Var(&o.Requests, "requests", 1_000_000, "most `requests` in a round of one proxy")
	flags.DurationVar(&o.Rest, "rest", 2*time.Minute, "`time` without requests, after which resting memory is read")
	flags.StringVar(&o.binary, "caddy", "", "Caddy `binary` to measure (default: build ./cmd/caddy)")
	flags.StringVar(&o.profile, "profile", "", "write CPU and allocation profiles of both proxies into `folder`, after the rounds of each case")
	quick := flags.Bool("quick", false, "one round of 0.5 s and no rest, to see that it works")
	asJSON := flags.Bool("json", false, "print JSON")
	only := flags.String("cases", strings.Join(caseNames(), ","), "`names` of the cases, comma-separated")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *quick {
		o.Rounds, o.Duration, o.Rest = 1, time.Second/2, 0
	}
	o.Cases = strings.Split(*only, ",")
	chosen, err := casesOf(o.Cases)
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case err != nil:
		return err
	case o.Rest < 0:
		return fmt.Errorf("rest must not be negative")
	case o.Rounds < 1 || o.Duration <= 0 || o.Connections < 1 || o.Requests < 1:
		return fmt.Errorf("rounds, duration, connections and requests must be positive")
	}

	report, err := run(ctx, o, chosen, stderr)
	if err != nil {
		return err
	}
	if *asJSON {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(report)
	}
	_, err = io.WriteString(stdout, report.table())
	return err
}

func run(ctx context.Context, o Options, chosen []benchCase, progress io.Writer) (*Report, error) {
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
	lab, err := openLab(ctx, o, dir)
	if err != nil {
		return nil, err
	}
	defer lab.close()

	report := &Report{Options: o, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU()}
	for _, c := range chosen {
		fmt.Fprintf(progress, "%s: %d rounds of %v for each proxy\n", c.name, o.Rounds, o.Duration)
		rounds, peaks, err := lab.measure(ctx, o, c)
		if err == nil && o.profile != "" {
			err = lab.profile(ctx, o, c)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		result := summarize(c.name, rounds)
		result.Plain.PeakBytes, result.Gateway.PeakBytes = peaks[0], peaks[1]
		result.Ratio.Peak = ratio(float64(peaks[1]), float64(peaks[0]))
		report.Results = append(report.Results, result)
	}
	fmt.Fprintf(progress, "resting for %v\n", o.Rest)
	report.Idle, err = lab.measureIdle(ctx, o.Rest)
	return report, err
}

// measureIdle reads how much memory the proxies use after a time without requests.
func (l *lab) measureIdle(ctx context.Context, while time.Duration) (r IdleMemory, err error) {
	select {
	case <-time.After(while):
	case <-ctx.Done():
		return r, ctx.Err()
	}
	for i, p := range l.proxies() {
		m, err := p.memory()
		if err != nil {
			return r, err
		}
		*[...]*int64{&r.Plain, &r.Gateway}[i] = m.Resident
	}
	return r, nil
}

// measure runs the rounds of a case and returns the peaks of memory in them. The
// proxies take turns, so that noise on the machine affects both.
func (l *lab) measure(ctx context.Context, o Options, c benchCase) (rounds []Round, peaks [2]int64, err error) {
	warm := o
	warm.Duration = min(o.Duration, time.Second)
	for _, p := range l.proxies() {
		if err := p.forgetPeak(); err != nil {
			return nil, peaks, err
		}
		if _, err := p.load(ctx, warm, c); err != nil {
			return nil, peaks, err
		}
	}
	rounds = make([]Round, o.Rounds)
	for i := range rounds {
		if err := l.round(ctx, o, c, &rounds[i]); err != nil {
			return nil, peaks, fmt.Errorf("round %d: %w", i+1, err)
		}
	}
	for i, p := range l.proxies() {
		m, err := p.memory()
		if err != nil {
			return nil, peaks, err
		}
		peaks[i] = m.Peak
	}
	return rounds, peaks, nil
}

// round loads one proxy after the other. CPU time and writes are measured over the
// whole round, so that they include work that a proxy deferred until it was idle.
func (l *lab) round(ctx context.Context, o Options, c benchCase, r *Round) error {
	proxies := l.proxies()
	var before [len(proxies)]spent
	for i, p := range proxies {
		var err error
		if before[i], err = p.spent(); err != nil {
			return err
		}
	}
	var done [len(proxies)]load
	for i, p := range proxies {
		var err error
		if done[i], err = p.load(ctx, o, c); err != nil {
			return err
		}
	}
	for i, p := range proxies {
		after, err := p.spent()
		if err != nil {
			return err
		}
		*r.of(i) = done[i].sample(spent{after.cpu - before[i].cpu, after.written - before[i].written})
	}
	return nil
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
