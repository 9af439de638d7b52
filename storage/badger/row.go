package badger

import (
	"encoding/binary"
	"time"
)

// Bits of a row's meta byte, as defined by the library.
const (
	bitDelete       = 1 << 0
	bitValuePointer = 1 << 1
	bitTxn          = 1 << 6 // part of a transaction with several entries
	bitFinTxn       = 1 << 7 // end of a transaction
)

// A row is a version of a key in the files. Its slices are only valid until the
// function that it was passed to returns.
type row struct {
	key       []byte // in the library's form, without the version
	version   uint64
	meta      byte
	expiresAt uint64 // in seconds since 1970, or 0
	value     []byte // or a pointer into the value log
}

// splitKey splits one of the library's keys into the key without its version, and the
// version.
func splitKey(key []byte) (name []byte, version uint64) {
	at := len(key) - 8
	return key[:at], ^binary.BigEndian.Uint64(key[at:])
}

// gone reports whether the row is a deletion or has expired.
func (r row) gone() bool {
	return r.meta&bitDelete != 0 || r.expiresAt != 0 && r.expiresAt <= uint64(time.Now().Unix())
}

// A pointer is the position of an entry in the value log.
type pointer struct{ file, length, offset uint32 }

// pointer returns the position of the value, if it is in the value log.
func (r row) pointer() (p pointer, ok bool) {
	if r.meta&bitValuePointer == 0 || len(r.value) < 12 {
		return p, false
	}
	// The library writes the struct as it is in memory, in little-endian order on all
	// systems that it supports.
	return pointer{
		binary.NativeEndian.Uint32(r.value), binary.NativeEndian.Uint32(r.value[4:]), binary.NativeEndian.Uint32(r.value[8:]),
	}, true
}
