package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/bits"
	"strconv"

	"github.com/caddy-gw/gateway/storage"
)

// perBlock is the number of rows that a posting is about.
const perBlock = 1024

// A set says which rows of a block have a value.
type set [perBlock / 64]uint64

const setSize = perBlock / 8

func (s *set) put(i int, in bool) {
	if s[i/64] &^= 1 << (i % 64); in {
		s[i/64] |= 1 << (i % 64)
	}
}

func (s *set) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }

func (s *set) count() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// only drops what is not in other.
func (s *set) only(other *set) {
	for i := range s {
		s[i] &= other[i]
	}
}

// between drops what is before from, or after to.
func (s *set) between(from, to int) {
	for i := range perBlock {
		if i < from || i > to {
			s.put(i, false)
		}
	}
}

// encode returns the rows as two bytes each if they are few, and otherwise a bit each.
func (s *set) encode() []byte {
	if n := s.count(); 2*n < setSize {
		data := make([]byte, 0, 2*n)
		for i := range perBlock {
			if s.has(i) {
				data = binary.BigEndian.AppendUint16(data, uint16(i))
			}
		}
		return data
	}
	data := make([]byte, 0, setSize)
	for _, w := range s {
		data = binary.BigEndian.AppendUint64(data, w)
	}
	return data
}

func decodeSet(data []byte) (s set, err error) {
	if len(data) == setSize {
		for i := range s {
			s[i] = binary.BigEndian.Uint64(data[8*i:])
		}
		return s, nil
	}
	if len(data)%2 != 0 || len(data) > setSize {
		return s, errAltered
	}
	for ; len(data) > 0; data = data[2:] {
		i := int(binary.BigEndian.Uint16(data))
		if i >= perBlock {
			return s, errAltered
		}
		s.put(i, true)
	}
	return s, nil
}

// A term is a value of a field by which rows are found.
type term struct{ field, value string }

// prefix is the beginning of the ids of a term's postings; the number of a block follows.
// Values may be long, so that it has a digest of them.
func (t term) prefix() string {
	sum := sha256.Sum256([]byte(t.value))
	return t.field + "\x00" + string(sum[:16])
}

func (t term) posting(block uint64) string { return t.prefix() + numbered(block) }

// terms are those by which a record is found.
func (r *Record) terms() []term {
	resource, action := r.ResourceType()
	var all []term
	for _, one := range []term{
		{"action", action},
		{"country", r.Country},
		{"ip", r.IP},
		{"method", r.Method},
		{"path", r.Path},
		{"request", r.RequestID},
		{"resource", resource},
		{"status", strconv.Itoa(r.Status)},
		{"type", string(r.Actor())},
		{"who", r.KeyID},
		{"workspace", r.WorkspaceID},
	} {
		if one.value != "" {
			all = append(all, one)
		}
	}
	if r.UserID != "" && r.UserID != r.KeyID {
		all = append(all, term{"who", r.UserID})
	}
	if r.ResourceID != "" {
		all = append(all, term{"id", r.ResourceID})
	}
	return all
}

func blockOf(number uint64) (block uint64, i int) { return number / perBlock, int(number % perBlock) }

// post puts a record into the postings of its terms, or takes it out of them.
func (t *Trail) post(tx storage.Tx, r *Record, in bool) error {
	block, i := blockOf(r.Number)
	for _, one := range r.terms() {
		s, err := t.posting(tx, one.posting(block))
		if err != nil {
			return err
		}
		if s.put(i, in); s == (set{}) {
			err = t.postings.Delete(tx, one.posting(block))
		} else {
			err = t.postings.Put(tx, one.posting(block), s.encode())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *Trail) posting(tx storage.Tx, id string) (set, error) {
	data, err := t.postings.Get(tx, id)
	if errors.Is(err, storage.ErrNotFound) {
		return set{}, nil
	}
	if err != nil {
		return set{}, err
	}
	return decodeSet(data)
}
