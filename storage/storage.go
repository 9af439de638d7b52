// Package storage is the gateway's state: an ordered, transactional key-value
// [Store] that drivers implement, and typed [Collection]s with indexes on top.
// It knows nothing of what is stored.
//
// Drivers are Caddy guest modules in the namespace gw.storage; storage/badger
// is the default one. Every driver passes the suite in storage/storagetest.
package storage

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

var (
	// ErrNotFound means that no value is stored under a key.
	ErrNotFound = errors.New("not found")

	// ErrExists means that a value of a unique index is taken by another item.
	ErrExists = errors.New("exists already")

	// ErrUnwritable means that the store refuses writes for now (a full disk, a
	// read-only file system) and still serves reads. Errors that wrap it say
	// why and what to do.
	ErrUnwritable = errors.New("the store cannot be written")

	// ErrLocked means that another process holds the store.
	ErrLocked = errors.New("the store is in use by another process")

	// ErrDamaged means that files of the store are missing or damaged. Errors that
	// wrap it name them.
	ErrDamaged = errors.New("the store is damaged")

	// ErrClosed means that the store was closed.
	ErrClosed = errors.New("the store is closed")
)

// A Store is an ordered transactional key-value store. Keys and values are
// bytes; keys are 1 to 1024 bytes long. A Store is safe for concurrent use.
type Store interface {
	// View runs fn in a read-only transaction over a consistent snapshot. It
	// returns fn's error as it is.
	View(ctx context.Context, fn func(Tx) error) error

	// Update runs fn in a serializable transaction and commits it. When it
	// returns nil, what fn wrote is on the disk and survives a crash of the
	// machine; when it returns an error, nothing was written. fn may run more
	// than once: a driver runs it again when the transaction conflicts with
	// another.
	Update(ctx context.Context, fn func(Tx) error) error

	// Write is Update for what may wait for the disk: when it returns nil, what
	// fn wrote survives a crash of the process, though maybe not of the machine.
	Write(ctx context.Context, fn func(Tx) error) error

	// Close flushes and closes the store; after it, every call returns ErrClosed.
	Close() error
}

// A Prober is a [Store] that knows without writing whether it can be written.
type Prober interface {
	// Writable returns an error if the store takes no writes now, which wraps
	// [ErrUnwritable], [ErrDamaged] or [ErrClosed]. It is cheap enough to be asked
	// with each request.
	Writable() error
}

// A Tx is one transaction. It is valid only inside the function it was given
// to, and not for concurrent use.
type Tx interface {
	// Get returns the value of key, or ErrNotFound. The caller may keep it.
	Get(key []byte) ([]byte, error)

	// Set stores value under key.
	Set(key, value []byte) error

	// SetTTL stores value under key until ttl, a positive duration with a
	// resolution of one second, has passed.
	SetTTL(key, value []byte, ttl time.Duration) error

	// Delete removes key; that it did not exist is not an error.
	Delete(key []byte) error

	// Scan iterates over the items whose keys start with prefix, in key order,
	// or in the reverse order. It begins at start where that is not nil (a full
	// key, included). It sees what this transaction wrote. The slices of an
	// item are the caller's to keep. An error ends the iteration.
	Scan(prefix, start []byte, reverse bool) iter.Seq2[Item, error]
}

// An Item is a key and its value.
type Item struct {
	Key, Value []byte
}

// A Backuper is a [Store] that writes backups of itself.
type Backuper interface {
	// Backup writes all rows to w, as they are at one moment, while others read and write. It
	// returns their number.
	Backup(ctx context.Context, w io.Writer) (rows int, err error)
}
