package exchange

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// A drip is a client that sends portions of n bytes, with a pause before each.
type drip struct {
	pause time.Duration
	n     int
	burst int // comes at once, before all else
	left  int
	stop  chan struct{} // closed by a read deadline
	once  bool
}

func (d *drip) Read(p []byte) (int, error) {
	if n := min(len(p), d.burst); n > 0 {
		d.burst -= n
		return n, nil
	}
	select {
	case <-d.stop:
		return 0, errors.New("i/o timeout")
	case <-time.After(d.pause):
	}
	if d.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), d.n, d.left)
	d.left -= n
	return n, nil
}

func (d *drip) SetReadDeadline(time.Time) error {
	if !d.once {
		d.once = true
		close(d.stop)
	}
	return nil
}

type dripWriter struct {
	http.ResponseWriter
	*drip
}

func TestABodyHasToComeInTime(t *testing.T) {
	const timeout = time.Minute
	for name, c := range map[string]struct {
		pause   time.Duration
		n, size int
		slow    bool
		after   time.Duration // at most
		burst   int
	}{
		"at once":                            {0, 1 << 20, 10 << 20, false, 0, 0},
		"steadily":                           {time.Second, 2 << 10, 1 << 20, false, time.Hour, 0},
		"with long pauses, but much":         {50 * time.Second, 1 << 20, 8 << 20, false, time.Hour, 0},
		"never":                              {time.Hour, 1, 100, true, timeout, 0},
		"byte by byte, without a pause":      {59 * time.Second, 1, 1 << 20, true, timeout + time.Second, 0},
		"always a little less than enough":   {time.Second, minRate - 24, 100 << 20, true, 50 * timeout, 0},
		"much at once, and then hardly more": {59 * time.Second, 1, 1 << 20, true, 2 * timeout, 30 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &drip{pause: c.pause, n: c.n, burst: c.burst, left: c.size, stop: make(chan struct{})}
				// A timer of another bubble would not do.
				own := new(readTimer)
				own.timer = time.AfterFunc(time.Hour, own.expire)
				own.timer.Stop()
				own.to = &dripWriter{httptest.NewRecorder(), d}
				a := &timedBody{src: d, to: own.to, timeout: timeout, timer: own}
				begun := time.Now()
				n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{a}, make([]byte, 1<<20))
				switch {
				case errors.Is(err, errBodyStalled) != c.slow, !c.slow && (err != nil || n != int64(c.size+c.burst)):
					t.Errorf("got %d bytes, %v", n, err)
				case c.slow && time.Since(begun) > c.after:
					t.Errorf("noticed after %v", time.Since(begun))
				}
				if _, err := a.Read(make([]byte, 1)); c.slow && !errors.Is(err, errBodyStalled) {
					t.Errorf("read again: %v", err)
				}
			})
		})
	}
}

func TestAnArrivalPassesBytesAndErrorsOn(t *testing.T) {
	t.Parallel()
	broken := errors.New("reset")
	for range 3 { // with a watch of the pool, too
		for _, timeout := range []time.Duration{0, time.Minute} {
			a := &timedBody{src: iotest.HalfReader(strings.NewReader("whole body")), to: httptest.NewRecorder(), timeout: timeout}
			if b, err := io.ReadAll(a); err != nil || string(b) != "whole body" {
				t.Errorf("got %q, %v", b, err)
			}
			a = &timedBody{src: iotest.ErrReader(broken), to: httptest.NewRecorder(), timeout: timeout}
			if _, err := a.Read(make([]byte, 1)); !errors.Is(err, broken) {
				t.Errorf("got %v", err)
			}
		}
	}
}

func BenchmarkSmallBody(b *testing.B) {
	w := httptest.NewRecorder()
	body := strings.NewReader("")
	b.ReportAllocs()
	var a timedBody
	for b.Loop() {
		body.Reset("a small body")
		a.src, a.to, a.timeout = body, w, time.Minute
		buffer, err := readBody(&a, 12, 1<<20, nil)
		if err != nil {
			b.Fatal(err)
		}
		buffer.Release()
	}
}
