package routing

import (
	"slices"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
)

// Clouds for which credentials may be what the gateway's machine is.
const (
	AWS   = "aws"
	Azure = "azure"
)

// Identities are what the operator's configuration gives to providers of what the gateway's machine is: by the cloud,
// the way in which the machine is that (provider_identity).
type Identities map[string]string

// machineWays are the modes that need a certain way.
var machineWays = map[string]string{"workload": "workload", "entraFederated": "workload"}

// Check returns the cloud for which a credential with settings, as JSON, is what the gateway's machine is; "": it is not.
// It refuses one that the operator's configuration does not give that, or that goes to a host which is not the
// provider's own. Fields are those of settings.
func (i Identities) Check(c *credentials.Credential, text string, ownHost bool, refuse credentials.Refuse) (cloud string, err error) {
	cloud, field, mode := MachineOf(c.Provider, text, c.Mappings)
	way, wanted := i[cloud], machineWays[mode]
	switch {
	case cloud == "":
		return "", nil
	case way == "":
		return "", refuse(field, "%s is what the gateway's machine is, which the operator's configuration does not give to providers (provider_identity %s)", mode, cloud)
	case wanted != "" && way != wanted:
		return "", refuse(field, "%s needs provider_identity %s %s, and the operator's configuration has %s", mode, cloud, wanted, way)
	case !ownHost:
		return "", refuse(field, "%s is what the gateway's machine is, which goes to the provider's own hosts only", mode)
	}
	return cloud, nil
}

// MachineOf returns for which cloud a credential is what the gateway's machine is, by its settings as JSON and what is
// mapped besides: [AWS] or [Azure]; "": it is not. field and mode say how it is that.
func MachineOf(provider, text string, mapped []credentials.SecretMapping) (cloud, field, mode string) {
	all := gjson.Parse(text)
	for field, ways := range configurations[provider].modes {
		mode := all.Get(field).Str
		if way := ways[mode]; way.machine != "" && !slices.ContainsFunc(way.unless, present(all, mapped)) {
			return way.machine, field, mode
		}
	}
	return "", "", ""
}
