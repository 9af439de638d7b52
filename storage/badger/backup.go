package badger

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/storage"
)

// A backup is backupMagic, and each row as the lengths of its key and its value, when it
// expires (in seconds since 1970, 0: never), its key and its value; after the last row 0, the
// number of rows, and the SHA-256 of everything before. Numbers are varints.
const backupMagic = "caddy gw backup 1\n"

// ErrBadBackup means that a file is no backup, or not a whole one.
var ErrBadBackup = errors.New("this is not a whole backup")

// maxBackupValue bounds a value that is read from a backup; no value in a store is larger.
const maxBackupValue = maxTx

// Backup writes all rows to w, as they are at one moment, while others read and write. It
// returns their number.
func (s *Store) Backup(ctx context.Context, w io.Writer) (rows int, err error) {
	if err := s.begin(ctx); err != nil {
		return 0, err
	}
	defer s.running.Done()
	txn := s.db.NewTransaction(false)
	defer txn.Discard()
	sum := sha256.New()
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16)
	if _, err := out.WriteString(backupMagic); err != nil {
		return 0, err
	}
	options := badgerdb.DefaultIteratorOptions
	options.Prefix = []byte{keyPrefix}
	it := txn.NewIterator(options)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if err := ctx.Err(); err != nil {
			return rows, err
		}
		item := it.Item()
		key := item.KeyCopy(nil)[1:]
		var value []byte
		err := guardRead(key, func() (err error) {
			value, err = valueOf(item)
			return err
		})
		if err != nil {
			return rows, translate(err)
		}
		var head []byte
		for _, n := range []uint64{uint64(len(key)), uint64(len(value)), item.ExpiresAt()} {
			head = binary.AppendUvarint(head, n)
		}
		for _, part := range [][]byte{head, key, value} {
			if _, err := out.Write(part); err != nil {
				return rows, err
			}
		}
		rows++
	}
	if _, err := out.Write(binary.AppendUvarint([]byte{0}, uint64(rows))); err != nil {
		return rows, err
	}
	if err := out.Flush(); err != nil {
		return rows, err
	}
	_, err = w.Write(sum.Sum(nil))
	return rows, err
}

// A backedUp is a row in a backup.
type backedUp struct {
	key, value []byte
	expiresAt  uint64
}

// readBackup visits the rows of a backup. If it returns an error, rows that were visited may
// be wrong.
func readBackup(r io.Reader, visit func(backedUp) error) (rows int, err error) {
	in := &summed{r: bufio.NewReaderSize(r, 1<<16), sum: sha256.New()}
	bad := func(err error) error {
		if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return ErrBadBackup
		}
		return fmt.Errorf("%w: %w", ErrBadBackup, err)
	}
	magic := make([]byte, len(backupMagic))
	if _, err := io.ReadFull(in, magic); err != nil || string(magic) != backupMagic {
		return 0, bad(err)
	}
	for {
		size, err := binary.ReadUvarint(in)
		if err != nil {
			return rows, bad(err)
		}
		if size == 0 {
			break
		}
		length, err := binary.ReadUvarint(in)
		if err != nil {
			return rows, bad(err)
		}
		row := backedUp{}
		if row.expiresAt, err = binary.ReadUvarint(in); err != nil || size > maxKey || length > maxBackupValue {
			return rows, bad(err)
		}
		both, err := io.ReadAll(io.LimitReader(in, int64(size+length))) // grows with what is there
		if err != nil || uint64(len(both)) != size+length {
			return rows, bad(err)
		}
		row.key, row.value = both[:size:size], both[size:]
		if err := visit(row); err != nil {
			return rows, err
		}
		rows++
	}
	n, err := binary.ReadUvarint(in)
	if err != nil || n != uint64(rows) {
		return rows, bad(err)
	}
	want, got := in.sum.Sum(nil), make([]byte, sha256.Size)
	if _, err := io.ReadFull(in.r, got); err != nil || !bytes.Equal(got, want) {
		return rows, bad(err)
	}
	if _, err := in.r.ReadByte(); !errors.Is(err, io.EOF) {
		return rows, bad(err)
	}
	return rows, nil
}

// summed is a reader that computes the sum of what was read.
type summed struct {
	r   *bufio.Reader
	sum hash.Hash
}

func (s *summed) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.sum.Write(p[:n])
	return n, err
}

func (s *summed) ReadByte() (byte, error) {
	b, err := s.r.ReadByte()
	if err == nil {
		s.sum.Write([]byte{b})
	}
	return b, err
}

// VerifyBackup reads a backup to its end, and returns the number of its rows, or an error that
// wraps [ErrBadBackup].
func VerifyBackup(r io.Reader) (rows int, err error) {
	return readBackup(r, func(backedUp) error { return nil })
}

// Restore writes a backup to a new store in a directory, which must not exist or be empty, and
// compares the two. If there is an error, the directory is removed.
func Restore(ctx context.Context, r io.ReadSeeker, to string, logger *zap.Logger) (rows int, err error) {
	if files, err := os.ReadDir(to); err == nil && len(files) > 0 {
		return 0, fmt.Errorf("%s is not empty; name a directory that does not exist", to)
	}
	if rows, err = VerifyBackup(r); err != nil {
		return 0, err
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	err = writeCopy(to, logger, func(store *Store) error {
		if err := store.restore(ctx, r, time.Now()); err != nil {
			return err
		}
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			return err
		}
		return store.has(ctx, r)
	})
	if err != nil {
		return 0, errors.Join(err, os.RemoveAll(to))
	}
	return rows, nil
}

// has returns an error unless the store has each row of a backup.
func (s *Store) has(ctx context.Context, backup io.Reader) error {
	return s.View(ctx, func(tx storage.Tx) error {
		_, err := readBackup(backup, func(row backedUp) error {
			if row.left(time.Now()) == 0 {
				return nil
			}
			if got, err := tx.Get(row.key); err != nil || !bytes.Equal(got, row.value) {
				return fmt.Errorf("the new store does not have the row %q: %w", row.key, err)
			}
			return nil
		})
		return err
	})
}

// left is how long a row is there: 0 if its time is over, and -1 if it does not end.
func (r *backedUp) left(now time.Time) time.Duration {
	if r.expiresAt == 0 {
		return -1
	}
	return max(0, time.Unix(int64(min(r.expiresAt, 1<<40)), 0).Sub(now))
}

// restore writes rows in transactions of a bounded size.
func (s *Store) restore(ctx context.Context, r io.Reader, now time.Time) error {
	const atOnce, bytesAtOnce = 500, 256 << 10
	var batch []backedUp
	size := 0
	flush := func(durable bool) error {
		write := s.Write
		if durable {
			write = s.Update
		}
		err := write(ctx, func(tx storage.Tx) error {
			for _, row := range batch {
				var err error
				if left := row.left(now); left < 0 {
					err = tx.Set(row.key, row.value)
				} else {
					err = tx.SetTTL(row.key, row.value, left)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		batch, size = nil, 0
		return err
	}
	_, err := readBackup(r, func(row backedUp) error {
		if row.left(now) == 0 {
			return nil
		}
		batch = append(batch, row)
		if size += len(row.key) + len(row.value); len(batch) < atOnce && size < bytesAtOnce {
			return nil
		}
		return flush(false)
	})
	if err != nil {
		return err
	}
	return flush(true)
}

// Interface guards
var _ storage.Backuper = (*Store)(nil)
