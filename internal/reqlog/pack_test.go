package reqlog

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/klauspost/compress/s2"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/storage"
)

func TestPackedRowsAreReadAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row := bytes.Repeat(rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "part"), rapid.IntRange(1, 300).Draw(t, "times"))
		before := rapid.SliceOfN(rapid.Byte(), 0, 10).Draw(t, "before")
		stored, err := pack(bytes.Clone(before), row)
		if err != nil || !bytes.HasPrefix(stored, before) {
			t.Fatal(err)
		}
		got, err := unpack(nil, stored[len(before):])
		if err != nil || !bytes.Equal(got, row) {
			t.Fatalf("%d bytes of %d, %v", len(got), len(row), err)
		}
	})
}

func TestDamagedRowsAreErrors(t *testing.T) {
	stored, err := pack(nil, bytes.Repeat([]byte(`{"id":"1"}`+"\n"), 100))
	if err != nil {
		t.Fatal(err)
	}
	long, _ := pack(nil, make([]byte, maxRow))
	for name, damaged := range map[string][]byte{
		"cut":            stored[:len(stored)/2],
		"only its mark":  stored[:1],
		"no length":      append([]byte{packed}, bytes.Repeat([]byte{0xff}, 20)...),
		"says too much":  append([]byte{packed, 0xff, 0xff, 0xff, 0xff, 0x0e}, stored[2:]...),
		"cut, and large": long[:len(long)-1],
	} {
		if row, err := unpack(nil, damaged); err == nil {
			t.Errorf("%s: %d bytes", name, len(row))
		}
	}
	if _, err := pack(nil, make([]byte, maxRow+1)); err == nil {
		t.Error("a row that could not be read was packed")
	}
}

func FuzzUnpack(f *testing.F) {
	stored, _ := pack(nil, []byte(`{"id":"1"}`))
	f.Add(stored)
	f.Add([]byte(`{"id":"1"}`))
	f.Add(s2.Encode([]byte{packed}, make([]byte, 100)))
	f.Fuzz(func(t *testing.T, stored []byte) {
		if row, err := unpack(nil, stored); err == nil && len(row) > max(maxRow, len(stored)) {
			t.Errorf("%d bytes", len(row))
		}
	})
}

// Uncompressed rows of earlier versions and their segments are read, and merged with
// current ones.
func TestRowsThatAreNotCompressedAreRead(t *testing.T) {
	l, _ := openLog(t, zap.NewNop())
	l.Configure(plenty)
	byHand(l)
	const n = 10
	for i := range n {
		r := withBodies(i, 200)
		r.bound()
		r.ID = l.ids.next(1)[0]
		bodies, bodiesRow, err := newBodies([]*Record{r}, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Request.Bytes, r.Response.Bytes = nil, nil
		block, row, err := newBlock([]*Record{r}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, old := range []struct {
			s   *archive
			seg *segment
			row []byte
		}{{l.blocks, block, row}, {l.bodies, bodies, bodiesRow}} {
			old.seg.weigh(0, len(old.row))
			if err := old.s.put(old.seg, old.row); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(n int) {
		t.Helper()
		mustHold(t, l, n)
		for i := range n {
			r, err := l.Find(t.Context(), fmt.Sprint(i), &Filter{})
			if err == nil && r != nil {
				err = l.Bodies(t.Context(), r)
			}
			if err != nil || r == nil || string(r.Response.Bytes) != fmt.Sprintf("answer %d", i) || len(r.Request.Bytes) != 200 {
				t.Fatalf("record %d: %+v, %v", i, r, err)
			}
		}
	}
	check(n)
	const all = mergeParts + n
	for i := n; i < all; i++ {
		l.write([]*Record{withBodies(i, 200)})
	}
	if rows := len(l.blocks.list); rows > mergeParts {
		t.Errorf("%d rows, not merged", rows)
	}
	check(all)
}

// Similar records are stored in a fraction of their size.
func TestRecordsAreStoredCompressed(t *testing.T) {
	l, _ := openLog(t, zap.NewNop())
	l.Configure(plenty)
	byHand(l)
	raw := 0
	for range 8 {
		block := make([]*Record, blockRecords)
		for i := range block {
			block[i] = record(i)
		}
		l.write(block)
		_ = view(context.Background(), []*archive{l.blocks}, func(tx storage.Tx, lists [][]*segment) error {
			row, err := l.blocks.row(tx, lists[0][len(lists[0])-1])
			raw += len(row)
			return err
		})
	}
	if size, _ := l.Size(); raw == 0 || size > int64(raw)/2 {
		t.Errorf("%d bytes are stored for %d", size, raw)
	}
}
