package badger

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"go.uber.org/zap"
)

// unfinishedFile is in the directory of a store that is being written as a copy of another, until all is there: a process that ends before
// must not leave a store that looks whole.
const unfinishedFile = "UNFINISHED"

// ErrUnfinished means that the copy of a store was not written to its end.
var ErrUnfinished = errors.New("the restoring or salvaging of this store was interrupted; remove the directory and do it again")

// finished returns [ErrUnfinished] for a directory with half a copy.
func finished(dir string) error {
	switch _, err := os.Lstat(filepath.Join(dir, unfinishedFile)); {
	case err == nil:
		return ErrUnfinished
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return err
	}
}

// writeCopy has write fill a new store in a directory, which only opens once that and the closing have succeeded.
func writeCopy(dir string, logger *zap.Logger, write func(*Store) error) error {
	mark := filepath.Join(dir, unfinishedFile)
	if err := makeDir(dir); err != nil {
		return err
	}
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		return err
	}
	if err := syncDir(dir); err != nil {
		return err
	}
	store, err := Open(dir, Options{Logger: logger, unfinished: true})
	if err != nil {
		return err
	}
	if err := errors.Join(write(store), store.Close()); err != nil {
		return err
	}
	if err := os.Remove(mark); err != nil {
		return err
	}
	return syncDir(dir)
}
