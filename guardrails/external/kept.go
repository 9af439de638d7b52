package external

import (
	"crypto/sha256"
	"sync"
)

// kept remembers so many things that services said, by a digest of all that they were said of. For a new
// one, the oldest makes room of those of the workspace that has most, so that no workspace displaces
// what another one has while it has more itself.
type kept[V any] struct {
	most int

	mu sync.Mutex
	of map[[sha256.Size]byte]V
	by map[string][][sha256.Size]byte // the keys of each workspace, in the order in which they came
}

func newKept[V any](most int) *kept[V] {
	return &kept[V]{most: most, of: make(map[[sha256.Size]byte]V), by: make(map[string][][sha256.Size]byte)}
}

// get returns what is remembered, or the zero value.
func (k *kept[V]) get(key [sha256.Size]byte) V {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.of[key]
}

// put remembers a value for a workspace, which is part of the key.
func (k *kept[V]) put(workspace string, key [sha256.Size]byte, value V) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.of[key]; !known {
		if len(k.of) >= k.most {
			k.drop(workspace)
		}
		k.by[workspace] = append(k.by[workspace], key)
	}
	k.of[key] = value
}

// drop forgets the oldest of the workspace that has most; of several, of this one.
func (k *kept[V]) drop(workspace string) {
	for other, keys := range k.by {
		if len(keys) > len(k.by[workspace]) {
			workspace = other
		}
	}
	keys := k.by[workspace]
	delete(k.of, keys[0])
	if k.by[workspace] = keys[1:]; len(keys) == 1 {
		delete(k.by, workspace)
	}
}
