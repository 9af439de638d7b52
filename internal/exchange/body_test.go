package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
)

// chunked returns a request whose length no header gives.
func chunked(body io.Reader) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", struct{ io.Reader }{body})
	if r.ContentLength != -1 {
		panic("a length is known")
	}
	return r
}

func sized(body string) *http.Request {
	return httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
}

func readWhole(r *http.Request, limit int64) (*Buffer, error) {
	return readBody(r.Body, r.ContentLength, limit, nil)
}

func TestReadBodyTakesUpToTheLimit(t *testing.T) {
	for _, limit := range []int64{0, 1, 7, 100, startSize - 1, startSize, startSize + 1, maxPooled - 1, maxPooled, maxPooled + 1, 3 << 20} {
		for _, size := range []int64{limit - 1, limit, limit + 1, 2 * limit} {
			if size < 0 {
				continue
			}
			body := strings.Repeat("x", int(size))
			for name, r := range map[string]*http.Request{
				"with a length": sized(body), "chunked": chunked(strings.NewReader(body)), "chunked, with EOF on the last read": chunked(iotest.DataErrReader(strings.NewReader(body))),
			} {
				b, err := readWhole(r, limit)
				if size > limit {
					if !errors.Is(err, errBodyTooLarge) || b != nil {
						t.Errorf("%d of %d %s: got %v", size, limit, name, err)
					}
					continue
				}
				if err != nil || string(b.Bytes()) != body {
					t.Errorf("%d of %d %s: got %d bytes, %v", size, limit, name, len(b.Bytes()), err)
					continue
				}
				b.Release()
			}
		}
	}
}

func TestReadBodyRefusesALengthOverTheLimitUnread(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/", iotest.ErrReader(errors.New("was read")))
	r.ContentLength = 101
	if _, err := readWhole(r, 100); !errors.Is(err, errBodyTooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestReadBodyStopsSoonAfterTheLimit(t *testing.T) {
	endless := &countingReader{}
	if _, err := readWhole(chunked(endless), 100_000); !errors.Is(err, errBodyTooLarge) {
		t.Errorf("got %v", err)
	}
	if endless.n > 400_000 {
		t.Errorf("read %d bytes of a body that may have 100000", endless.n)
	}
}

type countingReader struct{ n int }

func (r *countingReader) Read(p []byte) (int, error) {
	r.n += len(p)
	return len(p), nil
}

func TestReadBodyBelievesAPromisedLengthOnlySoFar(t *testing.T) {
	r := sized("x")
	r.ContentLength = 1 << 40
	b, err := readWhole(r, 1<<41)
	if err != nil || cap(b.b) > maxPooled {
		t.Errorf("reserved %d bytes for a promise, %v", cap(b.b), err)
	}
	b.Release()
}

func TestReadBodyPassesTheErrorOfABrokenBodyOn(t *testing.T) {
	broken := errors.New("reset")
	for name, body := range map[string]io.Reader{
		"at once":    iotest.ErrReader(broken),
		"in between": io.MultiReader(strings.NewReader(`{"model":`), iotest.ErrReader(broken)),
	} {
		if b, err := readWhole(chunked(body), 1000); !errors.Is(err, broken) || b != nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := readWhole(chunked(iotest.ErrReader(io.ErrUnexpectedEOF)), 1000); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a body that is cut off: got %v", err)
	}
}

func TestReadBodyTakesBytesInAnyPortions(t *testing.T) {
	body := strings.Repeat("0123456789", 5000)
	for name, r := range map[string]io.Reader{
		"one by one": iotest.OneByteReader(strings.NewReader(body)),
		"by halves":  iotest.HalfReader(strings.NewReader(body)),
	} {
		b, err := readWhole(chunked(r), int64(len(body)))
		if err != nil || string(b.Bytes()) != body {
			t.Errorf("%s: got %d bytes, %v", name, len(b.Bytes()), err)
		}
	}
}

func TestReadersOfABufferAreIndependent(t *testing.T) {
	b, err := readWhole(sized("0123456789"), 100)
	if err != nil {
		t.Fatal(err)
	}
	one, two := b.Reader(), b.Reader()
	half := make([]byte, 5)
	if _, err := io.ReadFull(one, half); err != nil || string(half) != "01234" {
		t.Errorf("got %q, %v", half, err)
	}
	if n, err := one.Read(nil); n != 0 || err != nil {
		t.Errorf("a read of nothing: %d, %v", n, err)
	}
	for name, want := range map[io.Reader]string{one: "56789", two: "0123456789"} {
		if got, err := io.ReadAll(name); string(got) != want || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if err := one.Close(); err != nil {
		t.Error(err)
	}
	if n, err := one.Read(half); n != 0 || err == nil || err == io.EOF {
		t.Errorf("a closed reader: %d, %v", n, err)
	}
	if err := iotest.TestReader(b.Reader(), []byte("0123456789")); err != nil {
		t.Error(err)
	}
}

func TestABufferIsNotUsedAgainBeforeItsLastReaderIsClosed(t *testing.T) {
	b, err := readWhole(sized("mine"), 100)
	if err != nil {
		t.Fatal(err)
	}
	r := b.Reader()
	b.Release()
	if b.refs.Load() != 1 {
		t.Fatalf("%d references", b.refs.Load())
	}
	for range 3 {
		if err := r.Close(); err != nil { // twice does no harm
			t.Error(err)
		}
		if b.refs.Load() != 0 {
			t.Fatalf("%d references", b.refs.Load())
		}
	}
}

// A transport may read and close a request's body after its answer has come, while
// other calls take buffers from the pool.
func TestBuffersAreNotMixedUpBetweenCalls(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var calls, readers sync.WaitGroup
	for c := range 8 {
		calls.Go(func() {
			for i := range 200 {
				body := strings.Repeat(fmt.Sprintf("%d/%d ", c, i), 500)
				b, err := readWhole(sized(body), 1<<20)
				if err != nil {
					t.Error(err)
					return
				}
				slow, given := b.Reader(), b.Reader()
				readers.Go(func() {
					defer func() { _ = slow.Close() }()
					if got, err := io.ReadAll(iotest.HalfReader(slow)); err != nil || string(got) != body {
						t.Errorf("call %d/%d read the body of another", c, i)
						stop()
					}
				})
				readers.Go(func() { _, _ = io.Copy(io.Discard, given) })
				readers.Go(func() { _ = given.Close() })
				if !bytes.Equal(b.Bytes(), []byte(body)) {
					t.Errorf("call %d/%d holds the body of another", c, i)
				}
				b.Release()
				if ctx.Err() != nil {
					return
				}
			}
		})
	}
	calls.Wait()
	readers.Wait()
}

func TestLargeBuffersAreLeftToTheGarbageCollector(t *testing.T) {
	b, _ := newBuffer(maxPooled+1, nil)
	b.Release()
	for range 100 {
		other, _ := newBuffer(1, nil)
		if other == b {
			t.Fatal("a large buffer came back from the pool")
		}
		other.Release()
	}
}
