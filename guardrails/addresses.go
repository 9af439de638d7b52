package guardrails

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/tidwall/gjson"
)

// An Address is where a check sends something, as its parameters say.
type Address struct {
	Name string // of the parameter
	Host string // its scheme and host, such as https://checks.example.com
}

// Addresses returns the addresses among the parameters of a check, those among its credentials included.
func (k *Kind) Addresses(parameters json.RawMessage) []Address {
	return addresses("", k.Parameters, gjson.ParseBytes(parameters))
}

// Addresses returns the addresses among settings, a JSON object.
func (v *Vendor) Addresses(settings json.RawMessage) []Address {
	return addresses("", v.Settings, gjson.ParseBytes(settings))
}

func addresses(prefix string, rows []Parameter, given gjson.Result) (all []Address) {
	if !given.IsObject() {
		return nil
	}
	given.ForEach(func(key, value gjson.Result) bool {
		row := parameter(rows, key.Str)
		switch {
		case row == nil:
		case row.Members != nil:
			all = append(all, addresses(prefix+row.Name+".", row.Members, value)...)
		case row.Address && value.Str != "":
			at := value.Str
			if !strings.Contains(at, "://") {
				at = "https://" + at
			}
			if u, err := url.Parse(at); err == nil && u.Host != "" { // others are errors of the parameter
				all = append(all, Address{prefix + row.Name, u.Scheme + "://" + u.Host})
			}
		}
		return true
	})
	return all
}
