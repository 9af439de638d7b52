package guardrails

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// A Kind is a kind of check.
type Kind struct {
	// ID is what configs and saved guardrails name: a vendor and a name, with a dot between
	// them. Letter case does not count.
	ID string
	// Aliases are other ids of the kind.
	Aliases []string
	// Doc says when the verdict is true.
	Doc        string
	Parameters []Parameter
	// Phases are those that the check can judge; the zero value is all. A hook in another is not saved.
	Phases Phases
	// Vendor is the service that the check asks; nil: none. It has the parameter [Credentials] then.
	Vendor *Vendor
	// New makes a check with parameters that are valid according to the table. Its error says
	// what is wrong with them, and may be a *ParameterError.
	New func(p *Parameters) (Check, error)
}

// Register registers kinds of checks as Caddy modules gw.guardrails.<id>. It is called by init
// functions, and panics if an id is taken or invalid.
func Register(kinds ...Kind) {
	for i := range kinds {
		k := &kinds[i]
		if k.Vendor != nil {
			k.Parameters = append(slices.Clip(k.Parameters), credentialsOf(k.Vendor))
		}
		for _, id := range append([]string{k.ID}, k.Aliases...) {
			key := strings.ToLower(id)
			if !validID.MatchString(id) || byID[key] != nil || k.New == nil {
				panic("registering the check " + id + ": the id is taken, or not of the form vendor.name, or there is no function New")
			}
			byID[key] = k
		}
		ids = append(ids, k.ID)
		caddy.RegisterModule(module{k})
	}
}

var (
	byID    = make(map[string]*Kind)
	ids     []string
	validID = regexp.MustCompile(`^[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*\.[a-zA-Z0-9_]+$`)
)

// A module is a kind of check as a Caddy module.
type module struct{ *Kind }

// CaddyModule returns the Caddy module information.
func (m module) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: caddy.ModuleID("gw.guardrails." + m.ID), New: func() caddy.Module { return m }}
}

// Lookup returns the kind of check with an id, or nil.
func Lookup(id string) *Kind { return byID[strings.ToLower(id)] }

// Kinds returns all kinds of checks, sorted by their ids.
func Kinds() []*Kind {
	all := make([]*Kind, 0, len(ids))
	for _, id := range slices.Sorted(slices.Values(ids)) {
		all = append(all, Lookup(id))
	}
	return all
}

// Make makes a check with parameters, an object. Parameters that the kind does not have are
// ignored.
func (k *Kind) Make(parameters json.RawMessage) (Check, error) {
	check, faults := k.Try(parameters)
	for _, fault := range faults {
		if !fault.Unknown {
			return nil, fault
		}
	}
	return check, nil
}

// Faults returns everything that is wrong with parameters, unknown ones among it.
func (k *Kind) Faults(parameters json.RawMessage) []*ParameterError {
	_, faults := k.Try(parameters)
	return faults
}

// Try makes a check with parameters, and returns everything that is wrong with them. With unknown
// parameters only, there is a check nevertheless.
func (k *Kind) Try(parameters json.RawMessage) (Check, []*ParameterError) {
	p, faults := parse(k.ID, k.Parameters, parameters)
	for _, fault := range faults {
		if !fault.Unknown {
			return nil, faults
		}
	}
	check, err := k.New(p)
	if err != nil {
		var fault *ParameterError
		if !errors.As(err, &fault) {
			fault = &ParameterError{Message: err.Error()}
		}
		return nil, append(faults, fault)
	}
	return check, faults
}
