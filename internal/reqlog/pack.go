package reqlog

import (
	"errors"
	"fmt"
	"slices"

	"github.com/klauspost/compress/s2"
)

// packed is the first byte of a compressed row. Uncompressed rows, which earlier versions
// wrote, start with the brace of their first line.
const packed = 's'

// maxRow bounds the size of a row, in bytes, since a single record may be large.
const maxRow = 32 << 20

// pack appends a compressed row. What the better encoder gains is 2 percent of a row, for tables
// of half a megabyte that every other collection of garbage takes away.
func pack(to, row []byte) ([]byte, error) {
	if len(row) > maxRow {
		return nil, fmt.Errorf("a row of %d bytes: expected at most %d", len(row), maxRow)
	}
	to = append(to, packed)
	at := len(to)
	if most := at + s2.MaxEncodedLen(len(row)); cap(to) < most {
		to = append(make([]byte, 0, most), to...)
	}
	return to[:at+len(s2.Encode(to[at:cap(to)], row))], nil
}

// unpack appends the original of a stored row.
func unpack(to, stored []byte) ([]byte, error) {
	if len(stored) == 0 || stored[0] != packed {
		return append(to, stored...), nil
	}
	stored = stored[1:]
	n, err := s2.DecodedLen(stored)
	if err == nil && n > maxRow {
		err = errors.New("it is too long")
	}
	if err != nil {
		return nil, fmt.Errorf("reading a row of records: %w", err)
	}
	at := len(to)
	to = slices.Grow(to, n)[:at+n]
	if _, err := s2.Decode(to[at:], stored); err != nil {
		return nil, fmt.Errorf("reading a row of records: %w", err)
	}
	return to, nil
}
