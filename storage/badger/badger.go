// Package badger stores the gateway's state in a directory, using an embedded Badger
// database. It is the default driver, and suitable for a single node.
package badger

import (
	"fmt"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/storage"
)

func init() {
	caddy.RegisterModule(Badger{})
}

// Badger stores the gateway's state in a directory of this machine. One process
// at a time can have a directory open.
type Badger struct {
	// The directory, created with mode 0700 where it does not exist.
	// Placeholders of the environment are replaced.
	// Default: `gw` in Caddy's data directory.
	Dir string `json:"dir,omitempty"`

	dir string // resolved from Dir
}

// CaddyModule returns the Caddy module information.
func (Badger) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "gw.storage.badger",
		New: func() caddy.Module { return new(Badger) },
	}
}

// Provision resolves the directory. It does not open the store, so that a configuration
// can be validated while a process that uses it is running.
func (b *Badger) Provision(caddy.Context) error {
	dir, err := caddy.NewReplacer().ReplaceOrErr(b.Dir, true, true)
	if err != nil {
		return fmt.Errorf("storage directory: %w", err)
	}
	if dir == "" {
		dir = filepath.Join(caddy.AppDataDir(), "gw")
	}
	b.dir, err = canonical(dir)
	if err != nil {
		return fmt.Errorf("storage directory %s: %w", dir, err)
	}
	return nil
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	badger [<dir>]
func (b *Badger) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume the module's name
	if d.NextArg() {
		b.Dir = d.Val()
		if b.Dir == "" {
			return d.Err("the storage directory is empty; omit it for the default one")
		}
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		return d.Errf("unrecognized subdirective %q", d.Val())
	}
	return nil
}

// CanonicalDir returns the absolute path of the directory without symbolic links, so
// that different paths of the same directory are equal. It is empty before Provision.
func (b *Badger) CanonicalDir() string { return b.dir }

// Open opens the store; see [Open]. The store uses logger as long as it is open.
func (b *Badger) Open(logger *zap.Logger) (storage.Store, error) {
	store, err := Open(b.dir, Options{Logger: logger})
	if err != nil {
		return nil, err
	}
	return store, nil
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Badger)(nil)
	_ caddyfile.Unmarshaler = (*Badger)(nil)
)
