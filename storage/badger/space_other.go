//go:build !linux && !darwin && !freebsd && !windows

package badger

import "math"

// statSpace reports unlimited space, because it is not implemented on this system.
func statSpace(string) (Space, error) {
	return Space{Free: math.MaxUint64}, nil
}
