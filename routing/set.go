package routing

// Set is the parameter that sets the top-level member key to a JSON value.
func Set(key string, value []byte) Param {
	path, fault := ParsePath(key)
	if fault != "" {
		panic("parameter " + key + ": " + fault) // keys are the gateway's own
	}
	return Param{Key: key, Path: path, Value: value}
}

// Sets reports whether the edit gives the top-level member key a value.
func (e *Edit) Sets(key string) bool {
	if e == nil {
		return false
	}
	for _, list := range [...][]Param{e.Default, e.Override} {
		for _, p := range list {
			if p.Key == key && string(p.Value) != "null" {
				return true
			}
		}
	}
	return false
}
