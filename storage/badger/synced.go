package badger

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// syncedFile says how far the logs of memtables are known to be on the disk. Without it,
// a log whose end became zeros, or that has a hole, looks like what a crash of the
// machine leaves of rows that were never confirmed.
//
// It has two places of a sector each, which are written in turn, so that a crash can
// spoil one only. It need not be on the disk itself: an older one asks for less.
const (
	syncedFile  = "SYNCED"
	syncedPlace = 4096 // bytes from one place to the next
	syncedSize  = 512  // of a place, no more than a disk writes at once
	maxSynced   = 8    // logs in a place, the newest: no more than a few wait for their flush
)

// A syncedContent is what a place holds.
type syncedContent struct {
	// Count says which place is the newer one.
	Count uint64 `json:"count"`

	// Logs are where the whole transactions in each log end that a sync has covered.
	Logs []stateLog `json:"logs"`
}

// A syncedLogs follows the logs of a store, and notes how far they were synced.
type syncedLogs struct {
	dir  string
	file *os.File
	last syncedContent
	buf  []byte
}

// openSynced begins anew: the logs that are there before the library opens the store are
// in the [state].
func openSynced(dir string) (*syncedLogs, error) {
	f, err := os.OpenFile(filepath.Join(dir, syncedFile), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &syncedLogs{dir: dir, file: f}, nil
}

func (s *syncedLogs) close() error {
	return errors.Join(s.file.Truncate(0), s.file.Close())
}

// ends finds out where the logs with these names end now.
func (s *syncedLogs) ends(names []string) ([]stateLog, error) {
	var logs []stateLog
	for _, name := range names {
		if filepath.Ext(name) != ".mem" {
			continue
		}
		n, err := number(name)
		if err != nil {
			return nil, err
		}
		l := stateLog{Number: n, End: logHeader}
		for _, known := range s.last.Logs {
			if known.Number == n {
				l.End = known.End
			}
		}
		l.End, err = s.end(filepath.Join(s.dir, name), l.End)
		if errors.Is(err, os.ErrNotExist) {
			continue // it was flushed meanwhile
		}
		if err != nil {
			return nil, err
		}
		logs = append(logs, l)
	}
	slices.SortFunc(logs, func(a, b stateLog) int { return cmp.Compare(a.Number, b.Number) })
	return logs[max(0, len(logs)-maxSynced):], nil
}

// end returns where the whole transactions end in a log that is being written, of which
// the part before from is known.
func (s *syncedLogs) end(path string, from int64) (end int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if s.buf == nil {
		s.buf = make([]byte, 256<<10)
	}
	buf := s.buf
	for {
		n, err := f.ReadAt(buf, from)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		whole, rest := scanLogFrom(buf[:n], 0, func(row) {})
		from += int64(whole)
		switch {
		case whole > 0 && n == len(buf):
		case whole == 0 && n == len(buf) && !blank(buf[rest:]):
			// A transaction that is longer than the buffer, if it is whole.
			buf = make([]byte, 4*len(buf))
		default:
			return from, nil
		}
	}
}

// blank reports whether no entry begins here.
func blank(data []byte) bool {
	return len(data) == 0 || data[0] == 0 && (len(data) < 3 || data[1] == 0 && data[2] == 0)
}

// note says that the logs are on the disk up to these ends.
func (s *syncedLogs) note(logs []stateLog) error {
	if slices.Equal(logs, s.last.Logs) {
		return nil
	}
	next := syncedContent{Count: s.last.Count + 1, Logs: logs}
	data, err := checked(next)
	if err != nil {
		return err
	}
	if len(data) > syncedSize {
		return fmt.Errorf("%s does not fit its place: %d bytes", syncedFile, len(data))
	}
	place := make([]byte, syncedSize)
	for i := range place {
		place[i] = ' '
	}
	copy(place, data)
	if _, err := s.file.WriteAt(place, int64(next.Count%2)*syncedPlace); err != nil {
		return err
	}
	s.last = next
	return nil
}

// readSynced returns the ends by the numbers of logs. A place that cannot be read asks for
// nothing.
func readSynced(dir string) (map[uint64]int64, error) {
	data, err := os.ReadFile(filepath.Join(dir, syncedFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var newest syncedContent
	for at := 0; at < len(data); at += syncedPlace {
		var c syncedContent
		if unchecked(data[at:min(at+syncedSize, len(data))], &c) == nil && c.Count > newest.Count {
			newest = c
		}
	}
	ends := make(map[uint64]int64, len(newest.Logs))
	for _, l := range newest.Logs {
		ends[l.Number] = l.End
	}
	return ends, nil
}
