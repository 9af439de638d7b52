package policies

import (
	"crypto/sha256"
	"slices"
)

// bounded reports whether the counters of a policy are.
func (p *RateLimit) bounded() bool { return slices.ContainsFunc(p.GroupBy, chosenByCaller) }

// A counter's name that is longer is replaced by its hash, so that memory is bounded in
// bytes too and the ledger can list it.
const maxGroupName = 256

// overflowMark and hashMark begin what stands after a policy's id in names of counters
// that are no group's; those begin with a digit.
const (
	overflowMark = '+'
	hashMark     = '#'
)

// overflow returns the name of the counter that a group falls into that has none of its
// own: it is shared by all that have the same saved values.
func overflow(policy string, groupBy []string, f Call) string {
	saved := make([]string, 0, len(groupBy))
	for _, key := range groupBy {
		if !chosenByCaller(key) {
			saved = append(saved, key)
		}
	}
	name, _ := group(policy, saved, f)
	at := len(prefix(policy))
	return short(policy, name[:at]+string(overflowMark)+name[at:])
}

// short bounds the length of a counter's name.
func short(policy, name string) string {
	if len(name) <= maxGroupName {
		return name
	}
	at := len(prefix(policy))
	mark := ""
	if name[at] == overflowMark {
		mark = string(overflowMark)
	}
	sum := sha256.Sum256([]byte(name))
	return name[:at] + mark + string(hashMark) + string(sum[:])
}
