package badger

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"

	"github.com/caddy-gw/gateway/storage"
)

const (
	// maxKey is the maximum length of a key, in bytes.
	maxKey = 1024

	// keyPrefix is the first byte of all keys in the database, because the library
	// reserves keys that begin with "!badger!" and our keys may be any bytes.
	keyPrefix = 'd'
)

var (
	// ErrTooBig means that a transaction writes more than the store can write at once.
	// Errors that wrap it include the limit.
	ErrTooBig = errors.New("the transaction is too big")

	errDone     = errors.New("the transaction has ended")
	errReadOnly = errors.New("the transaction is read-only")
)

// tx is a storage.Tx.
type tx struct {
	ctx   context.Context
	txn   *badgerdb.Txn
	write bool
	done  bool

	keys  [][]byte // written, in the library's form
	bytes int      // written, keys and values
	stale int      // of them, what makes garbage of the value log: its values, and keys that are deleted
	spans []span   // scanned, if write
	err   error    // the first failed write, after which the transaction must not be committed
}

func keyOf(key []byte) []byte {
	k := make([]byte, 1, 1+len(key))
	k[0] = keyPrefix
	return append(k, key...)
}

func (t *tx) Get(key []byte) ([]byte, error) {
	if t.done {
		return nil, errDone
	}
	if err := checkKey(key); err != nil {
		return nil, err
	}
	var value []byte
	err := guardRead(key, func() error {
		item, err := t.txn.Get(keyOf(key))
		if err == nil {
			value, err = valueOf(item)
		}
		return err
	})
	if err != nil {
		return nil, translate(err)
	}
	return value, nil
}

func (t *tx) Set(key, value []byte) error {
	return t.set(key, func(k []byte) *badgerdb.Entry {
		return badgerdb.NewEntry(k, slices.Clone(value))
	})
}

func (t *tx) SetTTL(key, value []byte, ttl time.Duration) error {
	if ttl <= 0 {
		return fmt.Errorf("storing for %s: the time to live must be positive", ttl)
	}
	return t.set(key, func(k []byte) *badgerdb.Entry {
		e := badgerdb.NewEntry(k, slices.Clone(value))
		// The library counts in seconds. Round up, so that keys never expire early.
		e.ExpiresAt = uint64(time.Now().Add(ttl + time.Second - 1).Unix())
		return e
	})
}

func (t *tx) Delete(key []byte) error {
	return t.set(key, nil)
}

// set writes the entry for a key, or a deletion.
func (t *tx) set(key []byte, entry func([]byte) *badgerdb.Entry) error {
	switch {
	case t.done:
		return errDone
	case !t.write:
		return errReadOnly
	}
	err := checkKey(key)
	if err == nil {
		k := keyOf(key)
		t.keys = append(t.keys, k)
		t.bytes += len(k)
		if entry == nil {
			err = t.txn.Delete(k)
			t.stale += len(k)
		} else {
			e := entry(k)
			if t.bytes += len(e.Value); t.bytes > maxTx {
				err = badgerdb.ErrTxnTooBig
			} else {
				err = t.txn.SetEntry(e)
			}
			if len(e.Value) >= valueThreshold {
				t.stale += len(e.Value)
			}
		}
		err = translate(err)
	}
	if err != nil && t.err == nil {
		t.err = err
	}
	return err
}

// Scan uses the library's iterators, of which a transaction may have several at a time,
// so scans can be nested. Each scan sees what the transaction had written when it
// began, and later writes do not affect it.
func (t *tx) Scan(prefix, start []byte, reverse bool) iter.Seq2[storage.Item, error] {
	return func(yield func(storage.Item, error) bool) {
		if t.done {
			yield(storage.Item{}, errDone)
			return
		}
		s := spanOf(prefix, start, reverse)
		if t.write {
			// Unless it stops early, the scan covers the whole span.
			t.spans = append(t.spans, s)
		}
		at := len(t.spans) - 1

		// Values are in the table files, so prefetching them, in a goroutine each,
		// would cost more than it saves.
		seek := s.lo
		if reverse {
			seek = s.hi
		}
		opts := badgerdb.IteratorOptions{Prefix: keyOf(prefix), Reverse: reverse}
		var it *badgerdb.Iterator
		err := guardRead(prefix, func() error { it = t.txn.NewIterator(opts); return nil })
		if err != nil {
			yield(storage.Item{}, translate(err))
			return
		}
		defer it.Close()
		step := func() { it.Seek(seek) }
		for {
			var key, value []byte
			valid := false
			err := guardRead(prefix, func() (err error) {
				step()
				if valid = it.Valid(); valid {
					key = it.Item().KeyCopy(nil)
					value, err = valueOf(it.Item())
				}
				return err
			})
			step = it.Next
			if err == nil && !valid {
				return
			}
			if err == nil {
				err = t.ctx.Err()
			}
			if err != nil {
				yield(storage.Item{}, translate(err))
				return
			}
			if !yield(storage.Item{Key: slices.Clone(key[1:]), Value: value}, nil) {
				if t.write && reverse {
					t.spans[at].lo = key
				} else if t.write {
					t.spans[at].hi = key
				}
				return
			}
		}
	}
}

// end makes the transaction unusable.
func (t *tx) end() {
	t.done = true
	t.txn.Discard()
}

func checkKey(key []byte) error {
	if len(key) == 0 || len(key) > maxKey {
		return fmt.Errorf("a key of %d bytes: it must have 1 to %d", len(key), maxKey)
	}
	return nil
}

func valueOf(item *badgerdb.Item) ([]byte, error) {
	value, err := item.ValueCopy(nil)
	if err != nil {
		return nil, err
	}
	if len(value) == 0 && item.ValueSize() > 0 {
		// The library has logged the reason and returns nothing.
		return nil, fmt.Errorf(`%w: its value is in a *.vlog file, which is missing or damaged there ("caddy gw verify" names it)`,
			storage.ErrDamaged)
	}
	if value == nil {
		value = []byte{}
	}
	return value, nil
}

// guardRead runs fn, which reads under key, and returns an error that wraps
// [storage.ErrDamaged] if there is damage in a file.
func guardRead(key []byte, fn func() error) error {
	panicked := true
	err := guard("the library stopped", func() error {
		err := fn()
		panicked = false
		return err
	})
	if errors.Is(err, storage.ErrDamaged) {
		return fmt.Errorf("reading %q: %w; %s", key, err, remedy)
	}
	if err != nil && (panicked || isDamage(err)) {
		return fmt.Errorf("%w: reading %q: %w; %s", storage.ErrDamaged, key, err, remedy)
	}
	return err
}

// translate converts an error of the library to one of the storage package.
func translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, badgerdb.ErrKeyNotFound):
		return storage.ErrNotFound
	case errors.Is(err, badgerdb.ErrTxnTooBig):
		return fmt.Errorf("%w: it may write %d bytes in values of less than %d, %d in all, to %d keys; write it in parts",
			ErrTooBig, maxSmall, valueThreshold, maxTx, maxKeys)
	case errors.Is(err, badgerdb.ErrDBClosed):
		return storage.ErrClosed
	case errors.Is(err, badgerdb.ErrBlockedWrites), isDiskError(err):
		return fmt.Errorf("%w: %w", storage.ErrUnwritable, err)
	}
	return err
}
