package routing

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
