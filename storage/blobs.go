package storage

import (
	"fmt"
	"iter"
	"time"
)

// Blobs is a table of byte strings by id, for what is too large for a JSON row.
type Blobs struct {
	name string
	keys keys
}

// NewBlobs returns the blobs called name. Their names must differ from those of
// collections.
func NewBlobs(name string) *Blobs { return &Blobs{name, newKeys(name)} }

// Get returns the blob with this id, or [ErrNotFound].
func (b *Blobs) Get(tx Tx, id string) ([]byte, error) {
	data, err := tx.Get(b.keys.row(id))
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", b.name, id, err)
	}
	return data, nil
}

// Put stores a blob.
func (b *Blobs) Put(tx Tx, id string, data []byte) error {
	if err := tx.Set(b.keys.row(id), data); err != nil {
		return fmt.Errorf("storing %s %q: %w", b.name, id, err)
	}
	return nil
}

// PutTTL stores a blob that expires after ttl.
func (b *Blobs) PutTTL(tx Tx, id string, data []byte, ttl time.Duration) error {
	if err := tx.SetTTL(b.keys.row(id), data, ttl); err != nil {
		return fmt.Errorf("storing %s %q: %w", b.name, id, err)
	}
	return nil
}

// Delete removes a blob. It is not an error if it does not exist.
func (b *Blobs) Delete(tx Tx, id string) error {
	if err := tx.Delete(b.keys.row(id)); err != nil {
		return fmt.Errorf("deleting %s %q: %w", b.name, id, err)
	}
	return nil
}

// Scan iterates over the blobs of a range. The slices are the caller's to keep. An error
// ends it.
func (b *Blobs) Scan(tx Tx, r Range) iter.Seq2[Blob, error] {
	return func(yield func(Blob, error) bool) {
		var start []byte
		if r.Start != "" {
			start = b.keys.row(r.Start)
		}
		rows := b.keys.row("")
		for item, err := range tx.Scan(b.keys.row(r.Prefix), start, r.Reverse) {
			var blob Blob
			if err == nil {
				blob.Data = item.Value
				blob.ID, err = tail(item.Key, rows)
			}
			if err != nil {
				err = fmt.Errorf("reading %s: %w", b.name, err)
			}
			if !yield(blob, err) || err != nil {
				return
			}
		}
	}
}

// A Blob is a byte string and its id.
type Blob struct {
	ID   string
	Data []byte
}
