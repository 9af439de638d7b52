package badger

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	badgerdb "github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"
)

// The library trusts its files. If one is missing or damaged, it deletes tables that it does
// not know, truncates logs, omits tables, or ends the process. Therefore, all files are
// checked before it opens them:
//
//   - If there are any files, there is a MANIFEST that can be read.
//   - All tables that it lists exist, and the checksums of their blocks are correct.
//   - Tables that it does not list, which the library deletes, contain nothing that is not
//     stored elsewhere: they are left over from a flush or a merge that a crash interrupted,
//     and were not forgotten because the MANIFEST is truncated.
//   - Logs are complete, except for what was being written during a crash (log.go).
//   - The required logs exist (state.go).
//   - If the value of a row is in the value log, the file exists and is long enough. Its
//     checksum is verified when the value is read.
//
// This reads every table once, and takes a quarter of a second for a million rows.

// A verification checks the files of a store without changing them.
type verification struct {
	dir     string
	logger  *zap.Logger
	damages damages

	names     map[string]int64 // files and their sizes
	manifest  manifest
	logEnds   map[string]int64 // of memtables: where the library will truncate them
	valueEnds map[uint32]int64 // of the value log

	// Suspect rows by key: the newest row of tables that are not listed, and the newest
	// row whose value is missing. Each also has the version of the newest sound row.
	orphans, dangling map[string]*suspect

	// Empty logs whose creation or deletion was interrupted by a crash. The library
	// does not open them.
	empty []string
}

type suspect struct {
	version uint64
	gone    bool
	file    string
	sound   uint64
}

// verify returns an error that wraps [storage.ErrDamaged] if files of the store in dir
// are damaged or missing. No other process may have it open.
func verify(dir string, logger *zap.Logger) (*verification, error) {
	v := &verification{
		dir: dir, logger: logger, names: map[string]int64{}, logEnds: map[string]int64{}, valueEnds: map[uint32]int64{},
		orphans: map[string]*suspect{}, dangling: map[string]*suspect{},
	}
	if err := v.run(); err != nil {
		return nil, err
	}
	return v, v.damages.err()
}

func (v *verification) run() error {
	if err := v.list(); err != nil {
		return err
	}
	content := ""
	for name := range v.names {
		switch filepath.Ext(name) {
		case ".sst", ".vlog", ".mem":
			content = name
		}
	}
	if !v.exists(badgerdb.ManifestFilename) {
		if known, err := readState(v.dir); content != "" || err != nil || known != nil && known.ManifestEnd > 0 {
			v.damages.add(badgerdb.ManifestFilename, "the file is missing, and %s is there", cmp.Or(content, stateFile))
		}
		return nil
	}
	var err error
	if v.manifest, err = readManifest(v.path(badgerdb.ManifestFilename)); err != nil {
		v.damages.add(badgerdb.ManifestFilename, "it is damaged: %v", err)
		return nil
	}
	if v.manifest.end < v.manifest.size {
		v.logger.Warn("the last change in the store's MANIFEST was being written in a crash", zap.String("dir", v.dir))
	}
	v.keyRegistry()
	v.valueLog()
	// Collect suspects first. The pass that clears them is only necessary if there are
	// any.
	v.readOrphans()
	v.readRows(v.visit)
	if len(v.dangling) > 0 && len(v.damages) == 0 {
		v.readRows(v.clear)
	}
	if len(v.damages) == 0 {
		v.judge()
	}
	v.state()
	return nil
}

// list records the files.
func (v *verification) list() error {
	files, err := os.ReadDir(v.dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			return err
		}
		v.names[f.Name()] = info.Size()
	}
	return nil
}

func (v *verification) path(name string) string { return filepath.Join(v.dir, name) }

func (v *verification) exists(name string) bool { _, ok := v.names[name]; return ok }

// sorted returns the names with this extension, oldest first.
func (v *verification) sorted(ext string) []string {
	var names []string
	for name := range v.names {
		if filepath.Ext(name) == ext {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if older(a, b) {
			return -1
		}
		return 1
	})
	return names
}

// number returns the number in the name of a file.
func number(name string) (uint64, error) {
	return strconv.ParseUint(strings.TrimSuffix(name, filepath.Ext(name)), 10, 64)
}

func tableName(id uint64) string { return fmt.Sprintf("%06d.sst", id) }

// keyRegistry checks the list of encryption keys, which must be empty.
func (v *verification) keyRegistry() {
	const name, text = badgerdb.KeyRegistryFileName, "Hello Badger"
	if !v.exists(name) {
		return // it will be recreated
	}
	data, err := os.ReadFile(v.path(name))
	if err != nil || len(data) != 16+len(text) || string(data[16:]) != text {
		v.damages.add(name, "it is damaged; it holds nothing that the store needs: delete this file, and it is recreated")
	}
}

