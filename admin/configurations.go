package admin

import "encoding/json"

// takeHost takes custom_host out of configurations, which is not a setting but the address.
func takeHost(in map[string]any) (text string, host Optional[string], err error) {
	if v, ok := in["custom_host"]; ok {
		delete(in, "custom_host")
		host.Set = true
		if host.Value, ok = v.(string); !ok && v != nil {
			return "", host, invalid("configurations.custom_host", "expected a string")
		}
	}
	b, err := json.Marshal(in)
	return string(b), host, err
}
