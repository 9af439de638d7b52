package badger

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/storage"
)

func BenchmarkStore(b *testing.B) {
	s, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	ctx := context.Background()
	var n atomic.Int64
	value := make([]byte, 256)
	put := func(tx storage.Tx) error {
		return tx.Set(strconv.AppendInt(nil, n.Add(1)%100_000, 10), value)
	}
	get := func(tx storage.Tx) error { _, err := tx.Get([]byte("1")); return err }
	if err := s.Update(ctx, put); err != nil {
		b.Fatal(err)
	}
	calls := []struct {
		name string
		call func() error
	}{
		{"View", func() error { return s.View(ctx, get) }},
		{"Write", func() error { return s.Write(ctx, put) }},
		{"Update", func() error { return s.Update(ctx, put) }},
	}
	for _, c := range calls {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.call(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/32 callers", func(b *testing.B) {
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := c.call(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
	b.Run("Space", func(b *testing.B) {
		for b.Loop() {
			if err := s.writable(Reserve); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkVerify reads all tables of a store with the records of a million calls: a
// few thousand blocks of about 45 KB, which do not compress.
func BenchmarkVerify(b *testing.B) {
	dir := b.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		b.Fatal(err)
	}
	block := make([]byte, 45<<10)
	for i := range 4000 {
		_, _ = rand.Read(block)
		if err := s.Write(context.Background(), func(tx storage.Tx) error { return tx.Set(fmt.Appendf(nil, "logs/%08d", i), block) }); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := Verify(dir, zap.NewNop()); err != nil {
			b.Fatal(err)
		}
	}
}
