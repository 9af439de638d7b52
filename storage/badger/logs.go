package badger

import (
	"errors"
	"fmt"

	badgerdb "github.com/dgraph-io/badger/v4"
)

// earlierMemtable is the size of the memtables of earlier builds, in bytes.
const earlierMemtable = 16 << 20

// earlierLogs reports whether a killed process has left logs that may hold more than a
// memtable of ours: the library ends the process when a log does not fit. A log that the
// library made for us, and has not shortened since, is twice as long as a memtable.
func (v *verification) earlierLogs() bool {
	for _, name := range v.sorted(".mem") {
		if size := v.names[name]; size > 0 && size != 2*memtableSize {
			return true
		}
	}
	return false
}

// flushLogs turns the logs into tables, with memtables of the earlier size.
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
