package manifest

import (
	"regexp"

	"github.com/caddy-gw/gateway/internal/audit"
)

// hidden is a sealed secret, as JSON.
var hidden = regexp.MustCompile(`"` + sealedPrefix + `[A-Za-z0-9_-]+"`)

var comparison = audit.Comparison{
	Elements: true, Empty: true,
	Hide: func(raw string) string { return hidden.ReplaceAllString(raw, `"(secret)"`) },
}

// difference returns the members that differ between two objects, in which secrets are sealed. The
// members of arrays are named by their places.
func difference(before, after []byte) ([]audit.Change, error) {
	from, err := audit.Decode(before)
	if err != nil {
		return nil, err
	}
	to, err := audit.Decode(after)
	if err != nil {
		return nil, err
	}
	return comparison.Changes(from, to), nil
}
