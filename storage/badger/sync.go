package badger

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	badgerdb "github.com/dgraph-io/badger/v4"
)

// A syncer makes commits durable. One sync covers all commits before it, so callers
// that arrive during a sync share the next one.
type syncer struct {
	mu       sync.Mutex
	done     uint64 // the ticket of the last sync
	memtable string // the newest memtable log whose name is known to be durable
	valueLog string // the newest file of the value log at that time

	// begun, unless nil, is called with the name of a memtable log that has become
	// durable.
	begun func(dir, memtable string) error

	synced *syncedLogs

	tickets struct {
		sync.Mutex
		last uint64
	}
}

// run returns when everything that was committed before the call is on disk.
func (s *syncer) run(dir string, db *badgerdb.DB) error {
	s.tickets.Lock()
	s.tickets.last++
	ticket := s.tickets.last
	s.tickets.Unlock()

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done >= ticket {
		return nil
	}
	s.tickets.Lock()
	last := s.tickets.last
	s.tickets.Unlock()
	if err := s.syncAll(dir, db); err != nil {
		return err
	}
	s.done = last
	return nil
}

// syncAll syncs the logs of the database.
//
// The library's own Sync covers the log of the current memtable and the newest file of
// the value log. It does not cover a memtable or file that has become full since the
// commit (and without SyncWrites, the library did not sync it at that time either).
// Those are synced by name: the logs of memtables waiting to be flushed (if a log is
// gone, a table has been written, synced and added to the manifest), and the files of
// the value log since the last sync.
func (s *syncer) syncAll(dir string, db *badgerdb.DB) error {
	names, err := namesIn(dir)
	if err != nil {
		return err
	}
	ends, err := s.synced.ends(names)
	if err != nil {
		return err
	}
	if err := db.Sync(); err != nil {
		return err
	}
	if names, err = namesIn(dir); err != nil {
		return err
	}
	files, newNames := s.behind(names)
	for _, name := range files {
		err := syncFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // flushed or collected in the meantime
			return err
		}
	}
	if newNames {
		// The library does not sync the directory when it creates a log.
		if err := syncDir(dir); err != nil {
			return err
		}
		if memtable := newest(names, ".mem"); s.begun != nil && memtable != s.memtable && memtable != "" {
			if err := s.begun(dir, memtable); err != nil {
				return err
			}
		}
	}
	s.memtable, s.valueLog = newest(names, ".mem"), newest(names, ".vlog")
	return s.synced.note(ends)
}

func namesIn(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(-1)
	return names, errors.Join(err, d.Close())
}

// behind returns the files in the directory that the library's Sync omits, and whether
// there are logs that did not exist at the last sync.
func (s *syncer) behind(names []string) (files []string, newNames bool) {
	memtable, valueLog := newest(names, ".mem"), newest(names, ".vlog")
	for _, name := range names {
		switch filepath.Ext(name) {
		case ".mem":
			if name != memtable {
				files = append(files, name)
			}
		case ".vlog":
			if name != valueLog && !older(name, s.valueLog) {
				files = append(files, name)
			}
		}
	}
	return files, memtable != s.memtable || valueLog != s.valueLog
}

// newest returns the newest file with this extension, or "".
func newest(names []string, ext string) string {
	var found string
	for _, name := range names {
		if filepath.Ext(name) == ext && older(found, name) {
			found = name
		}
	}
	return found
}

// older compares file names that are numbers, whose leading zeros end when they become
// longer.
func older(a, b string) bool {
	if len(a) != len(b) {
		return len(a) < len(b)
	}
	return a < b
}
