package responses

import (
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// StripForeign returns the body of a call that creates a response, without what the gateway
// added to earlier responses of providers without this API: sealed reasoning and signatures
// of calls. It returns nil if there is nothing to remove.
func StripForeign(body []byte) []byte {
	if !jsonscan.Mentions(body, "gw:", `extra_content"`) {
		return nil
	}
	e := chat.Editor{Reader: jsonscan.NewReader(body), Out: make([]byte, 0, len(body))}
	e.Object(func(name string) bool {
		if name != "input" {
			return false
		}
		e.Key(name)
		e.Array(func() {
			item := e.Reader.Raw()
			if sealed(item) {
				return
			}
			inner := chat.Editor{Reader: jsonscan.NewReader(item)}
			inner.Object(func(name string) bool {
				if name == "extra_content" {
					inner.Reader.Raw()
					return true
				}
				return false
			})
			e.Out.Raw(inner.Out)
		})
		return true
	})
	if e.Reader.Err() != nil { // the caller of the reader reports it
		return nil
	}
	return e.Out
}

// sealed reports whether an item is reasoning with one of the gateway's seals.
func sealed(item []byte) bool {
	var kind, seal chat.Literal
	r := jsonscan.NewReader(item)
	r.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("type"):
			kind = r.String()
		case key.Is("encrypted_content"):
			seal = r.String()
		}
	})
	inside := jsonscan.Inside(seal)
	for _, name := range sealKinds {
		if name != "" && chat.Sealed(inside, name) {
			return kind.Is("reasoning")
		}
	}
	return false
}
