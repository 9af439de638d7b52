package badger

import (
	"errors"
	"os"

	"github.com/dgraph-io/ristretto/v2/z"
)

// withFile calls fn with the first bytes of a file, mapped into memory, or with the
// whole file if most is negative. The bytes are valid until fn returns, and must not be
// written to. See [guard].
func withFile(path string, most int64, fn func(data []byte) error) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	if most >= 0 {
		size = min(size, most)
	}
	if size == 0 {
		return fn(nil)
	}
	data, err := z.Mmap(f, false, size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, z.Munmap(data)) }()
	return guard("reading "+info.Name(), func() error { return fn(data) })
}

// used returns the size of a file and the number of its bytes before the zeros at its
// end, because logs are preallocated and filled from the beginning.
func used(path string) (used, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	buf := make([]byte, 1<<20)
	for end := info.Size(); end > 0; {
		start := max(0, end-int64(len(buf)))
		chunk := buf[:end-start]
		if _, err := f.ReadAt(chunk, start); err != nil {
			return 0, 0, err
		}
		for i := len(chunk); i > 0; i-- {
			if chunk[i-1] != 0 {
				return start + int64(i), info.Size(), nil
			}
		}
		end = start
	}
	return 0, info.Size(), nil
}
