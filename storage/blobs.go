package storage

import (
	"fmt"
	"time"
)

// Blobs is a table of bytes under ids, for what is too large to be a row of JSON.
type Blobs struct {
	name string
	keys keys
}

// NewBlobs returns the blobs called name. It shares its names with collections.
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

// PutTTL stores a blob, which disappears when ttl has passed.
func (b *Blobs) PutTTL(tx Tx, id string, data []byte, ttl time.Duration) error {
	if err := tx.SetTTL(b.keys.row(id), data, ttl); err != nil {
		return fmt.Errorf("storing %s %q: %w", b.name, id, err)
	}
	return nil
}

// Delete removes a blob; that it does not exist is no error.
func (b *Blobs) Delete(tx Tx, id string) error {
	if err := tx.Delete(b.keys.row(id)); err != nil {
		return fmt.Errorf("deleting %s %q: %w", b.name, id, err)
	}
	return nil
}
