package ledger

import "iter"

// accounts are found by their keys. The hash of a key, which also says in which shard it is, is made
// before the shard is locked: keys are long, and calls that share a counter wait for each other.
type accounts map[uint64]*account // the first of those with this hash

// get returns the account of a key, or nil.
func (m accounts) get(hash uint64, key string) *account {
	for a := m[hash]; a != nil; a = a.next {
		if a.key == key {
			return a
		}
	}
	return nil
}

func (m accounts) add(a *account) {
	a.next = m[a.hash]
	m[a.hash] = a
}

func (m accounts) remove(a *account) {
	first := m[a.hash]
	if first == a {
		if a.next == nil {
			delete(m, a.hash)
		} else {
			m[a.hash] = a.next
		}
		return
	}
	for ; first != nil; first = first.next {
		if first.next == a {
			first.next = a.next
			return
		}
	}
}

// all yields all accounts, which must not be removed meanwhile.
func (m accounts) all() iter.Seq[*account] {
	return func(yield func(*account) bool) {
		for _, a := range m {
			for ; a != nil; a = a.next {
				if !yield(a) {
					return
				}
			}
		}
	}
}
