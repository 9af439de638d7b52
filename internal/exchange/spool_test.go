package exchange

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"
)

// waitLimit is how long a test waits for what should come at once.
const waitLimit = 5 * time.Second

func TestASpoolIsReadAgainFromItsBeginning(t *testing.T) {
	t.Parallel()
	const body = "0123456789"
	for _, limit := range []int{len(body), len(body) + 1, 1 << 20} {
		s := NewSpool(strings.NewReader(body), limit, nil)
		if s.Replayable() != nil {
			t.Errorf("limit %d: not replayable before it was read", limit)
		}
		for n := range 3 {
			r := s.Reader()
			if got, err := io.ReadAll(iotest.OneByteReader(r)); err != nil || string(got) != body {
				t.Errorf("limit %d, reader %d: got %q, %v", limit, n, got, err)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			if s.Replayable() != nil {
				t.Errorf("limit %d: not replayable after reader %d", limit, n)
			}
		}
	}
	if err := iotest.TestReader(NewSpool(strings.NewReader(body), 100, nil).Reader(), []byte(body)); err != nil {
		t.Error(err)
	}
}

func TestASpoolGoesOnWhereAReaderStopped(t *testing.T) {
	t.Parallel()
	s := NewSpool(strings.NewReader("0123456789"), 100, nil)
	first := s.Reader()
	some := make([]byte, 4)
	if _, err := io.ReadFull(first, some); err != nil || string(some) != "0123" {
		t.Fatalf("got %q, %v", some, err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if n, err := first.Read(some); n != 0 || err == nil || err == io.EOF {
		t.Errorf("a closed reader: %d, %v", n, err)
	}
	if got, err := io.ReadAll(s.Reader()); err != nil || string(got) != "0123456789" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestASpoolOverItsLimitIsReadOnceOnly(t *testing.T) {
	t.Parallel()
	const body = "0123456789"
	for _, limit := range []int{0, 1, 5, len(body) - 1} {
		s := NewSpool(iotest.OneByteReader(strings.NewReader(body)), limit, nil)
		first := s.Reader()
		if got, err := io.ReadAll(first); err != nil || string(got) != body { // the first reader is not disturbed
			t.Errorf("limit %d: got %q, %v", limit, got, err)
		}
		if s.Replayable() == nil {
			t.Errorf("limit %d: replayable", limit)
		}
		second := s.Reader()
		for range 2 {
			if n, err := second.Read(make([]byte, 10)); n != 0 || !errors.Is(err, ErrNotReplayable) {
				t.Errorf("limit %d: got %d, %v", limit, n, err)
			}
		}
		if len(s.kept) != 0 {
			t.Errorf("limit %d: %d bytes are kept for nobody", limit, len(s.kept))
		}
	}
	// What an attempt that failed early has read is kept until the limit is passed.
	s := NewSpool(iotest.OneByteReader(strings.NewReader(body)), 5, nil)
	early := s.Reader()
	if _, err := io.ReadFull(early, make([]byte, 5)); err != nil || s.Replayable() != nil {
		t.Fatalf("not replayable at its limit: %v", err)
	}
	if got, err := io.ReadAll(s.Reader()); err != nil || string(got) != body || s.Replayable() == nil {
		t.Errorf("got %q, %v; replayable %v", got, err, s.Replayable())
	}
	if _, err := early.Read(make([]byte, 1)); !errors.Is(err, ErrNotReplayable) { // it is behind the other now
		t.Errorf("a reader that fell behind: got %v", err)
	}
}

func TestASpoolNeverKeepsMoreThanItsLimit(t *testing.T) {
	t.Parallel()
	s := NewSpool(strings.NewReader(strings.Repeat("x", 1<<20)), 1000, nil)
	r := s.Reader()
	p := make([]byte, 300)
	for {
		_, err := r.Read(p)
		if cap(s.kept) > 2000 {
			t.Fatalf("%d bytes for a limit of 1000", cap(s.kept))
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestASpoolRepeatsTheErrorOfABodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	broken := errors.New("reset")
	s := NewSpool(io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken)), 100, nil)
	for n := range 2 {
		if got, err := io.ReadAll(s.Reader()); !errors.Is(err, broken) || string(got) != "half" {
			t.Errorf("reader %d: got %q, %v", n, got, err)
		}
	}
	s = NewSpool(iotest.DataErrReader(strings.NewReader("whole")), 100, nil) // EOF with the last bytes
	for n := range 2 {
		if got, err := io.ReadAll(s.Reader()); err != nil || string(got) != "whole" {
			t.Errorf("reader %d: got %q, %v", n, got, err)
		}
	}
}

// A slow body gives its portions when the test says so.
type slowBody struct {
	asked chan struct{} // one each time that it is read
	next  chan string   // closed: EOF
}

func (b *slowBody) Read(p []byte) (int, error) {
	b.asked <- struct{}{}
	text, ok := <-b.next
	if !ok {
		return 0, io.EOF
	}
	return copy(p, text), nil
}

// An HTTP transport that gave up on an attempt may still be blocked in a read of its
// body while the next attempt reads.
func TestABlockedReaderThatWasClosedDoesNotDisturbTheNext(t *testing.T) {
	t.Parallel()
	src := &slowBody{asked: make(chan struct{}, 100), next: make(chan string, 100)}
	s := NewSpool(src, 100, nil)
	src.next <- "abc"
	given := s.Reader()
	if n, err := given.Read(make([]byte, 10)); n != 3 || err != nil {
		t.Fatalf("got %d, %v", n, err)
	}
	<-src.asked
	var blocked sync.WaitGroup
	blocked.Go(func() { _, _ = given.Read(make([]byte, 10)) })
	<-src.asked // it waits for the client now
	defer blocked.Wait()
	defer close(src.next)

	done := make(chan struct{})
	var got []byte
	var replayable bool
	next := s.Reader()
	go func() {
		defer close(done)
		_ = given.Close()
		replayable = s.Replayable() == nil
		got = make([]byte, 3)
		_, _ = io.ReadFull(next, got)
	}()
	select {
	case <-done:
		if !replayable || string(got) != "abc" {
			t.Errorf("replayable %v, read %q", replayable, got)
		}
	case <-time.After(waitLimit):
		t.Error("the next reader waits for the client, though what it reads was kept")
		src.next <- "def"
		<-done
		return
	}
	src.next <- "def" // the blocked reader gets it, and so must the next one
	if _, err := io.ReadFull(next, got); err != nil || string(got) != "def" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestReadersOfASpoolAllReadTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "body")
		limit := rapid.IntRange(0, 250).Draw(t, "limit")
		var src io.Reader = bytes.NewReader(body)
		if rapid.Bool().Draw(t, "EOF with the last bytes") {
			src = iotest.DataErrReader(src)
		}
		s := NewSpool(src, limit, nil)
		readers := make([]io.ReadCloser, 3)
		read := make([]int, len(readers))
		most := 0 // bytes that any reader has
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			n := rapid.IntRange(0, len(readers)-1).Draw(t, "reader")
			if readers[n] == nil || rapid.IntRange(0, 5).Draw(t, "again") == 0 {
				readers[n], read[n] = s.Reader(), 0
			}
			p := make([]byte, rapid.IntRange(1, 60).Draw(t, "size"))
			got, err := readers[n].Read(p)
			if !bytes.Equal(p[:got], body[read[n]:read[n]+got]) {
				t.Fatalf("read %q at %d", p[:got], read[n])
			}
			behind := read[n] < most
			read[n] += got
			most = max(most, read[n])
			switch {
			case errors.Is(err, ErrNotReplayable) && behind && most > limit:
			case err == io.EOF && read[n] == len(body):
			case err != nil:
				t.Fatalf("at %d of %d, %d were read, limit %d: %v", read[n], len(body), most, limit, err)
			case behind && most > limit:
				t.Fatalf("a reader at %d goes on though %d were read and %d are kept", read[n], most, limit)
			}
			if (s.Replayable() == nil) != (most <= limit) {
				t.Fatalf("%d were read, limit %d: replayable %v", most, limit, s.Replayable())
			}
		}
	})
}

