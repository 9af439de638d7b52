// Package local reads secrets from the environment and from files, as the Caddy modules
// gw.secrets.environment and gw.secrets.file. Both give away only what the operator's
// configuration lists.
package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/secrets"
)

func init() {
	caddy.RegisterModule(new(Environment))
	caddy.RegisterModule(new(File))
}

// Environment reads secrets from environment variables of the gateway. The path of a
// reference is the name of one.
type Environment struct {
	// The variables that references may name: names, or beginnings of names with a * behind
	// them. Required.
	Names []string `json:"names"`
}

// CaddyModule returns the Caddy module information.
func (*Environment) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "gw.secrets.environment", New: func() caddy.Module { return new(Environment) }}
}

// Provision checks the configuration.
func (e *Environment) Provision(caddy.Context) error {
	if len(e.Names) == 0 {
		return errors.New("names: required, the environment variables that may be read")
	}
	for _, name := range e.Names {
		if prefix := strings.TrimSuffix(name, "*"); prefix == "" || strings.ContainsAny(prefix, "*= ") {
			return fmt.Errorf("names: expected names, or beginnings of names with a * behind them, got %q", name)
		}
	}
	return nil
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	secrets environment {
//		names <names...>
//	}
func (e *Environment) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume the module's name
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if d.Val() != "names" {
			return d.Errf("unrecognized subdirective %q", d.Val())
		}
		names := d.RemainingArgs()
		if len(names) == 0 {
			return d.ArgErr()
		}
		e.Names = append(e.Names, names...)
	}
	return nil
}

// Login says that there is nothing to log in to.
func (*Environment) Login() secrets.Login {
	return secrets.Login{Ways: map[string][]secrets.Field{"": nil}}
}

func (e *Environment) allows(name string) bool {
	for _, allowed := range e.Names {
		if prefix, ok := strings.CutSuffix(allowed, "*"); allowed == name || ok && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// Check checks that the operator lists the variable.
func (e *Environment) Check(r *secrets.Reference, _ secrets.Guard) error {
	if !e.allows(r.Path) {
		return &secrets.FieldError{Field: secrets.FieldPath, Message: "the operator's configuration does not list this variable; see names of secrets environment"}
	}
	return nil
}

// Fetch reads the variable.
func (e *Environment) Fetch(_ context.Context, r *secrets.Reference, _ *secrets.Clients) (value credentials.Secret, err error) {
	if !e.allows(r.Path) { // the configuration may have changed
		return value, errors.New("the operator's configuration does not list the variable")
	}
	text, ok := os.LookupEnv(r.Path)
	switch {
	case !ok:
		return value, fmt.Errorf("the environment has no such variable; set it, and restart: %w", fs.ErrNotExist)
	case len(text) > secrets.MaxValue:
		return value, secrets.ErrTooLarge
	}
	return credentials.NewSecret(text), nil
}

// File reads secrets from files below a directory, as Docker, Kubernetes and systemd mount
// them. The path of a reference is that of a file there. A line break at its end is not a part
// of the secret.
type File struct {
	// The directory. Symbolic links in it may not lead out of it. Required.
	Root string `json:"root"`
}

// CaddyModule returns the Caddy module information.
func (*File) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "gw.secrets.file", New: func() caddy.Module { return new(File) }}
}

// Provision checks the configuration.
func (f *File) Provision(caddy.Context) error {
	if !filepath.IsAbs(f.Root) {
		return errors.New("root: expected an absolute path, of the directory whose files may be read")
	}
	return nil
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	secrets file {
//		root <directory>
//	}
func (f *File) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume the module's name
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if d.Val() != "root" {
			return d.Errf("unrecognized subdirective %q", d.Val())
		}
		if !d.AllArgs(&f.Root) {
			return d.ArgErr()
		}
	}
	return nil
}

// Login says that there is nothing to log in to.
func (*File) Login() secrets.Login { return secrets.Login{Ways: map[string][]secrets.Field{"": nil}} }

// Check checks the path.
func (*File) Check(r *secrets.Reference, _ secrets.Guard) error {
	if !fs.ValidPath(r.Path) || r.Path == "." || strings.ContainsAny(r.Path, "\x00\\") {
		return &secrets.FieldError{Field: secrets.FieldPath, Message: "expected the path of a file below root of secrets file, such as openai/key"}
	}
	return nil
}

// Fetch reads the file.
func (f *File) Fetch(_ context.Context, r *secrets.Reference, _ *secrets.Clients) (value credentials.Secret, err error) {
	root, err := os.OpenRoot(f.Root)
	if err != nil {
		return value, withoutPath(err)
	}
	defer root.Close()
	if info, err := root.Stat(filepath.FromSlash(r.Path)); err != nil || !info.Mode().IsRegular() { // reading a pipe could wait for ever
		if err == nil {
			err = errors.New("it is not a regular file")
		}
		return value, withoutPath(err)
	}
	file, err := root.Open(filepath.FromSlash(r.Path))
	if err != nil {
		return value, withoutPath(err)
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, secrets.MaxValue+1))
	switch {
	case err != nil:
		return value, withoutPath(err)
	case len(b) > secrets.MaxValue:
		return value, secrets.ErrTooLarge
	}
	text := strings.TrimSuffix(string(b), "\n")
	return credentials.NewSecret(strings.TrimSuffix(text, "\r")), nil
}

// withoutPath returns the cause of an error about a file: callers may see it, and where files
// are is none of their business.
func withoutPath(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("reading the file: %w", err)
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Environment)(nil)
	_ caddy.Provisioner     = (*File)(nil)
	_ caddyfile.Unmarshaler = (*Environment)(nil)
	_ caddyfile.Unmarshaler = (*File)(nil)
	_ secrets.Manager       = (*Environment)(nil)
	_ secrets.Manager       = (*File)(nil)
)
