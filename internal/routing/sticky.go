package routing

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"time"
)

// Sticky keeps a caller's calls on one target of a load balance. No state is kept: the
// choice is a function of the caller, the fields, the config's version and the current
// period of TTL, and so the same on every node. The periods of different callers start at
// different times; within a period, the choice only changes when its target becomes
// unavailable or available again.
type Sticky struct {
	Fields []int // of the config
	TTL    time.Duration
}

const (
	defaultStickyTTL = time.Hour // as documented
	maxStickyTTL     = 365 * 24 * 60 * 60
	maxHashFields    = 16
)

// hash returns the hash of the caller and the fields in the current period.
func (s *Sticky) hash(f *fieldReader, node string) [sha256.Size]byte {
	h := sha256.New()
	write := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	write([]byte(f.KeyID))
	write([]byte(f.Version))
	write([]byte(node))
	for _, i := range s.Fields {
		v := f.value(i)
		write([]byte{byte(v.kind)})
		if v.kind == compound {
			write(v.raw)
		} else {
			write([]byte(v.text))
		}
	}
	var identity [sha256.Size]byte
	h.Sum(identity[:0])
	ttl := uint64(s.TTL.Milliseconds())
	phase := binary.BigEndian.Uint64(identity[:8]) % ttl
	var period [8]byte
	binary.BigEndian.PutUint64(period[:], (uint64(f.Now.UnixMilli())+phase)/ttl)
	return sha256.Sum256(append(identity[:], period[:]...))
}

// score ranks target n for a hash. The highest score wins, and each target wins in
// proportion to its weight (weighted rendezvous hashing).
func score(hash [sha256.Size]byte, n int, weight float64) float64 {
	b := binary.BigEndian.AppendUint64(hash[:], uint64(n))
	sum := sha256.Sum256(b)
	u := (float64(binary.BigEndian.Uint64(sum[:8])>>12) + 0.5) / (1 << 52) // in (0, 1)
	return -weight / math.Log(u)
}
