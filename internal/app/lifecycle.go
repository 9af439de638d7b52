package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/mail"
	"github.com/caddy-gw/gateway/internal/rotation"
	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
)

// Start opens the store, or shares it with the previous configuration, and creates the
// services. Requests that arrive earlier wait for it.
func (a *App) Start() error {
	if err := a.check(); err != nil {
		return err
	}
	dir := a.driver.CanonicalDir()
	master, err := a.masterKey(dir)
	if err != nil {
		return err
	}
	seal, missing, err := a.auditKey(dir)
	if err == nil && missing != "" && a.offline {
		err = lacksAuditKey(missing)
	}
	if err != nil {
		return err
	}
	value, shared, err := cores.LoadOrNew(dir, func() (caddy.Destructor, error) {
		logger := new(currentLogger)
		logger.use(a.logger.Core())
		store, err := a.driver.Open(zap.New(logger).Named("gw.storage"))
		if err != nil {
			return nil, err
		}
		if missing != "" {
			if seal, err = newAuditKey(context.Background(), store, missing); err != nil {
				return nil, errors.Join(err, store.Close())
			}
			missing = ""
		}
		services, err := openServices(context.Background(), store, master, seal, zap.New(logger))
		if err != nil {
			return nil, err
		}
		return newCore(services, master, seal, logger), nil
	})
	if err != nil {
		return fmt.Errorf("opening the store: %w", err)
	}
	a.held = dir
	c := value.(*core)
	if shared && c.master != credentials.DigestOf(master.Reveal()) {
		return errors.New("encryption_key: it is not the key that the store was opened with; restart to change it")
	}
	if missing != "" { // it was there when the store was opened
		return lacksAuditKey(missing)
	}
	if shared && c.seal != seal.String() {
		return errors.New("audit_log: key: it is not the key that the store was opened with; restart to change it")
	}
	c.logger.use(a.logger.Core())
	a.services = c.Services
	c.Answers.Resize(a.CacheSize)
	c.InFlight.Resize(a.MaxInflightBytes)
	c.Calls.Resize(a.MaxInflightCalls)
	c.Records.Configure(a.logged)
	if a.offline {
		if c.Directory.Organisation() == nil {
			return errors.New("the store is empty; start Caddy with it once")
		}
		a.runtime = a.build(c)
		close(a.ready)
		return nil
	}
	if err := a.configureTrail(c.Trail); err != nil {
		return err
	}
	announced := rotation.Settings{KeyPrefix: a.keyPrefix, Emit: a.emit}
	if a.SMTP != nil {
		a.mail = mail.New(a.SMTP.settings)
		announced.Mail = a.mail
	}
	a.releaseEvents = c.Rotations.Configure(announced)
	issued, err := a.bootstrap(context.Background(), c.Services)
	if err != nil {
		return fmt.Errorf("setting up the store: %w", err)
	}
	if err := a.announce(dir, issued); err != nil {
		return err
	}
	a.releaseHeadroom = gc.hold(a.headroom)
	a.releaseAlerts = c.Alerts.Configure(a.alertSettings(c))
	a.runtime = a.build(c)
	close(a.ready)
	return nil
}

// Stop does nothing: requests may still be draining. See Cleanup.
func (a *App) Stop() error { return nil }

// Cleanup releases the store. It is closed when nothing uses it any more.
func (a *App) Cleanup() error {
	if a.releaseHeadroom != nil {
		a.releaseHeadroom()
	}
	var err error
	if a.transport != nil {
		err = a.transport.Cleanup()
	}
	if a.held != "" {
		dir := a.held
		a.held = ""
		_, deleted := cores.Delete(dir)
		err = errors.Join(err, deleted)
	}
	if a.releaseEvents != nil {
		a.releaseEvents()
	}
	if a.releaseAlerts != nil {
		a.releaseAlerts()
	}
	if a.mail != nil { // closing the store may have sent some
		a.mail.Close()
	}
	if a.releaseTrail != nil { // closing the store used its sink
		err = errors.Join(err, a.releaseTrail())
	}
	return err
}
