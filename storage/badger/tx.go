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
	// maxKey is the length of the longest key, in bytes.
	maxKey = 1024

	// keyPrefix begins all keys in the database: the library keeps keys that
	// begin with "!badger!" for itself, and ours may be any bytes.
	keyPrefix = 'd'
)

var (
	// ErrTooBig means that a transaction writes more than the store takes at
	// once. Errors that wrap it say how much that is.
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

	keys  [][]byte // written, as the library has them
	bytes int      // written, keys and values
	spans []span   // scanned, if write
	err   error    // the first write that failed, which must not be half of a commit
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
		// The library counts full seconds; round up, to never end early.
		e.ExpiresAt = uint64(time.Now().Add(ttl + time.Second - 1).Unix())
		return e
	})
}

func (t *tx) Delete(key []byte) error {
	return t.set(key, nil)
}

// set writes the entry that makes for a key, or a deletion.
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
		} else {
			e := entry(k)
			if t.bytes += len(e.Value); t.bytes > maxTx {
				err = badgerdb.ErrTxnTooBig
			} else {
				err = t.txn.SetEntry(e)
			}
		}
		err = translate(err)
	}
	if err != nil && t.err == nil {
		t.err = err
	}
	return err
}

// Scan runs on the library's iterators, of which a transaction may have many at
// a time, so scans nest. Each sees what the transaction had written when the
// scan began; what is written while it runs does not disturb it.
func (t *tx) Scan(prefix, start []byte, reverse bool) iter.Seq2[storage.Item, error] {
	return func(yield func(storage.Item, error) bool) {
		if t.done {
			yield(storage.Item{}, errDone)
			return
		}
		s := spanOf(prefix, start, reverse)
		if t.write {
			// Until the scan has stopped early, it has seen all of it.
			t.spans = append(t.spans, s)
		}
		at := len(t.spans) - 1

		// Values are in the table files, so fetching them ahead of time, in a
		// goroutine each, would cost more than it gives.
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

// end makes the transaction of no use.
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
		// The library has logged why, and returns nothing instead.
		return nil, fmt.Errorf(`%w: its value is in a *.vlog file, which is missing or damaged there ("caddy gw verify" names it)`,
			storage.ErrDamaged)
	}
	if value == nil {
		value = []byte{}
	}
	return value, nil
}

// guardRead runs fn, which reads something under key, and returns an error that
// wraps [storage.ErrDamaged] where it meets damage in a file.
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

// translate turns an error of the library into one of the storage package.
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
