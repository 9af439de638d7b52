package badger

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// canonical returns dir as an absolute path in which the symbolic links of what
// exists are resolved.
func canonical(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	missing := ""
	for parent := dir; ; parent = filepath.Dir(parent) {
		real, err := filepath.EvalSymlinks(parent)
		if err == nil {
			return filepath.Join(real, missing), nil
		}
		if !errors.Is(err, fs.ErrNotExist) || parent == filepath.Dir(parent) {
			return "", err
		}
		missing = filepath.Join(filepath.Base(parent), missing)
	}
}

// makeDir creates dir and the parents it lacks, for this user only, and makes
// sure that they survive a crash.
func makeDir(dir string) error {
	var created []string
	for p := dir; ; p = filepath.Dir(p) {
		if _, err := os.Stat(p); !errors.Is(err, fs.ErrNotExist) || p == filepath.Dir(p) {
			break
		}
		created = append(created, p)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, p := range created {
		if err := syncDir(filepath.Dir(p)); err != nil {
			return err
		}
	}
	return nil
}

// syncDir makes the names in dir survive a crash.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // it cannot, and need not
	}
	return syncFile(dir)
}

// syncFile makes the contents of a file survive a crash, also what was written
// to it through a memory map.
func syncFile(path string) error {
	flag := os.O_RDONLY
	if runtime.GOOS == "windows" {
		flag = os.O_RDWR // FlushFileBuffers wants it
	}
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
