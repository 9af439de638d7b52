package badger

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/y"
	"github.com/klauspost/compress/snappy"
	"google.golang.org/protobuf/proto"
)

// tableIndex returns the index of a table after checking it.
//
//	blocks | index | its length | its checksum | the length of that
//
// The library ends the process if these do not match the file.
func tableIndex(data []byte) ([]byte, error) {
	at := len(data)
	field := func() ([]byte, error) {
		if at -= 4; at < 0 {
			return nil, errors.New("it has lost its end")
		}
		length := int64(binary.BigEndian.Uint32(data[at:]))
		if length > int64(at) {
			return nil, errors.New("it has lost its end, or is damaged there")
		}
		end := at
		at -= int(length)
		return data[at:end], nil
	}
	sum, err := field()
	if err != nil {
		return nil, err
	}
	var want pb.Checksum
	if err := proto.Unmarshal(sum, &want); err != nil {
		return nil, errors.New("it has lost its end, or is damaged there")
	}
	index, err := field()
	if err != nil {
		return nil, err
	}
	if err := y.VerifyChecksum(index, &want); err != nil {
		return nil, fmt.Errorf("its index is damaged: %w", err)
	}
	return index, nil
}

// readTable visits and checks all rows of a table file. If lost is not nil, it is
// called with the problem of each block that cannot be read, and reading continues
// after it.
func readTable(path string, compression options.CompressionType, visit func(row), lost func(error)) error {
	return withFile(path, -1, func(data []byte) error {
		index, err := tableIndex(data)
		if err != nil {
			return err
		}
		var (
			blocks = fb.GetRootAsTableIndex(index, 0)
			reader = blockReader{compression: compression}
			place  fb.BlockOffset
			count  uint32
		)
		for i := range blocks.OffsetsLength() {
			if !blocks.Offsets(&place, i) {
				return fmt.Errorf("its index has no block %d", i)
			}
			start, length := int64(place.Offset()), int64(place.Len())
			err := errors.New("it lies outside the file")
			if start+length <= int64(len(data)) {
				err = guard("decoding it", func() error {
					return reader.read(data[start:start+length], func(r row) { count++; visit(r) })
				})
			}
			if err != nil {
				err = fmt.Errorf("the block of %d bytes at %d is damaged: %w", length, start, err)
				if lost == nil {
					return err
				}
				lost(err)
			}
		}
		if lost == nil && count != blocks.KeyCount() {
			return fmt.Errorf("it has %d rows and should have %d", count, blocks.KeyCount())
		}
		return nil
	})
}

// A blockReader reads blocks of a table. Its buffers are reused for the next block.
//
//	entries | where each begins | how many | checksum | the length of that
//
// An entry is the length of the common prefix of its key and the first key of the
// block, the length of the rest of its key, that rest, and the value.
type blockReader struct {
	compression options.CompressionType
	data, key   []byte
}

func (b *blockReader) read(data []byte, visit func(row)) (err error) {
	switch b.compression {
	case options.None:
	case options.Snappy:
		b.data, err = snappy.Decode(b.data[:cap(b.data)], data)
		data = b.data
	case options.ZSTD:
		b.data, err = y.ZSTDDecompress(b.data[:cap(b.data)], data)
		data = b.data
	default:
		err = fmt.Errorf("unknown compression %d", b.compression)
	}
	if err != nil {
		return err
	}
	// Invalid offsets panic, see readTable.
	at := len(data) - 4
	sumAt := at - int(binary.BigEndian.Uint32(data[at:]))
	var want pb.Checksum
	if err := proto.Unmarshal(data[sumAt:at], &want); err != nil {
		return err
	}
	data = data[:sumAt]
	if err := y.VerifyChecksum(data, &want); err != nil {
		return err
	}
	at = len(data) - 4
	count := int(binary.BigEndian.Uint32(data[at:]))
	offsets := data[at-4*count : at]
	data = data[:at-4*count]
	offset := func(i int) int {
		if i == count {
			return len(data)
		}
		return int(binary.NativeEndian.Uint32(offsets[4*i:]))
	}
	for i := range count {
		entry := data[offset(i):offset(i+1)]
		common, rest := binary.NativeEndian.Uint16(entry), binary.NativeEndian.Uint16(entry[2:])
		entry = entry[4:]
		first := data[4 : 4+binary.NativeEndian.Uint16(data[2:])]
		b.key = append(append(b.key[:0], first[:common]...), entry[:rest]...)
		entry = entry[rest:]
		expiresAt, n := binary.Uvarint(entry[2:])
		name, version := splitKey(b.key)
		visit(row{key: name, version: version, meta: entry[0], expiresAt: expiresAt, value: entry[2+n:]})
	}
	return nil
}

// readUnlisted is like readTable, for a table whose compression is not known.
func readUnlisted(path string, visit func(row), lost func(error)) error {
	var err error
	for _, compression := range []options.CompressionType{options.Snappy, options.ZSTD, options.None} {
		found := false
		err = readTable(path, compression, func(row) { found = true }, func(error) {})
		if err != nil {
			return err
		}
		if found {
			return readTable(path, compression, visit, lost)
		}
	}
	return errors.New("none of its blocks can be read")
}
