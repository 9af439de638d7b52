package audit

import (
	"context"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/storetest"
	"github.com/caddy-gw/gateway/storage"
)

// Lists are what a loop over all rows finds.
func TestListsAreLikeThoseOfANaiveModel(t *testing.T) {
	trail, _, c := openTrail(t)
	const n = 2*perBlock + 300
	var model []*Record // the newest first
	of := func(i, values int) string { return fmt.Sprint("v", i%values) }
	for chunk := range slices.Chunk(slices.Collect(numbers(n)), 100) {
		err := trail.db.Update(t.Context(), func(tx *storage.Txn) error {
			for _, i := range chunk {
				c.set(noon.Add(time.Duration(i/3) * time.Second))
				r := &Record{
					WorkspaceID: []string{"", "red", "blue"}[i%3], Scope: of(i, 5) + "." + of(i, 7), ResourceID: of(i, 400), Method: of(i, 3), Path: of(i, 90),
					Status: 200 + i%4, RequestID: of(i, n), IP: of(i, 11), Country: of(i, 2),
				}
				switch i % 4 {
				case 0:
					r.KeyID = of(i, 30)
				case 1:
					r.KeyID, r.UserID = of(i, 30), of(i, 8)
				case 2:
					r.UserID = of(i, 8)
				}
				if err := trail.Add(tx, r); err != nil {
					return err
				}
				model = append(model, r)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Reverse(model)
	cut := 0
	check := func(t *rapid.T) {
		value := func(name string, values ...string) string {
			return rapid.SampledFrom(append(slices.Repeat([]string{""}, 2*len(values)), values...)).Draw(t, name)
		}
		some := func(name string, n int) string { return value(name, of(rapid.IntRange(0, n).Draw(t, name), n+1)) }
		at := func(name string) time.Time {
			if rapid.Bool().Draw(t, name) {
				return time.Time{}
			}
			return noon.Add(time.Duration(rapid.IntRange(-5, n/3+5).Draw(t, name)) * time.Second)
		}
		f := &Filter{
			From: at("from"), To: at("to"), WorkspaceID: value("workspace", "red", "blue", "green"), Who: some("who", 30), Actor: Actor(value("actor", "api_key", "user", "system")),
			Resource: some("resource", 5), Action: some("action", 7), ResourceID: some("id", 400), Method: some("method", 3), Path: some("path", 90),
			Status: rapid.SampledFrom([]int{0, 0, 0, 200, 201, 500}).Draw(t, "status"), RequestID: some("request", n), IP: some("ip", 11), Country: some("country", 2),
		}
		skip, limit := rapid.SampledFrom([]int{0, 0, 1, 100, n}).Draw(t, "skip"), rapid.SampledFrom([]int{0, 1, 10, n}).Draw(t, "limit")
		var want []*Record
		for _, r := range model[:len(model)-cut] {
			resource, action := r.ResourceType()
			is := func(want, got string) bool { return want == "" || want == got }
			if is(f.WorkspaceID, r.WorkspaceID) && (is(f.Who, r.KeyID) || is(f.Who, r.UserID)) && is(string(f.Actor), string(r.Actor())) && is(f.Resource, resource) &&
				is(f.Action, action) && is(f.ResourceID, r.ResourceID) && is(f.Method, r.Method) && is(f.Path, r.Path) && (f.Status == 0 || f.Status == r.Status) &&
				is(f.RequestID, r.RequestID) && is(f.IP, r.IP) && is(f.Country, r.Country) && !r.At.Before(f.From) && (f.To.IsZero() || !r.At.After(f.To)) {
				want = append(want, r)
			}
		}
		got, err := trail.List(t.Context(), f, skip, limit)
		if err != nil {
			t.Fatal(err)
		}
		if got.Total != len(want) {
			t.Fatalf("total %d, want %d", got.Total, len(want))
		}
		want = want[min(skip, len(want)):]
		want = want[:min(limit, len(want))]
		if len(got.Records) != len(want) {
			t.Fatalf("%d records, want %d", len(got.Records), len(want))
		}
		for i := range want {
			if got.Records[i].Number != want[i].Number {
				t.Fatalf("record %d is row %d, want %d", i, got.Records[i].Number, want[i].Number)
			}
		}
	}
	rapid.Check(t, check)
	// And after a cut in a block.
	var err error
	if cut, err = trail.Cut(t.Context(), noon.Add(400*time.Second), func(storage.Tx) error { return nil }); err != nil || cut != 1200 {
		t.Fatalf("%d, %v", cut, err)
	}
	listed := trail.all(t, &Filter{Resource: "audit_logs"})
	model = append(listed, model...)
	rapid.Check(t, check)
	verified(t, trail, nil, "")
}

func numbers(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// fill adds n rows of many callers, workspaces and resources, one a second.
func (t *Trail) fill(tb testing.TB, c *clock, n int) {
	tb.Helper()
	for chunk := range slices.Chunk(slices.Collect(numbers(n)), 100) {
		err := t.db.Write(tb.Context(), func(tx storage.Tx) error {
			for _, i := range chunk {
				c.set(noon.Add(time.Duration(i) * time.Second))
				r := &Record{
					OrganisationID: "0191e7a3-0000-7000-8000-000000000000", WorkspaceID: fmt.Sprint("w", i%20), KeyID: fmt.Sprint("k", i%50), KeyName: "ci", Scope: fmt.Sprintf("r%d.%d", i%15, i%4),
					ResourceID: fmt.Sprint(i % 1000), Method: "PUT", Path: fmt.Sprint("/v1/configs/", i%1000), Status: 200 + i%2, IP: fmt.Sprint("192.0.2.", i%200), RequestID: fmt.Sprint(i),
					Changes: []Change{{"name", `"a name of it"`, `"another name of it"`}},
				}
				if err := t.add(tx, r); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
}

// filtersOf are filters of n rows that [Trail.fill] has added.
func filtersOf(n int) map[string]*Filter {
	at := func(i int) time.Time { return noon.Add(time.Duration(i) * time.Second) }
	return map[string]*Filter{
		"all": {}, "time": {From: at(n / 4), To: at(n / 2)}, "workspace": {WorkspaceID: "w3"}, "request": {RequestID: fmt.Sprint(n / 3)}, "frequent": {Method: "PUT", Status: 200},
		"rare and frequent": {RequestID: fmt.Sprint(n / 3), Method: "PUT", Actor: ActorKey},
		"several":           {From: at(n / 10), To: at(n), WorkspaceID: "w3", Resource: "r3", Who: "k3", Action: "3", Status: 201},
	}
}

// counted counts what is read from a store.
type counted struct {
	storage.Store

	reads int
}

func (s *counted) View(ctx context.Context, fn func(storage.Tx) error) error {
	return s.Store.View(ctx, func(tx storage.Tx) error { return fn(countedTx{tx, &s.reads}) })
}

type countedTx struct {
	storage.Tx

	reads *int
}

func (t countedTx) Get(key []byte) ([]byte, error) {
	*t.reads++
	return t.Tx.Get(key)
}

func (t countedTx) Scan(prefix, start []byte, reverse bool) iter.Seq2[storage.Item, error] {
	return func(yield func(storage.Item, error) bool) {
		for item, err := range t.Tx.Scan(prefix, start, reverse) {
			*t.reads++
			if !yield(item, err) {
				return
			}
		}
	}
}

// A list reads the rows of its page, those that the bisection of a time looks at, and of each term one posting for each
// block: not more with more rows.
func TestAListReadsPostingsAndItsPage(t *testing.T) {
	const n, page = 12 * perBlock, 100
	c, store := &clock{at: noon}, &counted{Store: storetest.Open(t)}
	trail := reopen(t, storage.NewDB(store), c, "the key")
	trail.fill(t, c, n)
	for name, f := range filtersOf(n) {
		for _, skip := range []int{0, 5 * page} {
			store.reads = 0
			list, err := trail.List(t.Context(), f, skip, page)
			if err != nil || list.Total == 0 {
				t.Fatalf("%s: %d, %v", name, list.Total, err)
			}
			most := page + 2 + len(f.terms())*(n/perBlock+2) // 2: the head and the cut
			if name == "rare and frequent" {
				most = 1 + 2 + len(f.terms()) + 1
			}
			switch {
			case f.From.IsZero():
			case skip == 0:
				most += 2 * bits.Len(n)
			default: // the beginnings of blocks are known
				most += 2 * bits.Len(perBlock)
			}
			if store.reads > most {
				t.Errorf("%s: %d reads of %d rows, want at most %d", name, store.reads, n, most)
			}
		}
	}
}

// BenchmarkList lists pages of a million rows, or with -short, of 20,000.
func BenchmarkList(b *testing.B) {
	trail, _, c := openTrail(b)
	n := 1_000_000
	if testing.Short() {
		n = 20_000
	}
	trail.fill(b, c, n)
	for name, f := range filtersOf(n) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				list, err := trail.List(b.Context(), f, 0, 100)
				if err != nil || list.Total == 0 {
					b.Fatalf("%d, %v", list.Total, err)
				}
			}
		})
	}
}
