package badger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"
)

// logOf returns a log with n rows, each in its own transaction, the positions where the
// entries begin, and the position where the last one ends.
func logOf(n, valueSize int) (data []byte, starts []int, end int) {
	data = make([]byte, logHeader)
	entry := func(meta byte, key, value []byte) {
		starts = append(starts, len(data))
		e := []byte{meta, 0}
		e = binary.AppendUvarint(e, uint64(len(key)))
		e = binary.AppendUvarint(e, uint64(len(value)))
		e = binary.AppendUvarint(e, 0)
		e = append(append(e, key...), value...)
		data = append(data, binary.BigEndian.AppendUint32(e, crc32.Checksum(e, castagnoli))...)
	}
	for version := uint64(1); version <= uint64(n); version++ {
		key := func(name string) []byte { return binary.BigEndian.AppendUint64([]byte(name), ^version) }
		entry(bitTxn, key(fmt.Sprint("dkey", version)), bytes.Repeat([]byte("v"), valueSize))
		entry(bitFinTxn, key("!badger!txn"), fmt.Append(nil, version))
	}
	return append(data, make([]byte, 2*pageSize)...), starts, len(data)
}

func judged(data []byte) (rows int, kind tail) {
	used := len(bytes.TrimRight(data, "\x00"))
	_, rest := scanLog(data, func(row) { rows++ })
	kind, _ = tailOf(data, rest, used)
	return rows, kind
}

func TestTailOfALog(t *testing.T) {
	const size = 3 * pageSize
	log, starts, end := logOf(4, size)
	last := starts[len(starts)-2]
	zero := func(from, to int) func([]byte) {
		return func(data []byte) { clear(data[from:to]) }
	}
	for name, test := range map[string]struct {
		change func([]byte)
		rows   int
		kind   tail
	}{
		"whole":                                {func([]byte) {}, 4, tailClean},
		"ends after an entry of a transaction": {zero(starts[7], end), 3, tailClean},
		"ends within an entry":                 {zero(last+1000, end), 3, tailTorn},
		"ends within the lengths":              {zero(last+4, end), 3, tailTorn},
		"ends before the last byte":            {zero(end-1, end), 3, tailTorn},
		"a gap in the last entry":              {func(b []byte) { clear(b[last+1000 : last+1100]); clear(b[starts[7]:]) }, 3, tailTorn},
		"both ends of the last entry missing":  {func(b []byte) { clear(b[last : last+5]); clear(b[last+2000:]) }, 3, tailTorn},
		"the last begins at the next page":     {func(b []byte) { clear(b[last:]); b[(last/pageSize+1)*pageSize] = 1 }, 3, tailTorn},
		"a missing page, and entries behind":   {zero(starts[2]/pageSize*pageSize+pageSize, starts[2]/pageSize*pageSize+2*pageSize), 1, tailHole},
		"a flip, and entries behind":           {func(b []byte) { b[starts[2]+1000] ^= 1 }, 1, tailDamaged},
		"a flip in the last value":             {func(b []byte) { b[last+1000] ^= 1 }, 3, tailDamaged},
		"a flip in the last checksum":          {func(b []byte) { b[end-2] ^= 16 }, 3, tailDamaged},
	} {
		data := slices.Clone(log)
		test.change(data)
		if rows, kind := judged(data); rows != test.rows || kind != test.kind {
			t.Errorf("%s: %d rows, tail %d; want %d, tail %d", name, rows, kind, test.rows, test.kind)
		}
	}
}

// A flipped bit is never mistaken for the result of a crash.
func TestEveryFlipInALogIsFound(t *testing.T) {
	log, starts, end := logOf(3, 50)
	for bit := 8 * starts[0]; bit < 8*end; bit++ {
		log[bit/8] ^= 1 << (bit % 8)
		if rows, kind := judged(log); kind != tailDamaged {
			t.Errorf("bit %d of byte %d (of %d, entries begin at %v): %d rows, tail %d", bit%8, bit/8, end, starts, rows, kind)
		}
		log[bit/8] ^= 1 << (bit % 8)
	}
}

func FuzzLog(f *testing.F) {
	log, _, end := logOf(2, 20)
	f.Add(log)
	f.Add(log[:end-3])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		used := len(bytes.TrimRight(data, "\x00"))
		last := 0
		end, rest := scanLog(data, func(row) { last++ })
		if end > rest || rest > len(data) {
			t.Errorf("end %d, rest %d of %d", end, rest, len(data))
		}
		tailOf(data, rest, used)
		_ = salvageLog(data, used, func(row) {})
	})
}
