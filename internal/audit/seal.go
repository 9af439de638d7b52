package audit

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/caddy-gw/gateway/storage"
)

// A Key seals rows. It is not in the store.
type Key struct {
	secret []byte
	id     keyID
}

// A keyID tells keys apart without giving them away.
type keyID [8]byte

func (id keyID) String() string { return hex.EncodeToString(id[:]) }

// NewKey returns the key for a secret, such as the contents of a key file.
func NewKey(secret string) (Key, error) {
	derived, err := hkdf.Key(sha256.New, []byte(secret), nil, "gw audit key", sha256.Size)
	if err != nil {
		return Key{}, err
	}
	k := Key{secret: derived}
	id := k.seal("key id")
	copy(k.id[:], id[:])
	return k, nil
}

// String returns the id of the key, which can be shown to anyone.
func (k Key) String() string { return k.id.String() }

// A seal is an HMAC-SHA256.
type seal [sha256.Size]byte

func (s seal) String() string { return hex.EncodeToString(s[:]) }

func (s seal) equal(other seal) bool { return hmac.Equal(s[:], other[:]) }

// seal returns the seal of some parts for a purpose.
func (k Key) seal(purpose string, parts ...[]byte) (s seal) {
	mac := hmac.New(sha256.New, k.secret)
	for _, part := range append([][]byte{[]byte(purpose)}, parts...) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		mac.Write(size[:])
		mac.Write(part)
	}
	mac.Sum(s[:0])
	return s
}

// A row is a record with its seal, as it is stored: the id of the key, the seal, and the
// record as JSON.
type row struct {
	number uint64
	key    keyID
	seal   seal
	text   []byte
}

const rowHeader = len(keyID{}) + len(seal{})

// sealRow seals the record with a number, which follows the row with the seal before.
func (k Key) sealRow(number uint64, before seal, text []byte) row {
	return row{number, k.id, k.seal("row", []byte(numbered(number)), before[:], text), text}
}

func (r *row) encode() []byte {
	data := make([]byte, 0, rowHeader+len(r.text))
	data = append(data, r.key[:]...)
	data = append(data, r.seal[:]...)
	return append(data, r.text...)
}

func decodeRow(b storage.Blob) (*row, error) {
	if len(b.ID) != 8 || len(b.Data) < rowHeader {
		return nil, fmt.Errorf("an audit row is cut off: %w", errAltered)
	}
	r := &row{number: number(b.ID), text: b.Data[rowHeader:]}
	copy(r.key[:], b.Data)
	copy(r.seal[:], b.Data[len(keyID{}):])
	return r, nil
}

// record decodes the record of a row.
func (r *row) record() (*Record, error) {
	record := new(Record)
	if err := json.Unmarshal(r.text, record); err != nil {
		return nil, fmt.Errorf("audit row %d: %w", r.number, err)
	}
	return record, nil
}

var errAltered = errors.New("the audit trail was altered; caddy gw audit verify says where")

// numbered is the id of the row with a number, so that ids are ordered like numbers.
func numbered(n uint64) string {
	var id [8]byte
	binary.BigEndian.PutUint64(id[:], n)
	return string(id[:])
}

func number(id string) uint64 { return binary.BigEndian.Uint64([]byte(id)) }

// The marks of a trail, by their ids.
const (
	markHead    = "head"    // the last row
	markCut     = "cut"     // the last of the rows that were removed because of their age
	markChecked = "checked" // the last row that a checkpoint logged
	markSent    = "sent"    // the last row that the sink has
)

// A mark refers to a row. It is stored with a seal of its own.
type mark struct {
	number uint64 // 0: none
	seal   seal   // of the row
	key    keyID  // of the seal of the mark
	at     time.Time
}

const markSize = 8 + len(seal{}) + len(keyID{}) + 8

func (m *mark) encode() []byte {
	data := make([]byte, 0, markSize+len(seal{}))
	data = binary.BigEndian.AppendUint64(data, m.number)
	data = append(data, m.seal[:]...)
	data = append(data, m.key[:]...)
	return binary.BigEndian.AppendUint64(data, uint64(m.at.UnixNano()))
}

func (t *Trail) putMark(tx storage.Tx, id string, m mark) error {
	m.key = t.key.id
	data := m.encode()
	s := t.key.seal(id, data)
	return t.marks.Put(tx, id, append(data, s[:]...))
}

// mark returns a mark, or the zero mark if there is none. It does not check its seal, which
// Verify does.
func (t *Trail) mark(tx storage.Tx, id string) (mark, error) {
	m, _, _, err := t.readMark(tx, id)
	return m, err
}

func (t *Trail) readMark(tx storage.Tx, id string) (m mark, sealed seal, there bool, err error) {
	data, err := t.marks.Get(tx, id)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return m, sealed, false, nil
	case err != nil:
		return m, sealed, false, err
	case len(data) != markSize+len(seal{}):
		return m, sealed, true, fmt.Errorf("the audit mark %s has %d bytes: %w", id, len(data), errAltered)
	}
	m.number = binary.BigEndian.Uint64(data)
	copy(m.seal[:], data[8:])
	copy(m.key[:], data[8+len(seal{}):])
	m.at = time.Unix(0, int64(binary.BigEndian.Uint64(data[markSize-8:]))).UTC()
	copy(sealed[:], data[markSize:])
	return m, sealed, true, nil
}

// head returns the mark of the last row. If the mark is gone, it is made from the last row,
// so that the trail goes on; Verify reports it.
func (t *Trail) head(tx storage.Tx) (mark, error) {
	m, err := t.mark(tx, markHead)
	if err != nil || m.number > 0 {
		return m, err
	}
	for blob, err := range t.rows.Scan(tx, storage.Range{Reverse: true}) {
		if err != nil {
			return m, err
		}
		last, err := decodeRow(blob)
		if err != nil {
			return m, err
		}
		r, err := last.record()
		if err != nil {
			return m, err
		}
		return mark{number: last.number, seal: last.seal, key: last.key, at: r.At}, nil
	}
	return t.mark(tx, markCut)
}
