//go:build linux || darwin || freebsd

package badger

import "golang.org/x/sys/unix"

// statSpace asks the operating system for the [Space] of dir.
func statSpace(dir string) (Space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Space{}, err
	}
	// The types of the fields differ between the systems. Read-only is flag 1
	// on all of them (ST_RDONLY, MNT_RDONLY).
	free := int64(st.Bavail)
	return Space{
		Free:     uint64(max(free, 0)) * uint64(st.Bsize),
		ReadOnly: uint64(st.Flags)&1 != 0,
	}, nil
}
