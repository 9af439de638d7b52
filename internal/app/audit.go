package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"golang.org/x/net/http/httpguts"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/storage"
)

// AuditLog configures the audit trail.
type AuditLog struct {
	// Where each row of the trail goes besides the store, as a line of JSON: the module of a
	// log writer. After a crash or an error of the writer, a row may come twice. Default: nowhere.
	WriterRaw json.RawMessage `json:"writer,omitempty" caddy:"namespace=caddy.logging.writers inline_key=output"`

	// The key that seals the rows, at least 32 characters long. Placeholders are replaced.
	// Default: what key_file holds.
	Key string `json:"key,omitempty"`

	// A file that holds the key. Default: a file with mode 0600 that is made next to the store.
	KeyFile string `json:"key_file,omitempty"`

	// How long rows are kept. Default: forever.
	Retention caddy.Duration `json:"retention,omitempty"`

	// The header in which a proxy before Caddy gives the client's country, such as
	// CF-IPCountry. It is only read of requests from trusted proxies (trusted_proxies of
	// the server). Default: none.
	CountryHeader string `json:"country_header,omitempty"`

	key    credentials.Secret
	writer caddy.WriterOpener
}

// sinks are the open writers of audit trails, by their keys. Reloads share them.
var sinks = caddy.NewUsagePool()

type sink struct{ io.WriteCloser }

func (s sink) Destruct() error { return s.Close() }

func (l *AuditLog) provision(ctx caddy.Context) (err error) {
	if l.WriterRaw != nil {
		module, err := ctx.LoadModule(l, "WriterRaw")
		if err != nil {
			return fmt.Errorf("audit_log: loading the writer: %w", err)
		}
		l.writer = module.(caddy.WriterOpener)
	}
	switch {
	case l.Key != "" && l.KeyFile != "":
		return errors.New("audit_log: key: give a key or a file, not both")
	case l.Retention < 0:
		return errors.New("audit_log: retention: expected a positive duration")
	case l.CountryHeader != "" && !httpguts.ValidHeaderFieldName(l.CountryHeader):
		return fmt.Errorf("audit_log: country_header: expected the name of a header, got %q", l.CountryHeader)
	}
	l.key, err = secret("audit_log: key", l.Key, minKey)
	return err
}

// auditKey returns the key of the audit trail of the store in dir: the configured one, or the
// one in its file. missing is the name of the file if Caddy may make it, and it is not there.
func (a *App) auditKey(dir string) (key audit.Key, missing string, err error) {
	if !a.AuditLog.key.Empty() {
		key, err = audit.NewKey(a.AuditLog.key.Reveal())
		return key, "", err
	}
	path := a.AuditLog.KeyFile
	if path == "" {
		path = dir + ".audit-key"
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && a.AuditLog.KeyFile == "" {
		return key, path, nil
	}
	if err == nil {
		key, err = sealingKey(path, raw)
	}
	if err != nil {
		return key, "", fmt.Errorf("audit key: %w", err)
	}
	return key, "", nil
}

func sealingKey(path string, raw []byte) (audit.Key, error) {
	if raw = bytes.TrimSpace(raw); len(raw) < minKey {
		return audit.Key{}, fmt.Errorf("%s: expected at least %d characters, got %d", path, minKey, len(raw))
	}
	return audit.NewKey(string(raw))
}

// newAuditKey makes the file of the key of a store without an audit trail. A trail that was sealed is not gone on with by another key
// unless somebody puts one there: its rows could not be verified any more.
func newAuditKey(ctx context.Context, store storage.Store, path string) (audit.Key, error) {
	sealed, err := audit.Sealed(ctx, store)
	if err != nil {
		return audit.Key{}, fmt.Errorf("audit key: %w", err)
	}
	if sealed {
		return audit.Key{}, lacksAuditKey(path)
	}
	raw, err := newSecretFile(path)
	if err != nil {
		return audit.Key{}, fmt.Errorf("audit key: %w", err)
	}
	return sealingKey(path, raw)
}

func lacksAuditKey(path string) error {
	return fmt.Errorf("audit key: there is no %s: put the key of this store's audit trail there, or set key_file of audit_log to where it is; if it is lost, put another one of %d characters or more there, with which rows from before cannot be verified", path, minKey)
}

// configureTrail applies the configuration of the audit trail, until the App's Cleanup.
func (a *App) configureTrail(trail *audit.Trail) error {
	s := audit.Settings{Retention: time.Duration(a.AuditLog.Retention), Logger: a.logger.Named("audit")}
	closeSink := func() error { return nil }
	if w := a.AuditLog.writer; w != nil {
		opened, _, err := sinks.LoadOrNew(w.WriterKey(), func() (caddy.Destructor, error) {
			w, err := w.OpenWriter()
			return sink{w}, err
		})
		if err != nil {
			return fmt.Errorf("audit_log: opening %s: %w", w, err)
		}
		s.Sink = opened.(sink)
		closeSink = func() error {
			_, err := sinks.Delete(w.WriterKey())
			return err
		}
	}
	release := trail.Configure(s)
	a.releaseTrail = func() error {
		release()
		return closeSink()
	}
	return nil
}

func (l *AuditLog) unmarshal(d *caddyfile.Dispenser) error {
	return eachOnce(d, func(name string) error {
		var err error
		switch name {
		case "output":
			err = l.unmarshalOutput(d)
		case "retention":
			err = duration(d, &l.Retention)
		case "key":
			err = keyOrFile(d, &l.Key, &l.KeyFile)
		case "country_header":
			err = one(d, &l.CountryHeader)
		default:
			return d.Errf("unrecognized subdirective %q", name)
		}
		return err
	})
}

// unmarshalOutput parses a log writer, as Caddy does for its own logs: those of the package
// caddy do not parse Caddyfiles.
func (l *AuditLog) unmarshalOutput(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	name := d.Val()
	writer, standard := map[string]any{"stdout": caddy.StdoutWriter{}, "stderr": caddy.StderrWriter{}, "discard": caddy.DiscardWriter{}}[name]
	if !standard {
		module, err := caddyfile.UnmarshalModule(d, "caddy.logging.writers."+name)
		if err != nil {
			return err
		}
		writer = module
	}
	l.WriterRaw = caddyconfig.JSONModuleObject(writer, "output", name, nil)
	return nil
}
