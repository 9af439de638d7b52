package reqlog

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
)

// ids generates the ids of records: UUIDs of version 7 that always increase, even if the
// clock goes back, because records are found by the order of their ids.
type ids struct {
	now    func() time.Time
	random io.Reader
	last   uint64 // of the latest: milliseconds and a 12-bit counter
}

const sequenceBits = 12

// after ensures that new ids are greater than an existing one.
func (g *ids) after(id string) {
	b, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
	if err != nil || len(b) != len(uuid.UUID{}) {
		return
	}
	hi := binary.BigEndian.Uint64(b)
	g.last = max(g.last, hi>>16<<sequenceBits|hi&(1<<sequenceBits-1))
}

// next generates n ids.
func (g *ids) next(n int) []string {
	random := make([]byte, 8*n)
	if _, err := io.ReadFull(g.random, random); err != nil {
		panic(fmt.Sprintf("no randomness: %v", err)) // crypto/rand never fails
	}
	all := make([]string, n)
	for i := range all {
		g.last = max(g.last+1, uint64(g.now().UnixMilli())<<sequenceBits)
		var id uuid.UUID
		binary.BigEndian.PutUint64(id[:], g.last>>sequenceBits<<16|0x7000|g.last&(1<<sequenceBits-1))
		copy(id[8:], random[8*i:])
		id[8] = id[8]&0x3f | 0x80 // variant
		all[i] = id.String()
	}
	return all
}
