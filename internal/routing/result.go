package routing

import "encoding/json"

// Result is the value of the top-level member key after the edit, where own is the
// body's; nil: there is none.
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
