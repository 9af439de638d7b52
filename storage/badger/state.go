package badger

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"

	badgerdb "github.com/dgraph-io/badger/v4"
)

// stateFile lists the logs of memtables that must exist. Without it, a missing log
// could not be distinguished from one whose rows were flushed to a table, so a store
// has the file before the library creates its first one.
const stateFile = "STATE"

// A state is the content of the state file. It is written before the library opens the
// store, whenever a new log has become durable, and after the store is closed.
type state struct {
	// The MANIFEST when the store was opened or closed: its checksum (see manifestHead)
	// and its length, which is 0 before the library has created the store.
	ManifestHead uint32 `json:"manifest_head"`
	ManifestEnd  int64  `json:"manifest_end"`

	// Closed is set if all logs were flushed.
	Closed bool `json:"closed"`

	// Logs are the logs with rows when the store was opened, oldest first, and the
	// positions of their ends.
	Logs []stateLog `json:"logs,omitempty"`

	// Next is the number of the first log that was created since, LogSize is the size
	// of each of them, and Newest is the number of the last durable one.
	Next    uint64 `json:"next"`
	LogSize int64  `json:"log_size"`
	Newest  uint64 `json:"newest"`
}

type stateLog struct {
	Number uint64 `json:"number"`
	End    int64  `json:"end"`
}

type stateContent struct {
	State    json.RawMessage `json:"state"`
	Checksum uint32          `json:"crc32c"`
}

// readState returns nil if there is no state file.
func readState(dir string) (*state, error) {
	data, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := new(state)
	return s, unchecked(data, s)
}

// checked encodes a value with a checksum.
func checked(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return json.Marshal(stateContent{data, crc32.Checksum(data, castagnoli)})
}

// unchecked decodes a value encoded by checked.
func unchecked(data []byte, v any) error {
	var content stateContent
	if err := json.Unmarshal(data, &content); err != nil {
		return err
	}
	if crc32.Checksum(content.State, castagnoli) != content.Checksum {
		return errors.New("it does not fit its checksum")
	}
	return json.Unmarshal(content.State, v)
}

// write replaces the state file on disk.
func (s *state) write(dir string) error {
	data, err := checked(s)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, stateFile)
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	if err := syncFile(path + ".new"); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return syncDir(dir)
}

// state compares the logs and the MANIFEST with the state file.
func (v *verification) state() {
	logs := v.sorted(".mem")
	known, err := readState(v.dir)
	if err != nil {
		v.damages.add(stateFile, "it is damaged: %v", err)
		return
	}
	if known == nil {
		v.damages.add(stateFile, "the file is missing, without which a log that is lost would go unnoticed")
		return
	}
	v.synced(known)
	if known.ManifestEnd > 0 {
		head, _, err := manifestHead(v.path(badgerdb.ManifestFilename))
		if err != nil || head != known.ManifestHead {
			known = nil // it was rewritten
		}
	}
	if known != nil && v.manifest.end < known.ManifestEnd {
		v.damages.add(badgerdb.ManifestFilename, "it has lost its end: it has %d bytes and had %d", v.manifest.end, known.ManifestEnd)
		return
	}
	if known == nil || known.Closed {
		// The library leaves no logs when it is closed. If there are any, another
		// program has opened the store since, and its logs are unknown.
		for _, name := range logs {
			if v.names[name] == 0 {
				v.damages.add(name, "it is empty, and nothing says whether it had rows")
			}
		}
		return
	}
	required := known.required(v.manifest)
	for _, name := range logs {
		n, err := number(name)
		if err != nil {
			v.damages.add(name, "its name should be a number")
			return
		}
		if v.names[name] > 0 && n > known.Newest {
			required = append(required, stateLog{Number: n})
		}
		if v.names[name] == 0 {
			v.empty = append(v.empty, name)
		}
	}
	for _, l := range required {
		name := logName(l.Number)
		size := v.names[name]
		switch {
		case !v.exists(name):
			v.damages.add(name, "the file is missing, and its rows are in no table yet")
		case l.End == 0 && size != known.LogSize:
			v.damages.add(name, "it has %d bytes and was made with %d: it has lost its end", size, known.LogSize)
		case l.End != 0 && v.logEnds[name] < l.End:
			v.damages.add(name, "it ends at %d and was read up to %d before: it has lost its end", v.logEnds[name], l.End)
		}
	}
}

// synced compares the logs with the positions up to which they were synced. Logs from
// before the store was last closed are ignored.
func (v *verification) synced(known *state) {
	if known.Closed {
		return
	}
	ends, err := readSynced(v.dir)
	if err != nil {
		v.damages.add(syncedFile, "%v", err)
		return
	}
	for n, end := range ends {
		name := logName(n)
		if at, ok := v.logEnds[name]; ok && at < end {
			v.damages.add(name, "it can be read up to %d and was on the disk up to %d: it has a hole, or has lost its end", at, end)
		}
	}
}

func logName(number uint64) string { return fmt.Sprintf("%05d.mem", number) }

// required returns the logs up to the newest durable one that were not flushed
// according to the manifest. Logs are flushed in order, into one table each.
func (s *state) required(m manifest) []stateLog {
	logs := s.Logs
	for n := s.Next; n <= s.Newest; n++ {
		logs = append(logs, stateLog{Number: n})
	}
	flushed := 0
	for _, at := range m.flushes {
		if at > s.ManifestEnd {
			flushed++
		}
	}
	return logs[min(flushed, len(logs)):]
}

// opening returns the state before the library opens the store.
func (v *verification) opening() (*state, error) {
	s := &state{Next: 1, LogSize: 2 * memtableSize}
	for _, name := range v.sorted(".mem") {
		if slices.Contains(v.empty, name) {
			continue
		}
		n, err := number(name)
		if err != nil {
			return nil, err
		}
		s.Next = n + 1
		if end := v.logEnds[name]; end > logHeader {
			s.Logs = append(s.Logs, stateLog{n, end})
		}
	}
	s.Newest = s.Next - 1
	// Without a MANIFEST, the store is new and no log was flushed.
	if !v.exists(badgerdb.ManifestFilename) {
		return s, nil
	}
	s.ManifestEnd = v.manifest.end
	var err error
	s.ManifestHead, _, err = manifestHead(v.path(badgerdb.ManifestFilename))
	return s, err
}

// opened records that the library has opened the store in dir with a log that is now
// durable.
func (s *state) opened(dir string) (err error) {
	if s.ManifestEnd == 0 {
		// The store is new, so no log can have been flushed.
		s.ManifestHead, s.ManifestEnd, err = manifestHead(filepath.Join(dir, badgerdb.ManifestFilename))
	}
	return err
}

// begun records that the log with this name is durable.
func (s *state) begun(dir, name string) error {
	n, err := number(name)
	if err != nil {
		return err
	}
	s.Newest = n
	return s.write(dir)
}

// closed records that the library has closed the store in dir.
func (s *state) closed(dir string) (err error) {
	c := state{Closed: true}
	c.ManifestHead, c.ManifestEnd, err = manifestHead(filepath.Join(dir, badgerdb.ManifestFilename))
	if err != nil {
		return err
	}
	return c.write(dir)
}
