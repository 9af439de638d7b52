package reqlog

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/storage"
	"github.com/caddy-gw/gateway/storage/badger"
)

var epoch = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// drawn returns a random record with few different values, so that filters have
// matches.
func drawn(t *rapid.T, at time.Time) *Record {
	pick := func(name string, values ...string) string { return rapid.SampledFrom(values).Draw(t, name) }
	r := &Record{
		TraceID: pick("trace", "t1", "t2", "t3", `"odd\`+"\u2028é"), At: at, WorkspaceID: pick("workspace", "a", "b", ""), KeyID: pick("key", "k1", "k2"), UserID: pick("user", "", "u1", "u2"),
		Endpoint: pick("endpoint", "chatComplete", "embed"), Provider: pick("provider", "openai", "local", ""), VirtualKey: pick("virtual key", "", "vk"),
		Model: pick("model", "m", "mm", "m\\\"é\xff", ""), Config: pick("config", "", "c"), CacheStatus: pick("cache", "", "HIT", "MISS"),
		Status: rapid.SampledFrom([]int{0, 200, 404, 500, 502}).Draw(t, "status"),
	}
	switch rapid.IntRange(0, 3).Draw(t, "metadata") {
	case 1:
		r.Metadata = json.RawMessage(`{"env":"prod","n":1}`)
	case 2:
		r.Metadata = json.RawMessage(`{"env":"t\u0065st", "x":null}`)
	}
	return r
}

func drawnFilter(t *rapid.T) *Filter {
	some := func(name string, values ...string) []string {
		if !rapid.Bool().Draw(t, "filters "+name) {
			return nil
		}
		return rapid.SliceOfNDistinct(rapid.SampledFrom(values), 1, 2, rapid.ID).Draw(t, name)
	}
	f := &Filter{UserIDs: some("user", "u1", "u2"), KeyIDs: some("key", "k1", "k2"), Workspaces: some("workspace", "a", "b", "other")}
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		f.TraceIDs, f.Models = some("trace", "t1", "t3", `"odd\`+"\u2028é"), some("model", "m", "mm", "none")
	case 1:
		f.Statuses, f.CacheStatuses = some("status", "200", "5xx", "404", "5"), some("cache", "HIT", "MISS")
	case 2:
		f.Providers, f.Endpoints = some("provider", "openai", "local"), some("endpoint", "embed", "none")
		f.Configs, f.VirtualKeys = some("config", "c"), some("virtual key", "vk")
	case 3:
		f.Metadata = rapid.SampledFrom([]map[string]string{{"env": "prod"}, {"env": "test"}, {"env": "prod", "n": "1"}, {"n": "2"}, {"x": ""}}).Draw(t, "metadata")
	}
	if rapid.Bool().Draw(t, "from") {
		f.From = epoch.Add(time.Duration(rapid.IntRange(-10, 200).Draw(t, "from s")) * time.Second)
	}
	if rapid.Bool().Draw(t, "to") {
		f.To = epoch.Add(time.Duration(rapid.IntRange(-10, 200).Draw(t, "to s")) * time.Second)
	}
	return f
}

// naive defines the meaning of a filter.
func naive(f *Filter, r *Record) bool {
	is := func(value string, any []string) bool { return len(any) == 0 || slices.Contains(any, value) }
	status := len(f.Statuses) == 0
	for _, s := range f.Statuses {
		status = status || s == strconv.Itoa(r.Status) || s == strconv.Itoa(r.Status/100)+"xx"
	}
	var metadata map[string]any
	_ = json.Unmarshal(r.Metadata, &metadata)
	for key, want := range f.Metadata {
		if got, ok := metadata[key]; !ok || got == nil || fmt.Sprint(got) != want {
			return false
		}
	}
	return status && (f.Workspaces == nil || slices.Contains(f.Workspaces, r.WorkspaceID)) && is(r.KeyID, f.KeyIDs) && is(r.UserID, f.UserIDs) && is(r.TraceID, f.TraceIDs) &&
		is(r.Model, f.Models) && is(r.CacheStatus, f.CacheStatuses) && is(r.Provider, f.Providers) && is(r.Endpoint, f.Endpoints) && is(r.Config, f.Configs) &&
		is(r.VirtualKey, f.VirtualKeys) && (f.From.IsZero() || !r.At.Before(f.From)) && (f.To.IsZero() || r.At.Before(f.To))
}

func TestListsAndFindsSayWhatANaiveSearchSays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		l, _ := openLog(t, zap.NewNop())
		byHand(l)
		var all []*Record
		for range rapid.IntRange(1, 12).Draw(rt, "blocks") {
			var block []*Record
			for range rapid.IntRange(1, 40).Draw(rt, "records") {
				at := epoch.Add(time.Duration(len(all)+rapid.IntRange(-3, 3).Draw(rt, "late")) * time.Second)
				block = append(block, drawn(rt, at))
			}
			if rapid.Bool().Draw(rt, "own") {
				for _, r := range block {
					r.Custom = true
				}
			}
			all = append(all, block...)
			l.write(block)
			for _, s := range []*archive{l.blocks, l.custom.blocks} { // make rows of both kinds overlap
				if n := rapid.IntRange(0, 4).Draw(rt, "merged"); n > 1 && n <= len(s.list) {
					if err := s.mergeLast(n); err != nil {
						rt.Fatal(err)
					}
				}
			}
		}
		slices.SortFunc(all, func(a, b *Record) int { return strings.Compare(b.ID, a.ID) }) // newest first
		f := drawnFilter(rt)
		var want []string
		for _, r := range all {
			if naive(f, r) {
				want = append(want, r.ID)
			}
		}
		size := rapid.IntRange(1, 50).Draw(rt, "page size")
		idsOf := func(l *List) (ids []string) {
			for _, r := range l.Records {
				ids = append(ids, r.ID)
			}
			return ids
		}
		// By cursor.
		var got []string
		for p := (Page{Limit: size}); ; {
			list, err := l.List(t.Context(), f, p)
			if err != nil {
				rt.Fatal(err)
			}
			got = append(got, idsOf(list)...)
			if !list.More {
				if list.Next != "" || !list.Exact {
					rt.Fatalf("a last page with %+v", list)
				}
				break
			}
			if p.Before = list.Next; p.Before == "" {
				rt.Fatal("more, and no cursor")
			}
		}
		if !slices.Equal(got, want) {
			rt.Fatalf("%+v: got %d, want %d", f, len(got), len(want))
		}
		// By page.
		for n := 0; n*size <= len(want); n++ {
			list, err := l.List(t.Context(), f, Page{Skip: n * size, Limit: size})
			page := want[n*size : min(len(want), (n+1)*size)]
			if err != nil || !slices.Equal(idsOf(list), page) || list.More != ((n+1)*size < len(want)) || list.Total > len(want) ||
				list.Exact && list.Total != len(want) || list.Total < n*size+len(page) || list.Short {
				rt.Fatalf("%+v, page %d of %d: %+v, %v, want %d of %d", f, n, size, list, err, len(page), len(want))
			}
		}
		// One by one.
		for _, r := range all {
			found, err := l.Find(t.Context(), r.ID, f)
			if err != nil || (found != nil) != naive(f, r) || found != nil && found.ID != r.ID {
				rt.Fatalf("%s: found %v, %v", r.ID, found, err)
			}
		}
		traced, err := l.Find(t.Context(), "t1", &Filter{})
		i := slices.IndexFunc(all, func(r *Record) bool { return r.TraceID == "t1" && !r.Custom })
		if i < 0 { // the record of a call precedes a newer custom one
			i = slices.IndexFunc(all, func(r *Record) bool { return r.TraceID == "t1" })
		}
		if err != nil || (traced != nil) != (i >= 0) || traced != nil && traced.ID != all[i].ID {
			rt.Fatalf("by trace: %v, %v", traced, err)
		}
	})
}

func TestALineIsWhatTheRecordSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawn(t, epoch.Add(time.Duration(rapid.Int64Range(0, 1e18).Draw(t, "at"))))
		r.ID, r.UserID, r.Failure, r.SpanName = "id", rapid.String().Draw(t, "user"), rapid.String().Draw(t, "failure"), rapid.String().Draw(t, "span")
		r.DurationMS, r.FirstByteMS = rapid.Float64Range(0, 1e9).Draw(t, "duration"), rapid.Float64Range(0, 1e9).Draw(t, "first byte")
		r.Retries, r.Attempts, r.Malformed = rapid.IntRange(-1, 5).Draw(t, "retries"), rapid.Int().Draw(t, "attempts"), rapid.Int().Draw(t, "malformed")
		r.PromptTokens, r.CompletionTokens, r.CacheRead = rapid.Int64().Draw(t, "prompt"), rapid.Int64().Draw(t, "completion"), rapid.Int64().Draw(t, "read")
		r.UsageKnown, r.Stream, r.Custom = rapid.Bool().Draw(t, "known"), rapid.Bool().Draw(t, "stream"), rapid.Bool().Draw(t, "own")
		r.Model = string([]rune(r.Model)) // invalid UTF-8 is replaced
		if rapid.Bool().Draw(t, "more") {
			r.AttemptLog = []Attempt{{Provider: "p", Target: "config", MS: 1.5, Failure: "f"}, {Status: 200}}
			r.RequestHeaders = map[string]string{"a": "\x00"}
			r.Request = &Body{Size: 10, Kept: 5}
		}
		b, err := appendLine(nil, r)
		if err != nil || bytes.Count(b, []byte("\n")) != 1 || !bytes.HasSuffix(b, []byte("\n")) {
			t.Fatalf("%q, %v", b, err)
		}
		got, err := decodeLine(b)
		if err != nil {
			t.Fatal(err)
		}
		var compact bytes.Buffer
		if r.Metadata != nil {
			_ = json.Compact(&compact, r.Metadata)
			r.Metadata = compact.Bytes()
		}
		if !reflect.DeepEqual(got, r) {
			t.Fatalf("got %+v, want %+v", got, r)
		}
	})
}

