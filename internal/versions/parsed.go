package versions

import "sync"

// MaxParsed bounds the versions of one kind that are kept parsed, in bytes of their sealed texts. What a
// text is parsed to may take some 50 times as much.
const MaxParsed = 8 << 20

// A parsedCache has what versions were parsed to, those that are asked for in the last place: once recent
// is half of what is kept, the half before it goes.
type parsedCache[T any] struct {
	mu             sync.RWMutex
	recent, before map[string]T // by version id
	size           int          // of recent, in bytes of texts
}

func (c *parsedCache[T]) get(v *Version) (T, bool) {
	c.mu.RLock()
	t, ok := c.recent[v.ID]
	if ok {
		c.mu.RUnlock()
		return t, true
	}
	t, ok = c.before[v.ID]
	c.mu.RUnlock()
	if ok {
		c.put(v, t)
	}
	return t, ok
}

func (c *parsedCache[T]) put(v *Version, t T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.recent[v.ID]; ok {
		return
	}
	if c.recent == nil || c.size+len(v.Sealed) > MaxParsed/2 {
		c.recent, c.before, c.size = make(map[string]T), c.recent, 0
	}
	c.recent[v.ID] = t
	c.size += len(v.Sealed)
}

func (c *parsedCache[T]) drop(v *Version) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.recent[v.ID]; ok {
		delete(c.recent, v.ID)
		c.size -= len(v.Sealed)
	}
	delete(c.before, v.ID)
}
