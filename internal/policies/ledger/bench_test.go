package ledger

import (
	"fmt"
	"math"
	"testing"
	"time"
)

func BenchmarkReserve(b *testing.B) {
	claims := make([]Claim, 4)
	for i := range claims {
		claims[i] = Claim{
			Key:   fmt.Sprintf("policy-%d\x00workspace\x00api-key", i),
			Limit: math.MaxInt64 / 2, Window: time.Minute << i, Units: 1,
		}
	}
	for _, n := range []int{1, 4} {
		b.Run(fmt.Sprintf("claims=%d", n), func(b *testing.B) {
			l := open(newStore(newClock()), Options{})
			b.ReportAllocs()
			for b.Loop() {
				if _, d, err := l.Reserve(b.Context(), claims[:n]); err != nil || !d.Admitted {
					b.Fatal(d, err)
				}
			}
		})
		b.Run(fmt.Sprintf("claims=%d/same-key-parallel", n), func(b *testing.B) {
			l := open(newStore(newClock()), Options{})
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, d, err := l.Reserve(b.Context(), claims[:n]); err != nil || !d.Admitted {
						b.Error(d, err)
					}
				}
			})
		})
	}
	b.Run("claims=1/100k-keys-parallel", func(b *testing.B) {
		c := newClock() // stands still, so each key has a live lease
		l := open(newStore(c), Options{Now: c.Now})
		keys := make([]string, 100_000)
		for i := range keys {
			keys[i] = fmt.Sprintf("policy\x00workspace\x00api-key-%d", i)
			c := claims[0]
			c.Key = keys[i]
			if _, _, err := l.Reserve(b.Context(), []Claim{c}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			claim := []Claim{claims[0]}
			for i := 0; pb.Next(); i++ {
				claim[0].Key = keys[i*7919%len(keys)]
				if _, d, err := l.Reserve(b.Context(), claim); err != nil || !d.Admitted {
					b.Error(d, err)
				}
			}
		})
	})
	b.Run("refused", func(b *testing.B) {
		c := newClock()
		l := open(newStore(c), Options{Now: c.Now})
		claim := []Claim{{Key: "k", Limit: 61, Window: time.Minute, Units: 1}}
		for range 61 {
			if _, _, err := l.Reserve(b.Context(), claim); err != nil {
				b.Fatal(err)
			}
			c.add(time.Second - 1)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, d, err := l.Reserve(b.Context(), claim); err != nil || d.Admitted {
				b.Fatal(d, err)
			}
		}
	})
	b.Run("reserve-and-release", func(b *testing.B) {
		l := open(newStore(newClock()), Options{})
		b.ReportAllocs()
		for b.Loop() {
			r, _, err := l.Reserve(b.Context(), claims[:1])
			if err != nil {
				b.Fatal(err)
			}
			l.Release(r)
		}
	})
}
