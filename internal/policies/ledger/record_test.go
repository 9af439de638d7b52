package ledger

import (
	"encoding/hex"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

func TestRecordRoundTrip(t *testing.T) {
	c := counter{window: time.Hour, bucket: -3}
	for i := range int64(61) {
		c.bucket += 1
		c.spend(i*i*i + 1)
	}
	c.leased = c.bucket
	got, _, err := decode(c.encode(0))
	if err != nil {
		t.Fatal(err)
	}
	c.spare = 0
	if !reflect.DeepEqual(got, c) {
		t.Errorf("decoded %+v, want %+v", got, c)
	}
	if n := len(c.encode(0)); n > 300 {
		t.Errorf("a record of %d bytes", n)
	}
}

func TestRecordIncludesTheLease(t *testing.T) {
	c := counter{window: time.Minute, bucket: 100}
	got, _, err := decode(c.encode(7))
	if err != nil || got.total != 7 || got.bucket != 100 {
		t.Errorf("%+v, %v", got, err)
	}
	c.spend(3)
	c.bucket = 105
	got, _, err = decode(c.encode(7))
	if want := []span{{100, 3}, {105, 7}}; err != nil || !reflect.DeepEqual(got.spans, want) {
		t.Errorf("%+v, %v; want %v", got, err, want)
	}
}

// TestRecordFormat pins the versions of records that exist in stores.
func TestRecordFormat(t *testing.T) {
	a := account{owner: "w", counter: counter{window: time.Minute, bucket: 1000, spans: []span{{990, 5}, {1000, 200}}, total: 205}}
	if got, want := hex.EncodeToString(a.encode(3)), "02017780b09dc2df0102bc0f050acb01"; got != want {
		t.Errorf("record %s, want %s", got, want)
	}
	if c, owner, err := decode(a.encode(0)); err != nil || owner != "w" || c.total != 205 {
		t.Errorf("%+v of %q, %v", c, owner, err)
	}
	c := counter{window: time.Minute, bucket: 1000, spans: []span{{990, 5}, {1000, 200}}, total: 205}
	if got, want := hex.EncodeToString(c.encode(3)), "0180b09dc2df0102bc0f050acb01"; got != want {
		t.Errorf("record %s, want %s", got, want)
	}
}

func TestCorruptRecords(t *testing.T) {
	for name, record := range map[string]string{
		"empty":                   "",
		"unknown version":         "0380b09dc2df0102bc0f050acb01",
		"an owner cut off":        "020477",
		"an owner of no length":   "02",
		"truncated":               "0180b09dc2df0102bc0f050a",
		"trailing bytes":          "0180b09dc2df0102bc0f050acb0100",
		"no window":               "010000",
		"window too long":         "01ffffffffffffffffff0100",
		"too many buckets":        "0180b09dc2df013e",
		"a bucket twice":          "0180b09dc2df0102bc0f0500cb01",
		"buckets too far apart":   "0180b09dc2df0102bc0f053dcb01",
		"no units":                "0180b09dc2df0101bc0f00",
		"more units than numbers": "0180b09dc2df0101bc0fffffffffffffffffff01",
		"bucket beyond all time":  "0180b09dc2df0101feffffffffffffffff0105",
		"number that overflows":   "01ffffffffffffffffffff",
	} {
		t.Run(name, func(t *testing.T) {
			data, err := hex.DecodeString(record)
			if err != nil {
				t.Fatal(err)
			}
			d := newDesk(t, Options{})
			claim := Claim{"the key", 5, time.Minute, 1, "", false, 0}
			write := func(tx storage.Tx) error { return tx.Set(recordKey(claim.Key), data) }
			if err := d.store.Write(t.Context(), write); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := d.fails(ErrCorrupt, claim); !strings.Contains(err.Error(), "the key") {
					t.Errorf("%v does not name the key", err)
				}
			}
			if err := d.Forget(t.Context(), claim.Key); err != nil {
				t.Fatal(err)
			}
			d.wantLeft(5, claim)
		})
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte{})
	f.Add((&counter{window: time.Minute}).encode(0))
	f.Add((&counter{window: time.Minute, bucket: 1000, spans: []span{{990, 5}, {1000, 200}}, total: 205}).encode(3))
	f.Add((&counter{window: MaxWindow, bucket: -5, spans: []span{{-65, 1}}, total: 1}).encode(math.MaxInt64 - 1))
	f.Fuzz(func(t *testing.T, record []byte) {
		c, _, err := decode(record)
		if err != nil {
			return
		}
		again, _, err := decode(c.encode(0))
		if err != nil || !reflect.DeepEqual(again, c) {
			t.Fatalf("%+v became %+v, %v", c, again, err)
		}
		var total int64
		for i, s := range c.spans {
			total += s.units
			if s.units <= 0 || i > 0 && s.bucket <= c.spans[i-1].bucket {
				t.Fatalf("spans %v", c.spans)
			}
		}
		if total != c.total || total < 0 {
			t.Fatalf("a total of %d, of %v", c.total, c.spans)
		}
		now := newClock().Now().UnixNano()
		c.advance(now)
		c.rebase(time.Hour, now)
		if c.reset(now) < 0 || c.reset(now) > 61*time.Minute {
			t.Fatalf("reset after %v", c.reset(now))
		}
	})
}
