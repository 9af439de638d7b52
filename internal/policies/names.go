package policies

import (
	"crypto/sha256"
	"slices"
)

// bounded reports whether the number of a policy's counters is bounded.
func (p *Policy) bounded() bool { return slices.ContainsFunc(p.GroupBy, chosenByCaller) }

// Longer names of counters are replaced by a hash, so that their memory is bounded and the
// ledger can list them.
const maxGroupName = 256

// overflowMark and hashMark follow the policy's id in the names of counters that do not
// belong to a group. Those of groups start with a digit there.
const (
	overflowMark = '+'
	hashMark     = '#'
)

// overflow returns the name of the counter that groups without their own share, if they
// have the same saved values.
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
