package storage

import (
	"fmt"
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
