//go:build !linux

package badger

import "context"

// trim does nothing, because this system has no such advice that leaves memory
// unchanged.
func (*Store) trim(context.Context) {}
