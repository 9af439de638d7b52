package coding

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// ledger is a Memory.
type ledger struct {
	held, limit int
}

var errMemory = errors.New("no memory")

func (l *ledger) Reserve(n int) error {
	if l.held+n > l.limit {
		return errMemory
	}
	l.held += n
	return nil
}

func (l *ledger) Free(n int) { l.held -= n }

type flusher interface {
	io.WriteCloser
	Flush() error
}

var encoders = map[string]func(io.Writer) flusher{
	"gzip":    func(w io.Writer) flusher { return gzip.NewWriter(w) },
	"x-gzip":  func(w io.Writer) flusher { return gzip.NewWriter(w) },
	"deflate": func(w io.Writer) flusher { return zlib.NewWriter(w) },
	"br":      func(w io.Writer) flusher { return brotli.NewWriter(w) },
	"zstd": func(w io.Writer) flusher {
		z, err := zstd.NewWriter(w)
		if err != nil {
			panic(err)
		}
		return z
	},
}

func encode(t *testing.T, coding, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := encoders[coding](&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func decode(src io.Reader, codings ...string) (string, *ledger, error) {
	l := &ledger{limit: 64 << 20}
	r := NewReader(src, codings, l)
	got, err := io.ReadAll(r)
	r.Release()
	return string(got), l, err
}

func TestTheCodingsOfABodyAreRead(t *testing.T) {
	for _, c := range []struct {
		values  []string
		want    []string
		unknown string
	}{
		{nil, nil, ""},
		{[]string{""}, nil, ""},
		{[]string{"identity"}, nil, ""},
		{[]string{" GZip "}, []string{"gzip"}, ""},
		{[]string{"identity, br"}, []string{"br"}, ""},
		{[]string{"deflate", "zstd"}, []string{"deflate", "zstd"}, ""},
		{[]string{"gzip, compress"}, []string{"gzip", "compress"}, "compress"},
		{[]string{"aes128gcm"}, []string{"aes128gcm"}, "aes128gcm"},
		{[]string{"gzip,gzip,gzip"}, []string{"gzip", "gzip", "gzip"}, "gzip, gzip, gzip"},
	} {
		got := Of(http.Header{"Content-Encoding": c.values})
		if !slices.Equal(got, c.want) || Unknown(got) != c.unknown {
			t.Errorf("%q: got %q, unknown %q", c.values, got, Unknown(got))
		}
	}
	for name := range strings.SplitSeq(Supported, ", ") {
		if Unknown([]string{name}) != "" {
			t.Errorf("%s is said to be supported", name)
		}
	}
}

func TestEveryCodingIsDecodedWhateverTheReads(t *testing.T) {
	for _, text := range []string{"", "x", `{"model":"m"}`, strings.Repeat("All work and no play. ", 4000)} {
		for coding := range encoders {
			encoded := encode(t, coding, text)
			for name, portion := range map[string]func(io.Reader) io.Reader{"at once": func(r io.Reader) io.Reader { return r }, "one by one": iotest.OneByteReader, "EOF with the last": iotest.DataErrReader} {
				got, l, err := decode(portion(bytes.NewReader(encoded)), coding)
				if got != text || err != nil || l.held != 0 {
					t.Errorf("%s, %s: got %d bytes of %d, %v, %d held", coding, name, len(got), len(text), err, l.held)
				}
			}
		}
		for first := range encoders {
			for second := range encoders {
				twice := encode(t, second, string(encode(t, first, text)))
				if got, _, err := decode(bytes.NewReader(twice), first, second); got != text || err != nil {
					t.Errorf("%s, %s: got %d bytes of %d, %v", first, second, len(got), len(text), err)
				}
			}
		}
	}
}

// Some servers leave out the header of zlib.
func TestDeflateWithoutItsHeaderIsDecoded(t *testing.T) {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, 5)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(w, "hello hello hello")
	_ = w.Close()
	if got, _, err := decode(&b, "deflate"); got != "hello hello hello" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// What a provider flushes is there for the reader, before any more comes.
func TestWhatWasFlushedIsDecodedAtOnce(t *testing.T) {
	for coding, encoder := range encoders {
		src, provider := io.Pipe()
		r := NewReader(src, []string{coding}, &ledger{limit: 64 << 20})
		go func() {
			w := encoder(provider)
			for _, text := range []string{"data: 1\n\n", "data: 2\n\n"} {
				_, _ = io.WriteString(w, text)
				_ = w.Flush()
			}
		}()
		p := make([]byte, 100)
		for _, want := range []string{"data: 1\n\n", "data: 2\n\n"} {
			if n, err := io.ReadAtLeast(r, p, len(want)); string(p[:n]) != want || err != nil {
				t.Errorf("%s: got %q, %v", coding, p[:n], err)
			}
		}
		_ = src.Close()
	}
}

func TestABodyThatIsNotWhatItsCodingSaysIsAnError(t *testing.T) {
	for coding := range encoders {
		encoded := encode(t, coding, strings.Repeat("some text ", 100))
		for name, body := range map[string][]byte{
			"nothing": {}, "text": []byte("{\"model\":\"m\"} and some more of that"), "cut": encoded[:len(encoded)-5], "cut at its beginning": encoded[:1],
		} {
			_, _, err := decode(bytes.NewReader(body), coding)
			if own := new(Error); !errors.As(err, &own) || own.Coding != coding {
				t.Errorf("%s, %s: got %v", coding, name, err)
			}
		}
		reset := errors.New("reset")
		for n := range 10 {
			_, _, err := decode(io.MultiReader(bytes.NewReader(encoded[:n]), iotest.ErrReader(reset)), coding)
			if !errors.Is(err, reset) || errors.As(err, new(*Error)) {
				t.Errorf("%s, broken off after %d: got %v", coding, n, err)
			}
		}
	}
}

func TestABombIsNotUnpacked(t *testing.T) {
	zeros := strings.Repeat("\x00", 32<<20)
	for coding := range encoders {
		bomb := encode(t, coding, zeros)
		got, _, err := decode(bytes.NewReader(bomb), coding)
		if !errors.Is(err, ErrRatio) || len(got) > 2*free {
			t.Errorf("%s: got %d bytes of %d, %v", coding, len(got), len(bomb), err)
		}
		// One inside of another is found by the outer.
		got, _, err = decode(bytes.NewReader(encode(t, "gzip", string(bomb))), coding, "gzip")
		if !errors.Is(err, ErrRatio) || len(got) > 2*free {
			t.Errorf("%s in gzip: got %d bytes, %v", coding, len(got), err)
		}
		small := zeros[:free/2]
		if got, _, err = decode(bytes.NewReader(encode(t, coding, small)), coding); got != small || err != nil {
			t.Errorf("%s: a small one: got %d bytes, %v", coding, len(got), err)
		}
	}
}

func TestDecodersReserveTheirMemory(t *testing.T) {
	for coding := range encoders {
		encoded := encode(t, coding, "text")
		r := NewReader(bytes.NewReader(encoded), []string{coding}, &ledger{limit: 100})
		if _, err := io.ReadAll(r); !errors.Is(err, errMemory) {
			t.Errorf("%s: got %v", coding, err)
		}
	}
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithWindowSize(32<<20))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte("x"))
	_ = w.Flush()
	if _, l, err := decode(&b, "zstd"); !errors.Is(err, zstd.ErrWindowSizeExceeded) || l.held != 0 {
		t.Errorf("a large window: got %v", err)
	}
}
