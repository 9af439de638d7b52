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
	"strings"
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

// A process is a running Caddy.
type process struct {
	name    string
	address string // of its site
	admin   string // address of its admin endpoint; empty: disabled
	headers string // sent by its clients in addition to the usual headers, each with CRLF

	cmd    *exec.Cmd
	log    string // file
	exited chan struct{}
}

const startTimeout = 30 * time.Second

// start runs Caddy with a configuration, with its own folders below dir. It returns as
// soon as the site accepts TCP connections. The process ends with ctx.
func start(ctx context.Context, binary, dir string, p *process, config string) error {
	home := filepath.Join(dir, p.name)
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	file := filepath.Join(home, "Caddyfile")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	p.log = filepath.Join(home, "log")
	log, err := os.Create(p.log)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	p.cmd = exec.CommandContext(ctx, binary, "run", "--config", file, "--adapter", "caddyfile")
	p.cmd.Env = append(os.Environ(), "HOME="+home, "XDG_DATA_HOME="+home, "XDG_CONFIG_HOME="+home, "AppData="+home)
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
	if err := p.listens(ctx); err != nil {
		return fmt.Errorf("starting %s: %w%s", p.name, err, p.output())
	}
	return nil
}

func (p *process) listens(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var d net.Dialer
		if conn, err := d.DialContext(ctx, "tcp", p.address); err == nil {
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

// caddyfile returns a configuration with one site and the given global options.
func caddyfile(p *process, options, site string) string {
	admin := "off"
	if p.admin != "" {
		admin = p.admin
	}
	const form = `{
	admin %s
	persist_config off
%s}

http://%s {
	bind 127.0.0.1
%s}
`
	return fmt.Sprintf(form, admin, indent(options), p.address, indent(site))
}

func indent(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString("\t" + line)
	}
	return b.String()
}
