// Package reqlogtest is the test suite for implementations of [reqlog.Store].
package reqlogtest

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/reqlog"
)

// timeout is how long the suite waits for background work.
const timeout = 30 * time.Second

// settings keep everything that the suite adds.
var settings = reqlog.Settings{
	Retention: time.Hour, Size: 16 << 20, Queue: 4 << 20,
	Bodies: true, MaxBody: 1 << 10, BodyRetention: time.Hour, BodySize: 16 << 20,
}

// Run tests a store. open returns an empty store and the current time by its clock, and
// closes the store when the test ends, unless Run has closed it.
func Run(t *testing.T, open func(t *testing.T) (s reqlog.Store, now time.Time)) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, reqlog.Store, time.Time)
	}{
		{"finds what was added", testFind},
		{"lists pages, the newest first", testList},
		{"keeps bodies", testBodies},
		{"drops what is too old", testTrim},
		{"counts what it loses", testLost},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, now := open(t)
			s.Configure(settings)
			test.run(t, s, now)
		})
	}
}

// add adds n records, one a second, alternating between two workspaces, and waits until
// they can be read.
func add(t *testing.T, s reqlog.Store, begin time.Time, n int) {
	t.Helper()
	for i := range n {
		r := &reqlog.Record{TraceID: fmt.Sprintf("trace-%d", i), At: begin.Add(time.Duration(i) * time.Second), WorkspaceID: fmt.Sprintf("w%d", i%2), Status: 200}
		if !s.Add(r) {
			t.Fatalf("record %d was not taken", i)
		}
	}
	wait(t, s, n)
}

// wait waits until n records can be read.
func wait(t *testing.T, s reqlog.Store, n int) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(timeout)
	for {
		list, err := s.List(t.Context(), &reqlog.Filter{}, reqlog.Page{Limit: n + 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Records) == n {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%d records can be read, want %d", len(list.Records), n)
		}
	}
}

func testFind(t *testing.T, s reqlog.Store, now time.Time) {
	add(t, s, now.Add(-time.Minute), 4)
	byTrace, err := s.Find(t.Context(), "trace-2", &reqlog.Filter{})
	if err != nil || byTrace == nil || byTrace.ID == "" || byTrace.WorkspaceID != "w0" {
		t.Fatalf("by its trace: %+v, %v", byTrace, err)
	}
	byID, err := s.Find(t.Context(), byTrace.ID, &reqlog.Filter{Workspaces: []string{"w0"}})
	if err != nil || byID == nil || byID.TraceID != "trace-2" {
		t.Errorf("by its id: %+v, %v", byID, err)
	}
	for name, found := range map[string]func() (*reqlog.Record, error){
		"of another workspace": func() (*reqlog.Record, error) {
			return s.Find(t.Context(), byTrace.ID, &reqlog.Filter{Workspaces: []string{"w1"}})
		},
		"of no workspace": func() (*reqlog.Record, error) {
			return s.Find(t.Context(), "trace-2", &reqlog.Filter{Workspaces: []string{}})
		},
		"of nobody": func() (*reqlog.Record, error) { return s.Find(t.Context(), "none", &reqlog.Filter{}) },
	} {
		if r, err := found(); r != nil || err != nil {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func testList(t *testing.T, s reqlog.Store, now time.Time) {
	const n = 10
	add(t, s, now.Add(-time.Minute), n)
	filter := &reqlog.Filter{Workspaces: []string{"w1"}}
	var got []string
	page := reqlog.Page{Limit: 2}
	for pages := 0; ; pages++ {
		list, err := s.List(t.Context(), filter, page)
		if err != nil || pages > n {
			t.Fatalf("page %d: %v", pages, err)
		}
		if pages == 0 && (!list.Exact || list.Total != n/2) {
			t.Errorf("%d match, exactly: %t; want %d", list.Total, list.Exact, n/2)
		}
		for _, r := range list.Records {
			got = append(got, r.TraceID)
		}
		if page.Before = list.Next; list.Next == "" {
			break
		}
	}
	if want := []string{"trace-9", "trace-7", "trace-5", "trace-3", "trace-1"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	between := &reqlog.Filter{From: now.Add(-time.Minute + 3*time.Second), To: now.Add(-time.Minute + 5*time.Second)}
	list, err := s.List(t.Context(), between, reqlog.Page{Limit: n})
	if err != nil || len(list.Records) != 2 || list.Records[0].TraceID != "trace-4" || list.Records[1].TraceID != "trace-3" {
		t.Errorf("between two times: %d records, %v", len(list.Records), err)
	}
}

func testBodies(t *testing.T, s reqlog.Store, now time.Time) {
	if s.MaxBody() != int(settings.MaxBody) {
		t.Errorf("MaxBody is %d", s.MaxBody())
	}
	body := []byte(`{"hello":"world"}`)
	s.Add(&reqlog.Record{TraceID: "t", At: now, WorkspaceID: "w", Request: &reqlog.Body{Size: 100, Bytes: slices.Clone(body)}})
	wait(t, s, 1)
	r, err := s.Find(t.Context(), "t", &reqlog.Filter{})
	if err != nil || r == nil {
		t.Fatalf("%+v, %v", r, err)
	}
	err = s.Bodies(t.Context(), r)
	if err != nil || r.Request == nil || r.Request.Size != 100 || !bytes.Equal(r.Request.Bytes, body) || r.Response != nil {
		t.Errorf("request %+v, response %+v, %v", r.Request, r.Response, err)
	}
}

// testTrim uses a row of old records and one of new ones, which are written separately.
func testTrim(t *testing.T, s reqlog.Store, now time.Time) {
	add(t, s, now.Add(-50*time.Minute), 3)
	s.Add(&reqlog.Record{TraceID: "new", At: now, WorkspaceID: "w"})
	wait(t, s, 4)
	shorter := settings
	shorter.Retention = 10 * time.Minute
	s.Configure(shorter)
	wait(t, s, 1)
	if r, err := s.Find(t.Context(), "new", &reqlog.Filter{}); r == nil || err != nil {
		t.Errorf("the new one: %+v, %v", r, err)
	}
	if s.Lost() != 0 {
		t.Errorf("%d were lost", s.Lost())
	}
}

func testLost(t *testing.T, s reqlog.Store, now time.Time) {
	s.Close()
	r := &reqlog.Record{TraceID: "t", At: now, Request: &reqlog.Body{Size: 1, Bytes: []byte("x")}}
	if s.Add(r) || s.Lost() != 1 || s.LostBodies() != 1 {
		t.Errorf("%d records and %d bodies were lost, want one each", s.Lost(), s.LostBodies())
	}
}
