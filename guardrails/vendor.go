package guardrails

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// A Vendor is a service that checks ask, and what it has to be told about the customer.
type Vendor struct {
	ID string // such as mistral, the first part of the ids of its checks
	// Settings are credentials and addresses, all of them texts.
	Settings []Parameter
}

// VendorOf returns the vendor with an id, or that of the check with an id; nil: there is none.
// An organisation saves settings for either, and those for a check win.
func VendorOf(id string) *Vendor {
	if k := Lookup(id); k != nil {
		return k.Vendor
	}
	for _, k := range Kinds() {
		if k.Vendor != nil && strings.EqualFold(k.Vendor.ID, id) {
			return k.Vendor
		}
	}
	return nil
}

// VendorIDs are the ids of the vendors, sorted.
func VendorIDs() (all []string) {
	for _, k := range Kinds() {
		if k.Vendor != nil && !slices.Contains(all, k.Vendor.ID) {
			all = append(all, k.Vendor.ID)
		}
	}
	slices.Sort(all)
	return all
}

// Read reads settings, a JSON object.
func (v *Vendor) Read(raw json.RawMessage) (map[string]string, []*ParameterError) {
	p, faults := parse(v.ID, v.Settings, raw)
	if len(faults) > 0 {
		return nil, faults
	}
	return p.settings(v.Settings), nil
}

// settings are the texts among parameters.
func (p *Parameters) settings(rows []Parameter) map[string]string {
	all := make(map[string]string, len(rows))
	for i := range rows {
		if text := p.Text(rows[i].Name); text != "" {
			all[rows[i].Name] = text
		}
	}
	return all
}

// Credentials is the name of the parameter that has the settings of a check's vendor; without it,
// the organisation's are used.
const Credentials = "credentials"

// credentialsOf describes that parameter.
func credentialsOf(v *Vendor) Parameter {
	return Parameter{
		Name: Credentials, Type: Object, Members: v.Settings,
		Doc: "all that " + v.ID + " has to be told, instead of what the organisation has saved",
	}
}

// Settings are the members of the parameter [Credentials]; nil: it is not given.
func (p *Parameters) Settings(v *Vendor) map[string]string {
	raw := p.Raw(Credentials)
	if raw == nil {
		return nil
	}
	of := &Parameters{raw: make(map[string]json.RawMessage)}
	gjson.ParseBytes(raw).ForEach(func(name, value gjson.Result) bool {
		of.raw[name.Str] = json.RawMessage(value.Raw)
		return true
	})
	for i := range v.Settings {
		if s := &v.Settings[i]; of.raw[s.Name] == nil && s.Default != "" {
			of.raw[s.Name] = json.RawMessage(s.Default)
		}
	}
	return of.settings(v.Settings)
}
