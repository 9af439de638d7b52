//go:build !linux

package badger

import "context"

// trim does nothing: there is no advice here that changes no memory.
func (*Store) trim(context.Context) {}
