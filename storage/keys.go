package storage

import (
	"bytes"
	"fmt"
)

// The keys of a collection, where a part is encoded by [appendPart] and a tail
// is the raw bytes at the end of a key:
//
//	part(name) 'r' tail(id)                            a row -> its JSON
//	part(name) 'u' part(index) tail(value)             a unique index -> the id
//	part(name) 'c' part(index) tail(value)             a counted index -> how many rows, in decimal
//	part(name) 'n' tail(index)                         such an index -> which values are counted, see count.go
//	part(name) 'i' part(index) part(value) tail(id)    any other index -> nothing
//
// No name, index, value or id, whatever its bytes, makes a key of another one,
// and ids keep their byte order.
const (
	kindRow     = 'r'
	kindUnique  = 'u'
	kindCount   = 'c'
	kindCounted = 'n'
	kindIndex   = 'i'
)

// maxKey is how long keys of a [Store] are, in bytes.
const maxKey = 1024

// appendPart encodes s so that no encoding is a prefix of another, and that the order of
// encodings is that of the strings: a zero byte becomes 00 ff, and 00 01 ends the part.
func appendPart(key []byte, s string) []byte {
	for i := range len(s) {
		key = append(key, s[i])
		if s[i] == 0 {
			key = append(key, 0xff)
		}
	}
	return append(key, 0, 1)
}

// keys builds the keys of one collection.
type keys struct{ name []byte }

func newKeys(name string) keys { return keys{appendPart(nil, name)} }

// with starts a key with room for the length of what follows.
func (k keys) with(kind byte, room int) []byte {
	key := make([]byte, 0, len(k.name)+1+room)
	return append(append(key, k.name...), kind)
}

// row returns the key of the row with this id; of an empty id, it is the prefix
// of all rows.
func (k keys) row(id string) []byte {
	return append(k.with(kindRow, len(id)), id...)
}

func (k keys) unique(index, value string) []byte {
	key := appendPart(k.with(kindUnique, len(index)+len(value)+2), index)
	return append(key, value...)
}

func (k keys) count(index, value string) []byte {
	key := appendPart(k.with(kindCount, len(index)+len(value)+2), index)
	return append(key, value...)
}

func (k keys) counted(index string) []byte {
	return append(k.with(kindCounted, len(index)), index...)
}

// entry returns the key of an entry of an index; of an empty id, it is the
// prefix of all entries of the value.
func (k keys) entry(index, value, id string) []byte {
	key := appendPart(k.with(kindIndex, len(index)+len(value)+len(id)+4), index)
	return append(appendPart(key, value), id...)
}

// tail returns what follows prefix in key.
func tail(key, prefix []byte) (string, error) {
	rest, ok := bytes.CutPrefix(key, prefix)
	if !ok {
		return "", fmt.Errorf("scan of %q returned the key %q", prefix, key)
	}
	return string(rest), nil
}
