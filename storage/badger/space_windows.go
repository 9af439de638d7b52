package badger

import "golang.org/x/sys/windows"

// statSpace returns the [Space] of dir according to the operating system.
func statSpace(dir string) (Space, error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return Space{}, err
	}
	var free uint64
	err = windows.GetDiskFreeSpaceEx(path, &free, nil, nil)
	return Space{Free: free}, err
}
