package badger

import (
	"encoding/binary"
	"time"
)

// Bits of a row's meta byte, the library's.
const (
	bitDelete       = 1 << 0
	bitValuePointer = 1 << 1
	bitTxn          = 1 << 6 // one of several entries of a transaction
	bitFinTxn       = 1 << 7 // the end of a transaction
)

// A row is one version of a key, as the files have it. Its slices are valid
// until the function that it was given to returns.
type row struct {
	key       []byte // the library's, without the version
	version   uint64
	meta      byte
	expiresAt uint64 // in seconds since 1970, or 0
	value     []byte // or a pointer into the value log
}

// splitKey returns a key of the library without its version, and the version.
func splitKey(key []byte) (name []byte, version uint64) {
	at := len(key) - 8
	return key[:at], ^binary.BigEndian.Uint64(key[at:])
}

// gone reports whether the row says that the key is not there.
func (r row) gone() bool {
	return r.meta&bitDelete != 0 || r.expiresAt != 0 && r.expiresAt <= uint64(time.Now().Unix())
}

// A pointer is the place of an entry in the value log.
type pointer struct{ file, length, offset uint32 }

// pointer returns where the value is, if it is in the value log.
func (r row) pointer() (p pointer, ok bool) {
	if r.meta&bitValuePointer == 0 || len(r.value) < 12 {
		return p, false
	}
	// The library writes its memory, on all systems that Go's Badger runs on in
	// this order.
	return pointer{
		binary.NativeEndian.Uint32(r.value), binary.NativeEndian.Uint32(r.value[4:]), binary.NativeEndian.Uint32(r.value[8:]),
	}, true
}
