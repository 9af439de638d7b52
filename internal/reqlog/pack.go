package reqlog

import (
	"errors"
	"fmt"

	"github.com/klauspost/compress/s2"
)

// packed is the first byte of a row that is compressed. Rows that are not, which earlier
// builds wrote, begin with the brace of their first line.
const packed = 's'

// maxRow is the most that a row has, in bytes: a single record may be long.
const maxRow = 32 << 20

// pack compresses a row, and puts it behind what is in to.
func pack(to, row []byte) ([]byte, error) {
	if len(row) > maxRow {
		return nil, fmt.Errorf("a row of %d bytes: expected at most %d", len(row), maxRow)
	}
	to = append(to, packed)
	at := len(to)
	if most := at + s2.MaxEncodedLen(len(row)); cap(to) < most {
		to = append(make([]byte, 0, most), to...)
	}
	return to[:at+len(s2.EncodeBetter(to[at:cap(to)], row))], nil
}

// unpack is the row that was stored.
func unpack(stored []byte) ([]byte, error) {
	if len(stored) == 0 || stored[0] != packed {
		return stored, nil
	}
	stored = stored[1:]
	n, err := s2.DecodedLen(stored)
	if err == nil && n > maxRow {
		err = errors.New("it is too long")
	}
	if err != nil {
		return nil, fmt.Errorf("reading a row of records: %w", err)
	}
	row, err := s2.Decode(nil, stored)
	if err != nil {
		return nil, fmt.Errorf("reading a row of records: %w", err)
	}
	return row, nil
}
