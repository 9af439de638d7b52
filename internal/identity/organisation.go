package identity

import (
	"reflect"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/directory"
)

// ownIssuers are the issuers of the organisation's settings.
type ownIssuers struct {
	of       *directory.Organisation // the row that says so
	issuers  []*issuer
	settings []directory.TokenIssuer // of each
}

// own returns the issuers of the organisation's settings as they are now. Those that have not changed
// keep their keys; tokens of those that have are verified again.
func (v *Verifier) own() []*issuer {
	if v.Directory == nil {
		return nil
	}
	o := v.Directory.Organisation()
	known := v.organisation.Load()
	if o == nil || known != nil && known.of == o {
		return known.list()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if known = v.organisation.Load(); known != nil && known.of == o {
		return known.issuers
	}
	next := &ownIssuers{of: o, settings: o.SignIn.Issuers}
	kept := make(map[*issuer]bool)
	for _, settings := range next.settings {
		i := known.find(&settings)
		if i == nil {
			i = v.begin(v.issuerFrom(&settings))
		}
		kept[i] = true
		next.issuers = append(next.issuers, i)
	}
	for _, i := range known.list() {
		if !kept[i] {
			i.gone.Store(true)
		}
	}
	v.organisation.Store(next)
	return next.issuers
}

func (v *Verifier) issuerFrom(settings *directory.TokenIssuer) Issuer {
	i := Issuer{Name: settings.Issuer, Audience: settings.Audience, URLs: settings.URLs, Client: v.Client}
	if settings.Keys != nil {
		keys, err := ParseKeySet(settings.Keys, true)
		if err != nil { // it was checked when it was set
			v.Logger.Error("the keys of an issuer of the organisation's settings cannot be read", zap.String("issuer", settings.Issuer), zap.Error(err))
		}
		i.Keys = keys
	}
	return i
}

func (o *ownIssuers) list() []*issuer {
	if o == nil {
		return nil
	}
	return o.issuers
}

// find returns the issuer with these settings, or nil.
func (o *ownIssuers) find(settings *directory.TokenIssuer) *issuer {
	if o == nil {
		return nil
	}
	for n := range o.settings {
		if reflect.DeepEqual(&o.settings[n], settings) {
			return o.issuers[n]
		}
	}
	return nil
}