func TestASearchReadsABoundedPartAndGoesOn(t *testing.T) {
	l, _ := openLog(t, zap.NewNop())
	byHand(l)
	const n = 6000
	rows := 0
	for i := 0; i < n; rows++ { // each too large to be merged
		var block []*Record
		for range 65 {
			block = append(block, &Record{TraceID: strconv.Itoa(i), At: epoch, Model: "a", KeyID: "k", Metadata: json.RawMessage(`{"x":"` + string(bytes.Repeat([]byte("y"), 3<<10)) + `"}`)})
			i++
		}
		block[0].Model, block[64].KeyID = "b", "l" // both occur in every row, but never in the same record
		l.write(block)
	}
	f := &Filter{Models: []string{"b"}, KeyIDs: []string{"l"}}
	searches := 0
	for p := (Page{Limit: 10}); ; searches++ {
		list, err := l.List(t.Context(), f, p)
		if err != nil || len(list.Records) != 0 {
			t.Fatalf("%+v, %v", list, err)
		}
		if !list.More {
			break
		}
		if p.Before != "" && list.Next >= p.Before {
			t.Fatalf("from %q to %q", p.Before, list.Next)
		}
		p.Before = list.Next
	}
	if searches < 1 || searches > rows {
		t.Errorf("%d searches for %d rows", searches, rows)
	}
	list, err := l.List(t.Context(), &Filter{Models: []string{"a"}, KeyIDs: []string{"k"}}, Page{Skip: n - 10, Limit: 10})
	if err != nil || !list.Short || len(list.Records) != 0 || list.Next == "" {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestIDsOnlyGrowThoughTheClockGoesBack(t *testing.T) {
	dir, now := t.TempDir(), epoch
	var all []string
	for range 3 {
		store, err := badger.Open(dir, badger.Options{})
		if err != nil {
			t.Fatal(err)
		}
		l, err := Open(t.Context(), storage.NewDB(store), Options{Now: func() time.Time { return now }, Random: rand.Reader, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 300 {
			l.Add(record(i))
		}
		l.Close()
		list, err := l.List(context.Background(), &Filter{}, Page{Limit: 300})
		if err != nil || len(list.Records) != 300 {
			t.Fatal(len(list.Records), err)
		}
		for _, r := range slices.Backward(list.Records) {
			all = append(all, r.ID)
		}
		store.Close()
		now = now.Add(-time.Hour)
	}
	if !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != 900 {
		t.Error("ids repeat, or do not grow")
	}
}

// How many records match does not depend on the page that is asked for.
func TestTheTotalDoesNotDependOnThePage(t *testing.T) {
	t.Parallel()
	const n = 300
	l, _ := openLog(t, zap.NewNop())
	noon := time.Now().Add(-time.Hour)
	for i := range n {
		l.Add(&Record{At: noon.Add(time.Duration(i) * time.Second), Status: 200 + i%2, WorkspaceID: "w"})
	}
	wait(t, "all are written", func() bool { list, _ := l.List(t.Context(), &Filter{}, Page{}); return list.Total == n })
	for _, p := range []Page{{}, {Limit: 1}, {Limit: 10}, {Limit: 100, Skip: 40}, {Limit: 1000}} {
		list, err := l.List(t.Context(), &Filter{Statuses: []string{"201"}}, p)
		if err != nil || list.Total != n/2 || !list.Exact || list.More != (p.Limit+p.Skip < n/2) {
			t.Errorf("%+v: %d, exactly: %t, more: %t, %v", p, list.Total, list.Exact, list.More, err)
		}
	}
}