func TestASpoolIsSafeForReadersThatAreClosedMeanwhile(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("0123456789", 5000)
	s := NewSpool(iotest.HalfReader(strings.NewReader(body)), len(body), nil)
	var readers sync.WaitGroup
	for n := range 8 {
		r := s.Reader()
		readers.Go(func() {
			got, err := io.ReadAll(r)
			if !strings.HasPrefix(body, string(got)) || n%2 == 0 && (err != nil || len(got) != len(body)) {
				t.Errorf("reader %d: %d bytes, %v", n, len(got), err)
			}
		})
		if n%2 == 1 {
			readers.Go(func() { _ = r.Close() })
		}
		readers.Go(func() { _ = s.Replayable() })
	}
	readers.Wait()
}

func TestALimitedBodyFailsPastItsLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ size, limit int }{{0, 0}, {1, 0}, {9, 10}, {10, 10}, {11, 10}, {1000, 10}} {
		for name, wrap := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "one by one": iotest.OneByteReader, "EOF with the last bytes": iotest.DataErrReader,
		} {
			got, err := io.ReadAll(&limited{wrap(strings.NewReader(strings.Repeat("x", c.size))), int64(c.limit)})
			if errors.Is(err, errBodyTooLarge) != (c.size > c.limit) || err != nil && !errors.Is(err, errBodyTooLarge) {
				t.Errorf("%d of %d, %s: %v", c.size, c.limit, name, err)
			}
			if len(got) > c.limit {
				t.Errorf("%d of %d, %s: %d bytes went on", c.size, c.limit, name, len(got))
			}
		}
	}
}
