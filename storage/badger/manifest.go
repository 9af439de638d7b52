package badger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	badgerdb "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/pb"
	"google.golang.org/protobuf/proto"
)

// A manifest is the content of the library's file MANIFEST, which lists the tables. The
// file is a log of changes. Each change is written to disk before files are deleted
// because of it.
type manifest struct {
	tables  map[uint64]options.CompressionType
	deleted map[uint64]bool // tables that existed before
	flushes []int64         // position after each change made by a flushed memtable
	end     int64           // position after the last complete change
	size    int64           // size of the file
}

// readManifest reads a manifest like the library, with the same checks.
func readManifest(path string) (m manifest, err error) {
	f, err := os.Open(path)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return m, err
	}
	m.size = info.Size()
	var known badgerdb.Manifest
	err = guard("reading it", func() error {
		known, m.end, err = badgerdb.ReplayManifestFile(f, 0, badgerdb.DefaultOptions("").WithLogger(nil))
		return err
	})
	if err != nil {
		return m, err
	}
	m.tables = make(map[uint64]options.CompressionType, len(known.Tables))
	for id, t := range known.Tables {
		if t.KeyID != 0 {
			return m, fmt.Errorf("table %d is encrypted, which this store never is", id)
		}
		m.tables[id] = t.Compression
	}
	return m, m.readHistory(f)
}

// readHistory reads the file again for the information that the library does not
// return.
func (m *manifest) readHistory(f *os.File) error {
	data := make([]byte, m.end)
	if _, err := f.ReadAt(data, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	m.deleted = make(map[uint64]bool)
	for at := int64(8); at < m.end; {
		length := int64(binary.BigEndian.Uint32(data[at:]))
		at += 8
		var set pb.ManifestChangeSet
		if err := proto.Unmarshal(data[at:at+length], &set); err != nil {
			return err
		}
		at += length
		for _, c := range set.Changes {
			if c.Op == pb.ManifestChange_DELETE {
				m.deleted[c.Id] = true
			}
		}
		if c := set.Changes; len(c) == 1 && c[0].Op == pb.ManifestChange_CREATE && c[0].Level == 0 {
			m.flushes = append(m.flushes, at)
		}
	}
	return nil
}

// manifestHead returns the checksum of the first change. It identifies a manifest,
// because the library rewrites the file when most of it is obsolete.
func manifestHead(path string) (head uint32, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	buf := make([]byte, 16)
	if _, err := f.ReadAt(buf, 0); err != nil {
		return 0, 0, fmt.Errorf("reading the beginning of %s: %w", path, err)
	}
	return crc32.Checksum(buf, castagnoli), info.Size(), nil
}
