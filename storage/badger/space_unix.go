//go:build linux || darwin || freebsd

package badger

import "golang.org/x/sys/unix"

// statSpace returns the [Space] of dir according to the operating system.
func statSpace(dir string) (Space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Space{}, err
	}
	// The types of the fields differ between systems. Flag 1 means read-only on all of
	// them (ST_RDONLY, MNT_RDONLY).
	free := int64(st.Bavail)
	return Space{
		Free:     uint64(max(free, 0)) * uint64(st.Bsize),
		ReadOnly: uint64(st.Flags)&1 != 0,
	}, nil
}
