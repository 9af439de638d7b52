package badger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/storage"
)

// Verify reads all files of the store in dir, and returns an error that wraps
// [storage.ErrDamaged] if files are damaged or missing. It changes nothing. Unlike
// [Open], it also verifies the checksums of the value log.
func Verify(dir string, logger *zap.Logger) error {
	unlock, err := lockStore(dir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := finished(dir); err != nil {
		return fmt.Errorf("store %s: %w", dir, err)
	}
	v, err := verify(dir, logger)
	if err != nil {
		return fmt.Errorf("store %s: %w", dir, err)
	}
	if !v.exists(badgerdb.ManifestFilename) {
		return fmt.Errorf("%s holds no store", dir)
	}
	for _, name := range v.sorted(".vlog") {
		v.log(name, func(row) {})
	}
	if err := v.damages.err(); err != nil {
		return fmt.Errorf("store %s: %w", dir, err)
	}
	return nil
}

// lockStore locks an existing store against other processes.
func lockStore(dir string) (unlock func(), err error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	unlock, err = lockDir(dir)
	if errors.Is(err, storage.ErrLocked) {
		err = fmt.Errorf("%w: %s", err, holder(dir))
	}
	return unlock, err
}

// Salvaged is the result of [Salvage].
type Salvaged struct {
	Rows int     // written to the new store
	Lost []error // parts that could not be read
}

// Salvage writes all rows that can be read from the damaged store in from to a new
// store in to, which must not exist or be empty. For each key, it uses the newest
// version that it finds. Rows that were deleted or changed recently may reappear in
// their previous state if the deletion or change was lost.
func Salvage(ctx context.Context, from, to string, logger *zap.Logger) (result Salvaged, err error) {
	unlock, err := lockStore(from)
	if err != nil {
		return result, err
	}
	defer unlock()
	if files, err := os.ReadDir(to); err == nil && len(files) > 0 {
		return result, fmt.Errorf("%s is not empty; name a directory that does not exist", to)
	}
	v := &verification{dir: from, logger: zap.NewNop(), names: map[string]int64{}}
	if err := v.list(); err != nil {
		return result, err
	}
	lost := func(file string, err error) {
		result.Lost = append(result.Lost, fmt.Errorf("%s: %w", file, err))
	}
	if v.manifest, err = readManifest(v.path(badgerdb.ManifestFilename)); err != nil {
		v.manifest = manifest{}
		lost(badgerdb.ManifestFilename, err)
	}

	// Read the versions first, because all values might not fit into memory.
	newest := map[string]uint64{}
	v.salvage(lost, func(r row) {
		if newest[string(r.key)] < r.version {
			newest[string(r.key)] = r.version
		}
	})
	err = writeCopy(to, logger, func(store *Store) error {
		s := salvager{store: store, from: from, lost: lost}
		known := make(map[string]bool, len(result.Lost))
		for _, err := range result.Lost {
			known[err.Error()] = true
		}
		again := func(file string, err error) { // problems that the first pass did not find
			if !known[file+": "+err.Error()] {
				lost(file, err)
			}
		}
		v.salvage(again, func(r row) {
			if newest[string(r.key)] != r.version || s.err != nil {
				return
			}
			if s.write(ctx, r) {
				delete(newest, string(r.key)) // so that it is written only once
				result.Rows++
			}
		})
		if s.err == nil && result.Rows == 0 && len(newest) > 0 {
			return errors.New("rows were read, and none could be written")
		}
		return s.err
	})
	return result, err
}

// salvage visits all rows that can be read.
func (v *verification) salvage(lost func(string, error), visit func(row)) {
	for id := range v.manifest.tables {
		if name := tableName(id); !v.exists(name) {
			lost(name, errors.New("the file is missing"))
		}
	}
	for _, name := range v.sorted(".sst") {
		id, err := number(name)
		if err != nil || v.manifest.deleted[id] {
			continue
		}
		lose := func(err error) { lost(name, err) }
		if compression, ok := v.manifest.tables[id]; ok {
			err = readTable(v.path(name), compression, visit, lose)
		} else {
			err = readUnlisted(v.path(name), visit, lose)
		}
		if err != nil {
			lost(name, err)
		}
	}
	for _, name := range v.sorted(".mem") {
		used, size, err := used(v.path(name))
		if err == nil {
			err = withFile(v.path(name), min(size, used+maxLogHead), func(data []byte) error {
				return salvageLog(data, int(used), visit)
			})
		}
		if err != nil {
			lost(name, err)
		}
	}
}

// salvageLog visits the rows of a log, including those after damage.
func salvageLog(data []byte, used int, visit func(row)) error {
	var skipped int
	for at := min(logHeader, len(data)); at < used; {
		e, ok := parseEntry(data[at:])
		if !ok || !plausible(e) {
			at++
			skipped++
			continue
		}
		if e.meta&bitFinTxn == 0 {
			visit(e.row())
		}
		at += e.size
	}
	if skipped > 0 {
		return fmt.Errorf("%d of %d bytes are damaged", skipped, used)
	}
	return nil
}

// A salvager writes rows to a new store.
type salvager struct {
	store *Store
	from  string
	lost  func(file string, err error)
	err   error
}

// write reports whether the row needs no further attempt.
func (s *salvager) write(ctx context.Context, r row) bool {
	if r.gone() || len(r.key) < 2 || r.key[0] != keyPrefix {
		return false
	}
	value := r.value
	if p, ok := r.pointer(); ok {
		name := fmt.Sprintf("%06d.vlog", p.file)
		err := withFile(filepath.Join(s.from, name), int64(p.offset)+int64(p.length), func(data []byte) error {
			if len(data) < int(p.offset) {
				return errors.New("it has lost its end")
			}
			e, ok := parseEntry(data[p.offset:])
			if !ok {
				return fmt.Errorf("the entry at %d is damaged", p.offset)
			}
			value = append([]byte(nil), e.value...)
			return nil
		})
		if err != nil {
			s.lost(name, err)
			return false
		}
	}
	err := s.store.Write(ctx, func(tx storage.Tx) error {
		if r.expiresAt == 0 {
			return tx.Set(r.key[1:], value)
		}
		return tx.SetTTL(r.key[1:], value, max(time.Second, time.Until(time.Unix(int64(r.expiresAt), 0))))
	})
	if err != nil {
		s.err = err
	}
	return err == nil
}
