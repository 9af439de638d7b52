package badger

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/caddy-gw/gateway/storage"
)

func TestTooBig(t *testing.T) {
	s := openTest(t, t.TempDir(), Options{})
	for name, size := range map[string][2]int{
		"too many keys":          {maxKeys + 1, 1},
		"too much in small ones": {4, 95 << 10},
		"too much in all":        {33, 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			value := bytes.Repeat([]byte("x"), size[1])
			err := s.Update(t.Context(), func(tx storage.Tx) error {
				for n := range size[0] {
					_ = tx.Set([]byte(strconv.Itoa(n)), value) // ignoring errors
				}
				return nil
			})
			if !errors.Is(err, ErrTooBig) {
				t.Fatalf("Update: %v", err)
			}
			err = s.View(t.Context(), func(tx storage.Tx) error {
				for item, err := range tx.Scan(nil, nil, false) {
					return fmt.Errorf("the scan found %q, %w", item.Key, err)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	// The documented limits of Open can be used.
	err := s.Update(t.Context(), func(tx storage.Tx) error {
		for n := range 3_200 {
			if err := tx.Set([]byte(strconv.Itoa(n)), nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	// A resource that replaces another one writes two rows and their changes.
	err = s.Update(t.Context(), func(tx storage.Tx) error {
		row := bytes.Repeat([]byte("x"), valueThreshold-100)
		return errors.Join(tx.Set([]byte("a"), row), tx.Set([]byte("b"), row), tx.Set([]byte("c"), row[:64<<10]))
	})
	if err != nil {
		t.Error(err)
	}
}

// TestRunsAloneAtLast: another transaction conflicts with each attempt until it has to
// wait.
func TestRunsAloneAtLast(t *testing.T) {
	s := openTest(t, t.TempDir(), Options{})
	others := make(chan error, maxConflicts+1)
	runs := 0
	err := s.Write(t.Context(), func(tx storage.Tx) error {
		for _, err := range tx.Scan([]byte("range "), nil, false) {
			if err != nil {
				return err
			}
		}
		run := runs
		runs++
		go func() { others <- s.Write(t.Context(), set(fmt.Sprint("range ", run), "")) }()
		if run < maxConflicts {
			if err := <-others; err != nil {
				return err
			}
		}
		return tx.Set([]byte("result"), []byte(strconv.Itoa(run)))
	})
	if err != nil {
		t.Fatal(err)
	}
	if runs != maxConflicts+1 {
		t.Fatalf("ran %d times", runs)
	}
	if err := <-others; err != nil {
		t.Fatal(err)
	}
	wantValue(t, s, "result", strconv.Itoa(maxConflicts))
}

// TestNoFalseConflict: a scan that stops early does not conflict with later keys, so
// the first item of a queue can be removed while others are appended.
func TestNoFalseConflict(t *testing.T) {
	s := openTest(t, t.TempDir(), Options{})
	for _, key := range []string{"q1", "q2", "q8", "q9"} {
		if err := s.Write(t.Context(), set(key, "")); err != nil {
			t.Fatal(err)
		}
	}
	for _, reverse := range []bool{false, true} {
		runs := 0
		err := s.Write(t.Context(), func(tx storage.Tx) error {
			runs++
			for item, err := range tx.Scan([]byte("q"), nil, reverse) {
				if err != nil {
					return err
				}
				if err := tx.Delete(item.Key); err != nil {
					return err
				}
				break
			}
			return s.Write(t.Context(), set(fmt.Sprint("q5", reverse), ""))
		})
		if err != nil || runs != 1 {
			t.Errorf("reverse %t: %d runs, %v", reverse, runs, err)
		}
	}
}

func TestRecent(t *testing.T) {
	var r recent
	spans := []span{spanOf([]byte("b"), nil, false)}
	r.add([][]byte{keyOf([]byte("b1"))})
	since := r.last.Load()
	if r.conflicts(spans, since) || !r.conflicts(spans, since-1) {
		t.Error("a commit is in conflict with those that began before it, only")
	}
	r.add([][]byte{keyOf([]byte("a")), keyOf([]byte("c"))})
	if r.conflicts(spans, since) {
		t.Error("a commit outside of the span is not a conflict")
	}
	for range maxRecent {
		r.add([][]byte{keyOf([]byte("a"))})
	}
	if r.keys > maxRecent || len(r.commits) > maxRecent {
		t.Errorf("%d keys of %d commits are remembered", r.keys, len(r.commits))
	}
	if !r.conflicts(spans, since) || r.conflicts(nil, since) {
		t.Error("what is forgotten counts as in conflict, if anything was scanned")
	}
}

func TestSyncsWhatTheLibraryLeavesOut(t *testing.T) {
	s := syncer{memtable: "00003.mem", valueLog: "000009.vlog"}
	names := []string{
		"MANIFEST", "00004.mem", "00005.mem", "00003.mem", "000010.vlog", "000008.vlog", "000009.vlog",
		"000011.vlog", "000007.sst", "DISCARD", "LOCK",
	}
	files, newNames := s.behind(names)
	slices.Sort(files)
	if want := []string{"000009.vlog", "000010.vlog", "00003.mem", "00004.mem"}; !slices.Equal(files, want) {
		t.Errorf("syncs %q, want %q", files, want)
	}
	if !newNames {
		t.Error("does not sync the directory")
	}
	s = syncer{memtable: "99999.mem", valueLog: "999999.vlog"}
	files, newNames = s.behind([]string{"99999.mem", "100000.mem", "999999.vlog"})
	if want := []string{"99999.mem"}; !slices.Equal(files, want) || !newNames {
		t.Errorf("past the length of the names: syncs %q, %t", files, newNames)
	}
	s.memtable = "100000.mem"
	if files, newNames = s.behind([]string{"100000.mem", "999999.vlog"}); len(files) > 0 || newNames {
		t.Errorf("without a change: syncs %q, %t", files, newNames)
	}
}
