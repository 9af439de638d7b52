package badger

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// canonical returns dir as an absolute path, resolving symbolic links in the part that
// exists.
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

// makeDir creates dir and missing parents for this user only, and makes sure that they
// survive a crash.
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

// syncDir makes sure that the entries of dir survive a crash.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // impossible and unnecessary there
	}
	return syncFile(dir)
}

// syncFile makes sure that the contents of a file survive a crash, including writes
// through a memory map.
func syncFile(path string) error {
	flag := os.O_RDONLY
	if runtime.GOOS == "windows" {
		flag = os.O_RDWR // required by FlushFileBuffers
	}
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
