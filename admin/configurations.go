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
	booleans(in)
	b, err := json.Marshal(in)
	return string(b), host, err
}

// booleans makes the flags of deployments true or false. Some clients send 0, 1 or a text.
func booleans(settings map[string]any) {
	list, _ := settings["azure_deployment_config"].([]any)
	for _, one := range list {
		d, _ := one.(map[string]any)
		switch d["is_default"] {
		case 1.0, "1", "true":
			d["is_default"] = true
		case 0.0, "0", "false", nil:
			delete(d, "is_default")
		}
	}
}
