package routing

import "encoding/json"

// Result returns the value of the top-level member key after the edit, given the body's own
// value; nil means absent.
func (e *Edit) Result(key string, own json.RawMessage) json.RawMessage {
	if e == nil {
		return own
	}
	if own == nil || string(own) == "null" {
		for _, p := range e.Default {
			if p.Key == key {
				own = p.Value
			}
		}
	}
	if v := e.Lookup(key); v != nil {
		own = v
	}
	for _, p := range e.Drop {
		if p.String() == key {
			return nil
		}
	}
	return own
}
