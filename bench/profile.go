package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// profileTime is the minimum duration of a profile.
const profileTime = 5 * time.Second

// profile loads the proxies once more, one after the other, and writes profiles from
// Caddy's admin endpoint: <proxy>-<case>.cpu.pprof, and <proxy>-<case>.alloc.pprof for
// the allocations in that time. The measured rounds run without profiling.
func (l *lab) profile(ctx context.Context, o Options, c benchCase) error {
	if err := os.MkdirAll(o.profile, 0o755); err != nil {
		return err
	}
	o.Duration = max(o.Duration, profileTime)
	seconds := int(math.Ceil(o.Duration.Seconds()))
	o.Duration = time.Duration(seconds)*time.Second + time.Second/2 // until both profiles are complete
	for _, p := range l.proxies {
		if p.name == nginxName {
			continue
		}
		name := filepath.Join(o.profile, p.name+"-"+c.name)
		faults := make(chan error, 2)
		go func() { faults <- p.fetch(ctx, fmt.Sprintf("profile?seconds=%d", seconds), name+".cpu.pprof") }()
		go func() { faults <- p.fetch(ctx, fmt.Sprintf("allocs?seconds=%d", seconds), name+".alloc.pprof") }()
		_, err := p.load(ctx, o, c)
		if err = errors.Join(err, <-faults, <-faults); err != nil {
			return fmt.Errorf("profiling: %w", err)
		}
	}
	return nil
}

// fetch writes a profile of the process to a file.
func (p *process) fetch(ctx context.Context, profile, file string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.admin+"/debug/pprof/"+profile, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	content, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return err
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("%s answered %s: %.300s", r.URL, res.Status, content)
	}
	return os.WriteFile(file, content, 0o644)
}
