package inference

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/providers"
)

func maskOf(words ...string) *credentials.Mask {
	m := new(credentials.Mask)
	for _, w := range words {
		m.Add(credentials.NewSecret(w))
	}
	return m
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
	t.Parallel()
	const text = `{"a":"sk-abc/efghijkl","b":"sk-abc\/efghijkl!","c":"sk-sk-abc/efghijk","d":"sk-abc/efghijklsk-abc"}`
	const want = `{"a":"sk**********jkl","b":"****************!","c":"sk-sk-abc/efghijk","d":"sk**********jklsk-abc"}`
	for i := 1; i < len(text); i++ {
		for _, size := range []int{1, 7, 4096} {
			m := masked{src: io.NopCloser(&pieces{[]string{text[:i], text[i:]}}), mask: maskOf("sk-abc/efghijkl")}
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
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[ab]{8,14}`).Draw(t, "credential")
		mask := maskOf(word)
		part := rapid.OneOf(rapid.StringMatching(`[abc]{1,20}`), rapid.Just(word))
		portions := rapid.SliceOfN(part, 0, 20).Draw(t, "portions")
		want := []byte(strings.Join(portions, ""))
		mask.Hide(want)
		var src io.Reader = &pieces{portions}
		if rapid.Bool().Draw(t, "with the end") {
			src = iotest.DataErrReader(src)
		}
		m := masked{src: io.NopCloser(src), mask: mask}
		var got []byte
		for {
			p := make([]byte, rapid.IntRange(1, 64).Draw(t, "size"))
			n, err := m.Read(p)
			got = append(got, p[:n]...)
			if held := len(m.held) - m.done; held >= len(word) {
				t.Fatalf("%d bytes are held back", held)
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
}

func TestMaskingHoldsNoEventBack(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	m := masked{src: r, mask: maskOf("sk-abcdefghijkl")}
	p := make([]byte, 100)
	for _, step := range []struct{ in, out string }{
		{"data: sk-abd\n\n", "data: sk-abd\n\n"},
		{"data: sk-abc", "data: "},
		{"defghijkl\n\n", "sk**********jkl\n\n"},
		{"data: sk-abc", "data: "},
		{"\n\n", "sk-abc\n\n"},
		{"data: a\n\n", "data: a\n\n"},
	} {
		go func() { _, _ = io.WriteString(w, step.in) }()
		if n, err := m.Read(p); err != nil || string(p[:n]) != step.out {
			t.Fatalf("%q: got %q, %v", step.in, p[:n], err)
		}
	}
}

// What a login gave is hidden: a token, and each of the keys of a role.
func TestWhatALoginGaveIsMasked(t *testing.T) {
	t.Parallel()
	for _, token := range []credentials.Secret{
		credentials.NewSecret("token-of-the-provider"),
		providers.RoleToken{AccessKeyID: "ASIA0123456789", SecretAccessKey: "key/of-the-role+1", SessionToken: "session-of-the-role=="}.Secret(),
	} {
		q := &request{target: &exchange.Attempt{Route: new(credentials.Route)}, asked: providers.Call{Token: token}}
		m := new(credentials.Mask)
		q.addCredentials(m)
		for part := range strings.FieldsSeq(token.Reveal()) {
			if got := m.Text("refused " + part + " here"); strings.Contains(got, part) || !strings.HasPrefix(got, "refused ") || !strings.HasSuffix(got, " here") {
				t.Errorf("%s is shown as %s", part, got)
			}
		}
	}
}
