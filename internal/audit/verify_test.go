package audit

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/storage"
)

// verified compares the first fault with a text; "" means that there is none.
func verified(t testing.TB, trail *Trail, checkpoints []Checkpoint, fault string, keys ...Key) {
	t.Helper()
	report, err := trail.Verify(t.Context(), checkpoints, keys...)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case fault == "" && len(report.Faults) > 0:
		t.Errorf("faults %v", report.Faults)
	case fault != "" && (len(report.Faults) == 0 || !strings.Contains(report.Faults[0].Message, fault)):
		t.Errorf("faults %v, want %q", report.Faults, fault)
	}
}

// blobs returns all that the trail stores, by table and id.
func (t *Trail) blobs(tb testing.TB) map[string]map[string][]byte {
	tb.Helper()
	all := make(map[string]map[string][]byte)
	err := t.db.View(tb.Context(), func(tx storage.Tx) error {
		for name, table := range t.tables() {
			all[name] = make(map[string][]byte)
			for blob, err := range table.Scan(tx, storage.Range{}) {
				if err != nil {
					return err
				}
				all[name][blob.ID] = blob.Data
			}
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

func (t *Trail) tables() map[string]*storage.Blobs {
	return map[string]*storage.Blobs{"rows": t.rows, "marks": t.marks, "postings": t.postings}
}

// set writes to a table, or deletes for nil.
func (t *Trail) set(tb testing.TB, table, id string, data []byte) {
	tb.Helper()
	err := t.db.Write(tb.Context(), func(tx storage.Tx) error {
		if data == nil {
			return t.tables()[table].Delete(tx, id)
		}
		return t.tables()[table].Put(tx, id, data)
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// some adds n rows.
func (t *Trail) some(tb testing.TB, n int) {
	tb.Helper()
	for i := range n {
		t.must(tb, &Record{Scope: "virtual_keys.create", KeyID: "key", WorkspaceID: "ws", Resource: fmt.Sprint(i), Status: 200, RequestID: fmt.Sprint("r", i)})
	}
}

// Whatever byte of rows, marks and postings is another one, and whatever is removed, Verify
// finds it, and names the row.
func TestVerifyFindsEveryByteThatWasChanged(t *testing.T) {
	trail, _, _ := openTrail(t)
	trail.some(t, 5)
	before := trail.blobs(t)
	verified(t, trail, nil, "")
	for table, blobs := range before {
		for id, data := range blobs {
			for i := range data {
				changed := bytes.Clone(data)
				changed[i] ^= 1 << (i % 8)
				trail.set(t, table, id, changed)
				report, err := trail.Verify(t.Context(), nil)
				if err != nil || len(report.Faults) == 0 {
					t.Errorf("byte %d of %s %q: %+v, %v", i, table, id, report, err)
				}
				if table == "rows" && err == nil && report.Faults[0].Row != number(id) {
					t.Errorf("byte %d of row %d: %v", i, number(id), report.Faults)
				}
			}
			trail.set(t, table, id, nil)
			report, err := trail.Verify(t.Context(), nil)
			if err != nil || len(report.Faults) == 0 {
				t.Errorf("without %s %q: %+v, %v", table, id, report, err)
			}
			trail.set(t, table, id, data)
		}
	}
	verified(t, trail, nil, "")
}

func TestVerifyFindsRowsThatAreGone(t *testing.T) {
	trail, _, _ := openTrail(t)
	trail.some(t, 20)
	before := trail.blobs(t)["rows"]
	drop := func(numbers ...uint64) {
		for _, n := range numbers {
			trail.set(t, "rows", numbered(n), nil)
		}
	}
	restore := func() {
		for id, data := range before {
			trail.set(t, "rows", id, data)
		}
	}
	drop(1)
	verified(t, trail, nil, "row 1 is missing")
	restore()
	drop(7, 8, 9)
	verified(t, trail, nil, "rows 7 to 9 are missing")
	restore()
	drop(19, 20)
	verified(t, trail, nil, "the index of rows")
	restore()
	// Two rows change places.
	trail.set(t, "rows", numbered(4), before[numbered(5)])
	trail.set(t, "rows", numbered(5), before[numbered(4)])
	verified(t, trail, nil, "row 4 was altered")
	restore()
	// A copy of the last row is appended.
	trail.set(t, "rows", numbered(21), before[numbered(20)])
	verified(t, trail, nil, "row 21 was altered")
}

// logged collects checkpoints in a log, as Caddy writes it.
func logged(encoder zapcore.Encoder) (*zap.Logger, *bytes.Buffer) {
	log := new(bytes.Buffer)
	return zap.New(zapcore.NewCore(encoder, zapcore.AddSync(log), zapcore.InfoLevel)).Named("gw.audit"), log
}

// Without its end, a trail is like one that was shorter: with the mark of an earlier last
// row and the postings of that time, only the log shows it.
func TestCheckpointsFindAnEndThatWasCutOff(t *testing.T) {
	for name, encoder := range map[string]zapcore.Encoder{
		"json": zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), "console": zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig()),
	} {
		t.Run(name, func(t *testing.T) {
			trail, _, _ := openTrail(t)
			logger, log := logged(encoder)
			trail.Configure(Settings{Logger: logger})
			checkpoint := func() {
				t.Helper()
				if err := trail.checkpoint(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			checkpoint() // of no row
			trail.some(t, 5)
			checkpoint()
			checkpoint()
			earlier := trail.blobs(t)
			trail.some(t, 5)
			checkpoint()
			checkpoints, err := ReadCheckpoints(strings.NewReader("no checkpoint\n" + log.String() + "{}"))
			if err != nil || len(checkpoints) != 2 || checkpoints[0].Number != 5 || checkpoints[1].Number != 10 {
				t.Fatalf("%v, %v of %s", checkpoints, err, log)
			}
			verified(t, trail, checkpoints, "")
			for table, now := range trail.blobs(t) {
				for id := range now {
					trail.set(t, table, id, earlier[table][id])
				}
			}
			verified(t, trail, nil, "")
			verified(t, trail, checkpoints, "the log has row 10, but the last is row 5: the end was cut off")
			trail.some(t, 5)
			verified(t, trail, nil, "")
			verified(t, trail, checkpoints, "row 10 is another one than in the log")
			checkpoints[0].Seal = strings.Repeat("0", 64)
			verified(t, trail, checkpoints, "row 5 is another one than in the log")
		})
	}
}

func TestACutIsSealedAndARowTellsOfIt(t *testing.T) {
	trail, _, c := openTrail(t)
	trail.some(t, cutBatch+50)
	c.set(noon.Add(time.Hour))
	trail.some(t, 10)
	none := func(storage.Tx) error { return nil }
	if n, err := trail.Cut(t.Context(), noon, none); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := trail.Cut(t.Context(), noon.Add(time.Minute), none); n != cutBatch+50 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	rows := trail.all(t, new(Filter))
	if len(rows) != 11 || rows[0].Scope != "audit_logs.delete" || rows[0].Resource != fmt.Sprintf("rows up to %d", cutBatch+50) {
		t.Errorf("%d rows, %+v", len(rows), rows[0])
	}
	verified(t, trail, nil, "")
	verified(t, trail, []Checkpoint{{1, "of a row that was removed"}}, "")
	// Somebody else removes another one.
	trail.set(t, "rows", numbered(cutBatch+51), nil)
	verified(t, trail, nil, fmt.Sprintf("row %d is missing", cutBatch+51))
	// All rows go, and the trail goes on.
	c.set(noon.Add(48 * time.Hour))
	other, _, c := openTrail(t)
	other.some(t, 3)
	c.set(noon.Add(48 * time.Hour))
	if n, err := other.Cut(t.Context(), noon.Add(time.Hour), none); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	other.some(t, 1)
	verified(t, other, nil, "")
	if rows := other.all(t, new(Filter)); len(rows) != 2 || rows[0].Number != 5 {
		t.Errorf("%+v", rows)
	}
}

func TestRetentionRemovesOldRows(t *testing.T) {
	trail, _, c := openTrail(t)
	trail.some(t, 3)
	c.set(noon.Add(25 * time.Hour))
	for _, step := range []struct {
		keep time.Duration
		left int
	}{{0, 3}, {26 * time.Hour, 3}, {24 * time.Hour, 1}} {
		trail.Configure(Settings{Retention: step.keep})
		if err := trail.retain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(trail.all(t, new(Filter))); n != step.left {
			t.Errorf("%d rows are left of a retention of %s, want %d", n, step.keep, step.left)
		}
	}
	verified(t, trail, nil, "")
}

func FuzzReadCheckpoints(f *testing.F) {
	f.Add([]byte(`{"audit_row":3,"audit_seal":"ab"}`))
	f.Add([]byte("x {\"audit_row\":-3,\"audit_seal\":7}\n{"))
	f.Fuzz(func(t *testing.T, log []byte) {
		checkpoints, err := ReadCheckpoints(bytes.NewReader(log))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range checkpoints {
			if c.Number == 0 || c.Seal == "" {
				t.Errorf("%+v", c)
			}
		}
	})
}

func FuzzDecodeSet(f *testing.F) {
	f.Add([]byte{0, 1, 0, 9})
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := decodeSet(data)
		if err != nil {
			return
		}
		if again, err := decodeSet(s.encode()); err != nil || again != s {
			t.Errorf("%v is not %v: %v", again, s, err)
		}
	})
}

func TestSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := make(map[int]bool)
		var s set
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			i, in := rapid.IntRange(0, perBlock-1).Draw(t, "i"), rapid.Bool().Draw(t, "in")
			if s.put(i, in); in {
				want[i] = true
			} else {
				delete(want, i)
			}
		}
		got, err := decodeSet(s.encode())
		if err != nil || got != s || got.count() != len(want) {
			t.Fatalf("%v, %v", got, err)
		}
		for i := range perBlock {
			if got.has(i) != want[i] {
				t.Fatalf("%d", i)
			}
		}
	})
}

// What is missing is told in the order of the rows.
func TestMissingRowsAreToldInOrder(t *testing.T) {
	t.Parallel()
	trail, _, _ := openTrail(t)
	var checkpoints []Checkpoint
	for n := range uint64(40) {
		checkpoints = append(checkpoints, Checkpoint{(n*7)%40 + 1, "00"})
	}
	report, err := trail.Verify(t.Context(), checkpoints)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Faults) != 40 || !slices.IsSortedFunc(report.Faults, func(a, b Fault) int { return cmp.Compare(a.Row, b.Row) }) {
		t.Errorf("%v", report.Faults)
	}
}