// valueLog determines the lengths of the files of the value log.
func (v *verification) valueLog() {
	names := v.sorted(".vlog")
	for i, name := range names {
		id, err := number(name)
		if err != nil {
			v.damages.add(name, "its name should be a number")
			continue
		}
		v.valueEnds[uint32(id)] = v.names[name]
		if v.names[name] == 0 {
			v.empty = append(v.empty, name)
			continue
		}
		if i < len(names)-1 {
			v.keyless(name)
			continue
		}
		// The library truncates the last file where it cannot read on.
		if end, ok := v.log(name, func(row) {}); ok {
			v.valueEnds[uint32(id)] = end
		}
	}
}

// keyless checks that a log is not encrypted.
func (v *verification) keyless(name string) {
	err := withFile(v.path(name), logHeader, func(data []byte) error {
		if len(data) == logHeader && [8]byte(data) != [8]byte{} {
			return errors.New("its first bytes are damaged")
		}
		return nil
	})
	if err != nil {
		v.damages.add(name, "%v", err)
	}
}

// log visits the rows of a log, and classifies what follows them.
func (v *verification) log(name string, visit func(row)) (end int64, ok bool) {
	v.keyless(name)
	used, size, err := used(v.path(name))
	if err != nil {
		v.damages.add(name, "%v", err)
		return 0, false
	}
	err = withFile(v.path(name), min(size, used+maxLogHead), func(data []byte) error {
		e, rest := scanLog(data, visit)
		end = int64(e)
		switch kind, follow := tailOf(data, rest, int(used)); kind {
		case tailDamaged:
			return fmt.Errorf("the entry at %d is damaged, and %d whole ones follow it", rest, follow)
		case tailHole:
			v.logger.Warn("a log of the store has a hole, as a crash of the machine leaves one; what follows was not on the disk yet and is dropped",
				zap.String("file", v.path(name)), zap.Int("at", rest), zap.Int("entries", follow))
		case tailTorn:
			v.logger.Warn("the last entry in a log of the store was being written in a crash", zap.String("file", v.path(name)), zap.Int("at", rest))
		}
		return nil
	})
	if err != nil {
		v.damages.add(name, "%v", err)
		return 0, false
	}
	return end, true
}

// readRows visits the rows of all listed tables and of the logs.
func (v *verification) readRows(visit func(row)) {
	for id, compression := range v.manifest.tables {
		name := tableName(id)
		if !v.exists(name) {
			v.damages.add(name, "the file is missing, and MANIFEST lists it")
			continue
		}
		if err := readTable(v.path(name), compression, visit, nil); err != nil {
			v.damages.add(name, "%v", err)
		}
	}
	for _, name := range v.sorted(".mem") {
		if v.names[name] == 0 {
			continue // checked by state
		}
		if end, ok := v.log(name, visit); ok {
			v.logEnds[name] = end
		}
	}
}

// readOrphans records the rows of tables that are not listed or were deleted. A table
// that cannot be read was not complete when a crash interrupted it.
func (v *verification) readOrphans() {
	for _, name := range v.sorted(".sst") {
		id, err := number(name)
		if err != nil {
			v.damages.add(name, "its name should be a number")
			continue
		}
		if _, listed := v.manifest.tables[id]; listed || v.manifest.deleted[id] {
			continue
		}
		rows := map[string]*suspect{}
		if err := readUnlisted(v.path(name), func(r row) { note(rows, name, r) }, nil); err != nil {
			continue
		}
		for key, s := range rows {
			if old := v.orphans[key]; old == nil || old.version < s.version {
				v.orphans[key] = s
			}
		}
	}
}

func note(suspects map[string]*suspect, file string, r row) {
	if s := suspects[string(r.key)]; s == nil || s.version < r.version {
		suspects[string(r.key)] = &suspect{version: r.version, gone: r.gone(), file: file}
	}
}

// dangles reports whether the value of a row is missing.
func (v *verification) dangles(r row) bool {
	p, ok := r.pointer()
	if !ok {
		return false
	}
	end, ok := v.valueEnds[p.file]
	return !ok || int64(p.offset)+int64(p.length) > end
}

func (v *verification) visit(r row) {
	if v.dangles(r) {
		if p, _ := r.pointer(); !r.gone() {
			note(v.dangling, fmt.Sprintf("%06d.vlog", p.file), r)
		}
		return
	}
	if len(v.orphans) > 0 {
		v.clear(r)
	}
}

func (v *verification) clear(r row) {
	if v.dangles(r) {
		return
	}
	for _, suspects := range []map[string]*suspect{v.orphans, v.dangling} {
		if s := suspects[string(r.key)]; s != nil {
			s.sound = max(s.sound, r.version)
		}
	}
}

// judge reports the suspects that were not cleared.
func (v *verification) judge() {
	lost := map[string]int{}
	for _, s := range v.orphans {
		if s.sound < s.version && (!s.gone || s.sound > 0) {
			lost[s.file]++
		}
	}
	for file, rows := range lost {
		v.damages.add(badgerdb.ManifestFilename, "it has lost its end: it does not list %s, which has %d rows that are nowhere else", file, rows)
	}
	clear(lost)
	for _, s := range v.dangling {
		if s.sound < s.version {
			lost[s.file]++
		}
	}
	for file, rows := range lost {
		v.damages.add(file, "it is missing or has lost its end: %d rows have their values there", rows)
	}
}
