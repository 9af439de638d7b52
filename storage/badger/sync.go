package badger

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	badgerdb "github.com/dgraph-io/badger/v4"
)

// A syncer makes commits durable. One sync serves all the commits before it, so
// callers that come while another sync runs share the next.
type syncer struct {
	mu       sync.Mutex
	done     uint64 // the ticket that the last sync served
	memtable string // the newest log of a memtable whose name is known to be durable
	valueLog string // the newest file of the value log then

	// begun is called with the name of a log of a memtable that has become
	// durable, unless nil.
	begun func(dir, memtable string) error

	synced *syncedLogs

	tickets struct {
		sync.Mutex
		last uint64
	}
}

// run returns when all that was committed before the call is on the disk.
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
// The library's own Sync covers the log of the current memtable and the newest
// file of the value log. A memtable or a file that became full since the commit
// is in neither (nor was it synced on the way, without SyncWrites), so those
// are synced by name: the logs of memtables that wait for their flush (when the
// log is gone, a table was written, synced, and entered in the manifest), and
// the files of the value log since the last time.
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
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // flushed or collected meanwhile
			return err
		}
	}
	if newNames {
		// The library does not sync the directory when it begins a log.
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

// behind returns the files, of those in the directory, that the library's Sync
// leaves out; and whether there are logs that the last sync did not know.
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

// newest returns the newest of the files with this extension, or "".
func newest(names []string, ext string) string {
	var found string
	for _, name := range names {
		if filepath.Ext(name) == ext && older(found, name) {
			found = name
		}
	}
	return found
}

// older compares the numbers that are the names of files, which have leading
// zeros, until they become longer.
func older(a, b string) bool {
	if len(a) != len(b) {
		return len(a) < len(b)
	}
	return a < b
}
