package reqlog

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/storetest"
	"github.com/caddy-gw/gateway/storage"
)

// The segment of a row is small, and does not keep alive the memory of calls.
func TestTheSegmentOfABlockTakesLittleMemory(t *testing.T) {
	const rows = 40 * together
	inUse := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse
	}
	before := inUse()
	s := newArchive(nil, "test", 0, 0, nil)
	var calls [4096][]byte
	made := 0
	for i := range rows {
		var c collector
		for j := range blockRecords {
			c.add(&Record{WorkspaceID: "workspace", TraceID: fmt.Sprintf("%d-%d", i, j), Status: 200})
			for _, size := range [...]int{48, 160, 512, 576} { // short-lived objects between those that stay
				calls[made%len(calls)] = make([]byte, size)
				made++
			}
		}
		seg := &segment{ID: fmt.Sprintf("%036d", i), Last: fmt.Sprintf("%036d", i+1), Count: blockRecords, Terms: newTerms(c.hashes)}
		seg.Workspaces.add("workspace", blockRecords)
		s.append(seg)
	}
	clear(calls[:])
	if got := (inUse() - before) / rows; got > 1000 {
		t.Errorf("a row of %d records takes %d bytes of memory, expected at most 1,000", blockRecords, got)
	}
	runtime.KeepAlive(s)
}

// Searching for a trace skips most rows that do not contain it.
func TestRowsWithoutATraceAreMostlyPassedOver(t *testing.T) {
	for name, form := range map[string]string{"counted": "trace-%08d", "hexadecimal": "%032x", "named": "%d-checkout"} {
		var c collector
		for i := range blockRecords {
			c.add(&Record{TraceID: fmt.Sprintf(form, i)})
		}
		row := newTerms(c.hashes)
		for i := range blockRecords {
			if !row.has(term(byTrace.member, fmt.Sprintf(form, i))) {
				t.Fatalf("%s: trace %d is not found", name, i)
			}
		}
		const others = 20_000
		read := 0
		for i := range others {
			if row.has(term(byTrace.member, fmt.Sprintf(form, blockRecords+i))) {
				read++
			}
		}
		if read > others/100 {
			t.Errorf("%s: %d of %d searches read a row for nothing, expected at most 1 in 100", name, read, others)
		}
	}
}

func TestSegmentsThatShareMemoryAreAsBefore(t *testing.T) {
	var list, want []*segment
	for i := range 5 {
		s := &segment{ID: fmt.Sprint("first", i), Last: fmt.Sprint("last", i), Count: i, From: int64(i), To: int64(2 * i)}
		for j := range i {
			s.Workspaces.add(fmt.Sprint("w", j), j+1)
			s.Terms = s.Terms.union(newTerms([]uint16{term("model", fmt.Sprint(i, j))}))
		}
		copied := *s
		list, want = append(list, s), append(want, &copied)
	}
	collocate(list)
	for i, s := range list {
		if s.ID != want[i].ID || s.Last != want[i].Last || s.Count != want[i].Count || s.From != want[i].From || s.To != want[i].To ||
			!slices.Equal(s.Terms, want[i].Terms) || !slices.Equal(s.Workspaces, want[i].Workspaces) {
			t.Errorf("segment %d became %+v, expected %+v", i, s, want[i])
		}
	}
	list[1].Workspaces.add("more", 1)
	list[1].Terms = append(list[1].Terms, 0, 0)
	if !slices.Equal(list[2].Workspaces, want[2].Workspaces) || !slices.Equal(list[2].Terms, want[2].Terms) {
		t.Error("what is added to one segment changed the next")
	}
}

// Rows of earlier versions have hashes of four bytes, and counts by workspace as an
// object.
func TestSegmentsOfEarlierBuildsAreRead(t *testing.T) {
	b := storetest.Open(t)
	db := storage.NewDB(b)
	old := []byte(`{"id":"a","last":"b","count":3,"size":9,"from":1,"to":2,"workspaces":{"w1":1,"w2":2},"terms":"AAAAAUmWAtKqu8zd"}`)
	var seg segment
	if err := json.Unmarshal(old, &seg); err != nil {
		t.Fatal(err)
	}
	s := newArchive(db, "test", 0, 0, func(*Settings) (time.Duration, int64) { return 0, 0 })
	s.tables = s.earlier
	if err := s.put(&seg, []byte("row")); err != nil {
		t.Fatal(err)
	}
	again := newArchive(db, "test", 0, 0, s.keeps)
	if err := again.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := again.list[0]
	for _, wide := range []uint32{1, 1234567890, 2864434397} {
		if !got.Terms.has(narrow(wide)) {
			t.Errorf("the terms %x lack %x", got.Terms, narrow(wide))
		}
	}
	slices.SortFunc(got.Workspaces, func(a, b count) int { return a.N - b.N })
	if !reflect.DeepEqual(got.Workspaces, counts{{"w1", 1}, {"w2", 2}}) || got.WideTerms != nil || len(got.Terms) != 6 {
		t.Errorf("got %+v", got)
	}
}
