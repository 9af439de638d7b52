// Package latest holds what a configuration passes to what outlives it. While a configuration
// replaces another, both are there, and the newer one counts; if it fails to start, the older
// one counts again.
package latest

import (
	"slices"
	"sync"
)

// A Value is what the latest of the running configurations says. Its zero value is usable,
// and it is safe for concurrent use.
type Value[T any] struct {
	mu  sync.RWMutex
	all []*T
}

// Use makes v the latest value, until release is called.
func (l *Value[T]) Use(v T) (release func()) {
	mine := &v
	l.mu.Lock()
	l.all = append(l.all, mine)
	l.mu.Unlock()
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = slices.DeleteFunc(l.all, func(v *T) bool { return v == mine })
	}
}

// Get returns the latest value, or the zero value if there is none.
func (l *Value[T]) Get() (v T) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if n := len(l.all); n > 0 {
		v = *l.all[n-1]
	}
	return v
}
