package exchange

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
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
	t.Parallel()
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
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/", iotest.ErrReader(errors.New("was read")))
	r.ContentLength = 101
	if _, err := readWhole(r, 100); !errors.Is(err, errBodyTooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestReadBodyStopsSoonAfterTheLimit(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	for came, most := range map[int]int{1: startSize, startSize - 1: startSize, startSize + 1: trust * startSize, trust*startSize + 1: maxPooled} {
		r := sized(strings.Repeat("x", came))
		r.ContentLength = 1 << 40
		b, err := readWhole(r, 1<<41)
		if err != nil {
			t.Fatal(err)
		}
		if cap(b.b) > most {
			t.Errorf("%d bytes came: reserved %d for a promise; expected at most %d", came, cap(b.b), most)
		}
		b.Release()
	}
}

// A body whose length is known is copied once on its way into its buffer, and then no more than a
// small part of it.
func TestReadBodyGrowsItsBufferSeldom(t *testing.T) {
	t.Parallel()
	for _, size := range []int{200 << 10, 2 << 20, 4 << 20} {
		src := &roomy{left: size}
		b, err := readBody(src, int64(size), 8<<20, nil)
		if err != nil || len(b.b) != size {
			t.Fatalf("got %d bytes, %v", len(b.b), err)
		}
		b.Release()
		if src.rooms > 3 || src.copied > size/6 {
			t.Errorf("%d bytes: %d buffers, %d bytes copied from one to the next", size, src.rooms, src.copied)
		}
	}
}

// A roomy body fills whatever it is read into, and counts the buffers that were used for it.
type roomy struct{ left, read, rooms, copied int }

func (r *roomy) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), r.left)
	if r.rooms++; r.rooms > 1 {
		r.copied += r.read
	}
	r.left, r.read = r.left-n, r.read+n
	return n, nil
}

func TestReadBodyPassesTheErrorOfABrokenBodyOn(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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

// forwarded prepares a call and returns the body that goes upstream.
func (w *world) forwarded(t testing.TB, r *http.Request) (*Exchange, string) {
	t.Helper()
	x := w.Begin(httptest.NewRecorder(), r, endpointOf(r))
	defer x.Close()
	if err := x.Prepare(limits); err != nil {
		t.Fatalf("refused: %v", err)
	}
	b, _, err := x.chosen.Payload().JSON(false)
	if err != nil {
		t.Fatalf("no body: %v", err)
	}
	defer b.Release()
	return x, string(b.Bytes())
}

func TestBodyGoesOnByteForByteSaveForTheModel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const rest = ` , "messages":[{"role":"user","content":"\u00e9 \"@own/gpt\" \/"}],"unknown":{"a":[1e400,-0.0,1.10]},"z":null , "dup":1,"dup":2 }` + "\n\t"
	for _, c := range []struct{ body, want string }{
		{`{"model":"gpt"` + rest, ``},
		{`{"model":"@cf/meta/llama"` + rest, ``},
		{`{"model":"@hf/a/b"` + rest, ``},
		{`{"model":"@file/gpt"` + rest, `{"model":"gpt"` + rest},
		{` { "model" : "@file/a/b"` + rest, ` { "model" : "a/b"` + rest},
		{`{"mod\u0065l":"@file/gpt"` + rest, `{"mod\u0065l":"gpt"` + rest},
		{`{"model":"\u0040file\/gpt"` + rest, `{"model":"gpt"` + rest},
		{`{"model":"@file/a\"b\\c\u00e9"` + rest, `{"model":"a\"b\\cé"` + rest},
		{`{"model":"@file/@cf/x"` + rest, `{"model":"@cf/x"` + rest},
	} {
		if c.want == "" {
			c.want = c.body
		}
		if x, got := w.forwarded(t, w.good(c.body)); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s (model %q)", c.body, got, c.want, x.Model)
		}
	}
}

// The body that goes upstream is the client's with another model in it, for
// whoever parses both.
func mustReplaceOnlyTheModel(t testing.TB, x *Exchange, body, got string) {
	t.Helper()
	if x.chosen.Route.Model == "" {
		if got != body {
			t.Fatalf("%q became %q", body, got)
		}
		return
	}
	var before, after map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &before); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(got), &after); err != nil {
		t.Fatalf("%q became %q, which is not JSON: %v", body, got, err)
	}
	var asked, sent string
	if err := errors.Join(json.Unmarshal(before["model"], &asked), json.Unmarshal(after["model"], &sent)); err != nil {
		t.Fatal(err)
	}
	_, name, _ := strings.Cut(asked, "/")
	before["model"], after["model"] = nil, nil
	if sent != name || !reflect.DeepEqual(before, after) {
		t.Fatalf("%q became %q", body, got)
	}
	head, tail := x.Body.model.Start, len(body)-x.Body.model.End
	if got[:head] != body[:head] || got[len(got)-tail:] != body[len(body)-tail:] {
		t.Fatalf("%q became %q outside the model", body, got)
	}
}

func TestBodyIsTheClientsWithTheModelReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	value := rapid.OneOf(rapid.Just("null"), rapid.Just("1e5"), rapid.Just(`[{"model":"x"}]`), rapid.Just(`{"stream":"y"}`), rapid.Map(rapid.String(), quote))
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.StringN(1, 40, 80).Draw(rt, "model")
		members := []string{messages, `"model":` + quote("@file/"+name)}
		for i, v := range rapid.SliceOfN(value, 0, 4).Draw(rt, "others") {
			members = append(members, quote(fmt.Sprint("k", i, rapid.String().Draw(rt, "key")))+rapid.SampledFrom([]string{":", " : ", ":\n\t"}).Draw(rt, "colon")+v)
		}
		body := "{" + strings.Join(rapid.Permutation(members).Draw(rt, "order"), rapid.SampledFrom([]string{",", " ,\r\n"}).Draw(rt, "comma")) + "}"
		x, got := w.forwarded(t, w.good(body))
		if x.Model != name {
			rt.Fatalf("the model is %q", x.Model)
		}
		mustReplaceOnlyTheModel(t, x, body, got)
	})
}

func quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// What policies see of the model must be what the provider reads.
func TestTheModelIsWhatOtherParsersRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, model := range []string{
		`"gpt"`, `"g\u0070t"`, `"\"\\\/\b\f\n\r\t"`, `"é\u00e9"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00x"`, `"\ud83dx"`, `"\ud83d\u0041bc"`, `"\ud83d\n"`, `"a\u0000b"`, `""`,
	} {
		var want string
		if err := json.Unmarshal([]byte(model), &want); err != nil {
			t.Fatal(err)
		}
		if x, _ := w.forwarded(t, w.good(`{"model":`+model+`,`+messages+`}`)); x.Model != want {
			t.Errorf("%s: got %q, want %q", model, x.Model, want)
		}
	}
}
