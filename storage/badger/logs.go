package badger

import (
	"errors"
	"fmt"

	badgerdb "github.com/dgraph-io/badger/v4"
)

// earlierMemtable is the size of the memtables of earlier versions, in bytes.
const earlierMemtable = 16 << 20

// earlierLogs reports whether a killed process may have left logs that contain more
// than one of our memtables, in which case the library would end the process. A log
// that the library created with our options and has not truncated since is twice as
// long as a memtable.
func (v *verification) earlierLogs() bool {
	for _, name := range v.sorted(".mem") {
		if size := v.names[name]; size > 0 && size != 2*memtableSize {
			return true
		}
	}
	return false
}

// flushLogs converts the logs to tables, using memtables of the earlier size.
func (s *Store) flushLogs(options badgerdb.Options) error {
	s.state.LogSize = 2 * earlierMemtable
	if err := s.state.write(s.dir); err != nil {
		return err
	}
	err := guard("flushing the logs of an earlier build", func() error {
		db, err := badgerdb.Open(options.WithMemTableSize(earlierMemtable))
		if err != nil {
			return err
		}
		return errors.Join(s.state.opened(s.dir), db.Close())
	})
	if err != nil {
		return err
	}
	if err := s.state.closed(s.dir); err != nil {
		return fmt.Errorf("flushing the logs of an earlier build: %w", err)
	}
	return nil
}
