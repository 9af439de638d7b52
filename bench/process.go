package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// build builds Caddy with the gateway in dir.
func build(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "caddy.exe") // the suffix is needed on Windows only
	out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/caddy-gw/gateway/cmd/caddy").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building ./cmd/caddy: %w\n%s", err, out)
	}
	return binary, nil
}

// A process is a running proxy, or the model servers.
type process struct {
	name      string
	home      string                  // its folder
	addresses map[string]string       // of its sites, by the upstream
	admin     string                  // address of its admin endpoint; empty: disabled
	headers   func(*benchCase) string // sent by its clients in addition to the usual headers, each with CRLF

	cmd    *exec.Cmd
	log    string // file
	exited chan struct{}
}

const startTimeout = 30 * time.Second

// runCaddy starts Caddy with a configuration.
func (p *process) runCaddy(ctx context.Context, binary, config string) error {
	return p.run(ctx, "Caddyfile", config, binary, "run", "--adapter", "caddyfile", "--config")
}

// run starts a program with a configuration, whose file is the last argument. It returns
// as soon as the sites accept TCP connections. The process ends with ctx.
func (p *process) run(ctx context.Context, name, config, binary string, args ...string) error {
	file := filepath.Join(p.home, name)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	p.log = filepath.Join(p.home, "log")
	log, err := os.Create(p.log)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	p.cmd = exec.CommandContext(ctx, binary, append(args, file)...)
	p.cmd.Env = append(os.Environ(), "HOME="+p.home, "XDG_DATA_HOME="+p.home, "XDG_CONFIG_HOME="+p.home, "AppData="+p.home)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(os.Interrupt) }
	p.cmd.WaitDelay = 10 * time.Second // then it is killed
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	p.exited = make(chan struct{})
	go func() {
		_ = p.cmd.Wait() // the reason is in the log
		close(p.exited)
	}()
	for _, address := range p.addresses {
		if err := p.listens(ctx, address); err != nil {
			return fmt.Errorf("starting %s: %w%s", p.name, err, p.output())
		}
	}
	return nil
}

func (p *process) listens(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var d net.Dialer
		if conn, err := d.DialContext(ctx, "tcp", address); err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-p.exited:
			return errors.New("it exited")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// cpu returns the CPU time that the process has used.
func (p *process) cpu() (time.Duration, error) { return cpuTime(p.cmd.Process.Pid) }

// A memory is the resident memory of a process, in bytes.
type memory struct{ Resident, Peak int64 }

func (p *process) memory() (memory, error) { return readMemory(p.cmd.Process.Pid) }

func (p *process) forgetPeak() error { return forgetPeak(p.cmd.Process.Pid) }

// A spent is what a process has used since it started.
type spent struct {
	cpu     time.Duration
	written int64 // bytes
}

func (p *process) spent() (s spent, err error) {
	if s.cpu, err = p.cpu(); err != nil {
		return s, err
	}
	s.written, err = written(p.cmd.Process.Pid)
	return s, err
}

// output returns the last lines of the process's log, to be shown with an error.
func (p *process) output() string {
	const lines = 10
	content, err := os.ReadFile(p.log)
	if err != nil || len(content) == 0 {
		return ""
	}
	all := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
	last := bytes.Join(all[max(len(all)-lines, 0):], []byte("\n\t"))
	return fmt.Sprintf("\nthe log of %s ends:\n\t%s", p.name, last)
}

// freeAddresses returns n unused loopback addresses.
func freeAddresses(n int) ([]string, error) {
	addresses := make([]string, n)
	for i := range addresses {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // closed at the end, so that no address is returned twice
		addresses[i] = l.Addr().String()
	}
	return addresses, nil
}
