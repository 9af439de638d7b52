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

// syncedFile records how far the logs of memtables are known to be on disk. Without it,
// a log with a hole or with zeros at its end could not be distinguished from one after
// a crash of the machine, in which only unconfirmed rows are missing.
//
// It has two places of a sector each, which are written alternately, so that a crash
// can only corrupt one. It does not have to be synced itself, because an older version
// only requires less.
const (
	syncedFile  = "SYNCED"
	syncedPlace = 4096 // distance of the places in bytes
	syncedSize  = 512  // of a place; no more than a disk writes atomically
	maxSynced   = 8    // newest logs in a place; only a few wait to be flushed at a time
)

// A syncedContent is the content of a place.
type syncedContent struct {
	// Count is higher in the newer place.
	Count uint64 `json:"count"`

	// Logs are the positions of the last complete transactions that were synced in each
	// log.
	Logs []stateLog `json:"logs"`
}

// A syncedLogs tracks how far the logs of a store were synced.
type syncedLogs struct {
	dir  string
	file *os.File
	last syncedContent
	buf  []byte
}

// openSynced creates the file. Logs from before the library opens the store are
// recorded in the [state].
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

// ends returns the current ends of the logs with these names.
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
			continue // flushed in the meantime
		}
		if err != nil {
			return nil, err
		}
		logs = append(logs, l)
	}
	slices.SortFunc(logs, func(a, b stateLog) int { return cmp.Compare(a.Number, b.Number) })
	return logs[max(0, len(logs)-maxSynced):], nil
}

// end returns the end of the last complete transaction in a log that is being written.
// The part before from is already known.
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
			// There may be a transaction that is longer than the buffer.
			buf = make([]byte, 4*len(buf))
		default:
			return from, nil
		}
	}
}

// blank reports whether data does not begin with an entry.
func blank(data []byte) bool {
	return len(data) == 0 || data[0] == 0 && (len(data) < 3 || data[1] == 0 && data[2] == 0)
}

// note records that the logs are on disk up to these ends.
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

// readSynced returns the ends by log number. A place that cannot be read is ignored.
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
