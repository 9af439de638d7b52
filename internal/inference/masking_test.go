package inference

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/credentials"
)

// maskedWhole is what a text is where it is there as a whole.
func maskedWhole(text string, words [][]byte) string {
	var pairs []string
	for _, w := range words {
		mask := bytes.Clone(w)
		hide(mask)
		pairs = append(pairs, string(w), string(mask))
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

func secretsNamed(names ...string) (secrets []credentials.Secret) {
	for _, n := range names {
		secrets = append(secrets, credentials.NewSecret(n))
	}
	return secrets
}

// A pieces reader gives what it has in pieces.
type pieces struct{ left []string }

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.left[0])
	if p.left[0] = p.left[0][n:]; p.left[0] == "" {
		p.left = p.left[1:]
	}
	return n, nil
}

func TestCredentialsAreMaskedWhereverAnAnswerIsSplit(t *testing.T) {
	words := maskable(secretsNamed("sk-abcdefghijkl", "sk-abcde", "short", "", "sk-abcde"))
	const text = `{"a":"sk-abcdefghijkl","b":"sk-abcde!","c":"sk-sk-abcdefghijk","d":"sk-abcdefghijklsk-abc"}`
	const want = `{"a":"sk**********jkl","b":"********!","c":"sk-********fghijk","d":"sk**********jklsk-abc"}`
	if got := maskedWhole(text, words); got != want {
		t.Fatalf("whole: %s", got)
	}
	for i := 1; i < len(text); i++ {
		for _, size := range []int{1, 7, 4096} {
			m := newMasking(io.NopCloser(&pieces{[]string{text[:i], text[i:]}}), words)
			var got []byte
			for p := make([]byte, size); ; {
				n, err := m.Read(p)
				got = append(got, p[:n]...)
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if string(got) != want {
				t.Errorf("split at %d, read by %d: %s", i, size, got)
			}
		}
	}
}

func TestMaskingIsThatOfTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.StringMatching(`[ab]{8,14}`), 1, 3).Draw(t, "credentials")
		words := maskable(secretsNamed(names...))
		part := rapid.OneOf(rapid.StringMatching(`[abc]{1,20}`), rapid.SampledFrom(names))
		left := rapid.SliceOfN(part, 0, 20).Draw(t, "portions")
		text := strings.Join(left, "")
		var src io.Reader = &pieces{left}
		if rapid.Bool().Draw(t, "with the end") {
			src = iotest.DataErrReader(src)
		}
		m := newMasking(io.NopCloser(src), words)
		var got []byte
		for {
			p := make([]byte, rapid.IntRange(1, 64).Draw(t, "size"))
			n, err := m.Read(p)
			got = append(got, p[:n]...)
			if len(m.held) >= len(words[0]) {
				t.Fatalf("%d bytes are held back", len(m.held))
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if want := maskedWhole(text, words); string(got) != want {
			t.Fatalf("%s: got %s, want %s", text, got, want)
		}
	})
}

func TestMaskingHoldsNoEventBack(t *testing.T) {
	r, w := io.Pipe()
	m := newMasking(r, maskable(secretsNamed("sk-abcdefghijkl")))
	p := make([]byte, 100)
	for _, step := range []struct{ in, out string }{
		{"data: sk-abd\n\n", "data: sk-abd\n\n"},
		{"data: sk-abc", "data: "},
		{"defghijkl\n\n", "sk**********jkl\n\n"},
	} {
		go func() { _, _ = io.WriteString(w, step.in) }()
		if n, err := m.Read(p); err != nil || string(p[:n]) != step.out {
			t.Fatalf("%q: got %q, %v", step.in, p[:n], err)
		}
	}
}
