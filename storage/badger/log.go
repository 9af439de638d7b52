package badger

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strconv"
)

// The logs of memtables and the files of the value log are preallocated with zeros and
// filled from the beginning:
//
//	the id of an encryption key (0) and a nonce, 20 bytes | entries | zeros
//
// The library reads a file up to the first entry with a wrong checksum and truncates it
// there. That is correct for a log whose last entry was being written during a crash,
// but if a byte is damaged, it loses everything that follows.

const (
	logHeader  = 20
	pageSize   = 4096 // minimum of file systems and memory
	maxLogKey  = 1 << 16
	maxLogHead = 22 // bytes before the key
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A logEntry is an entry of a log.
type logEntry struct {
	meta       byte
	expiresAt  uint64
	key, value []byte // key with its version
	size       int    // in the log
}

// parseEntry returns the entry at the beginning of data. If it is incomplete, it
// returns the size that the entry appears to have, or 0.
func parseEntry(data []byte) (e logEntry, ok bool) {
	if len(data) < 2 {
		return e, false
	}
	at := 2
	var fields [3]uint64
	for i := range fields {
		v, n := binary.Uvarint(data[at:])
		if n <= 0 {
			return e, false
		}
		fields[i], at = v, at+n
	}
	keyLen, valueLen := fields[0], fields[1]
	if keyLen < 8 || keyLen > maxLogKey || valueLen > 1<<31 {
		return e, false
	}
	end := at + int(keyLen) + int(valueLen)
	e = logEntry{meta: data[0], expiresAt: fields[2], size: end + crc32.Size}
	if e.size > len(data) || crc32.Checksum(data[:end], castagnoli) != binary.BigEndian.Uint32(data[end:]) {
		return e, false
	}
	e.key, e.value = data[at:at+int(keyLen)], data[at+int(keyLen):end]
	return e, true
}

func (e logEntry) row() row {
	name, version := splitKey(e.key)
	return row{key: name, version: version, meta: e.meta &^ (bitTxn | bitFinTxn), expiresAt: e.expiresAt, value: e.value}
}

// scanLog visits the rows of the complete transactions at the beginning of a log, like
// the library. end is the position after the last of them, and rest that after the last
// complete entry, which may be part of an incomplete transaction.
func scanLog(data []byte, visit func(row)) (end, rest int) {
	return scanLogFrom(data, min(logHeader, len(data)), visit)
}

// scanLogFrom is like scanLog, starting at the beginning of a transaction.
func scanLogFrom(data []byte, at int, visit func(row)) (end, rest int) {
	var (
		version uint64 // of the current transaction, or 0
		begun   []row
	)
	end = at
	for {
		e, ok := parseEntry(data[at:])
		if !ok {
			return end, at
		}
		r := e.row()
		switch {
		case e.meta&bitTxn != 0:
			if version != 0 && version != r.version {
				return end, at
			}
			version = r.version
			begun = append(begun, r)
		case e.meta&bitFinTxn != 0:
			ends, err := strconv.ParseUint(string(e.value), 10, 64)
			if err != nil || ends != version {
				return end, at
			}
			for _, r := range begun {
				visit(r)
			}
			version, begun = 0, begun[:0]
			end = at + e.size
		default:
			if version != 0 {
				return end, at
			}
			visit(r)
			end = at + e.size
		}
		at += e.size
	}
}

// A tail is what follows the last complete entry of a log.
type tail int

const (
	// tailClean: nothing follows.
	tailClean tail = iota
	// tailTorn: the beginning of an entry whose write was interrupted by a crash.
	tailTorn
	// tailHole: a page that had not been written to disk when the machine crashed,
	// followed by entries. None of them had been confirmed, because a sync includes
	// everything before it.
	tailHole
	// tailDamaged: anything else.
	tailDamaged
)

// tailOf classifies what follows rest in a log with used bytes before the zeros at its
// end. follow is the number of complete entries there.
func tailOf(data []byte, rest, used int) (kind tail, follow int) {
	if rest >= used {
		return tailClean, 0
	}
	next := -1
	for at := rest + 1; at < used; {
		if e, ok := parseEntry(data[at:]); ok && plausible(e) {
			if next < 0 {
				next = at
			}
			follow++
			at += e.size
			continue
		}
		at++
	}
	if next >= 0 {
		if hasHole(data, rest, next) {
			return tailHole, follow
		}
		return tailDamaged, follow
	}
	if unwritten(data, rest, used) {
		return tailTorn, 0
	}
	e, _ := parseEntry(data[rest:])
	if (e.size > used-rest || used-rest < maxLogHead) && !flipped(data[rest:]) {
		return tailTorn, 0
	}
	return tailDamaged, 0
}

// unwritten reports whether a part of the last entry is still zero. That part is not
// necessarily its end: a process is killed where it touches a new page, and Go copies
// the middle of large values first, starting at an aligned address, and then both ends.
func unwritten(data []byte, rest, used int) bool {
	const run = 32 // bytes that are copied at once
	entry := data[rest:used]
	head := min(3, pageSize-rest%pageSize, len(entry)) // no entry begins with three zeros
	return bytes.Contains(entry, make([]byte, run)) || len(bytes.TrimLeft(entry[:head], "\x00")) == 0
}

// plausible distinguishes an entry from bytes that look like one by chance.
func plausible(e logEntry) bool {
	return e.key[0] == keyPrefix || bytes.HasPrefix(e.key, []byte("!badger!"))
}

// hasHole reports whether there is an empty page between two positions in a log. The
// first page may begin at from.
func hasHole(data []byte, from, to int) bool {
	for page := from / pageSize * pageSize; page < to; page += pageSize {
		part := data[max(page, from):min(page+pageSize, len(data))]
		if page+pageSize <= to && len(bytes.TrimLeft(part, "\x00")) == 0 {
			return true
		}
	}
	return false
}

// flipped reports whether data begins with an entry that appears to extend beyond the
// end because one bit of its lengths is wrong.
func flipped(data []byte) bool {
	data = bytes.Clone(data)
	for bit := range 8 * min(len(data), maxLogHead) {
		data[bit/8] ^= 1 << (bit % 8)
		if e, ok := parseEntry(data); ok && plausible(e) {
			return true
		}
		data[bit/8] ^= 1 << (bit % 8)
	}
	return false
}
