package credentials

import (
	"bytes"
	"crypto/rand"
	"errors"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

func masterBox(t testing.TB, key string) *Box {
	t.Helper()
	b, err := NewMasterBox(rand.Reader, NewSecret(key))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func dataBox(t testing.TB, master *Box, purpose string) *Box {
	t.Helper()
	sealed, err := master.NewDataKey(purpose)
	if err != nil {
		t.Fatal(err)
	}
	b, err := master.Open(purpose, sealed)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func seal(t testing.TB, b *Box, secret, id string) []byte {
	t.Helper()
	sealed, err := b.Seal(NewSecret(secret), id)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func TestBoxOpensWhatItSealed(t *testing.T) {
	b := dataBox(t, masterBox(t, "master"), "p")
	rapid.Check(t, func(t *rapid.T) {
		secret, id := rapid.String().Draw(t, "secret"), rapid.String().Draw(t, "id")
		sealed, err := b.Seal(NewSecret(secret), id)
		if err != nil {
			t.Fatal(err)
		}
		got, err := b.Unseal(sealed, id)
		if err != nil || got.Reveal() != secret {
			t.Fatalf("got %q, %v", got.Reveal(), err)
		}
	})
}

func TestBoxSealsTheSameSecretDifferentlyEachTime(t *testing.T) {
	b := dataBox(t, masterBox(t, "master"), "p")
	one, two := seal(t, b, canary, "id"), seal(t, b, canary, "id")
	if bytes.Equal(one, two) {
		t.Error("two seals of one secret are equal")
	}
	if bytes.Contains(one, []byte("CANARY")) {
		t.Error("the secret shows through the seal")
	}
}

func TestBoxRefusesAnotherKeyIDOrPurpose(t *testing.T) {
	master := masterBox(t, "master")
	keyOfP, err := master.NewDataKey("p")
	if err != nil {
		t.Fatal(err)
	}
	boxOfP, err := master.Open("p", keyOfP)
	if err != nil {
		t.Fatal(err)
	}
	sealed := seal(t, boxOfP, canary, "id")

	for name, open := range map[string]func() (Secret, error){
		"another id":           func() (Secret, error) { return boxOfP.Unseal(sealed, "other") },
		"an id cut short":      func() (Secret, error) { return boxOfP.Unseal(sealed, "i") },
		"no id":                func() (Secret, error) { return boxOfP.Unseal(sealed, "") },
		"another data key":     func() (Secret, error) { return dataBox(t, master, "p").Unseal(sealed, "id") },
		"another purpose":      func() (Secret, error) { return dataBox(t, master, "q").Unseal(sealed, "id") },
		"the master box":       func() (Secret, error) { return master.Unseal(sealed, "id") },
		"a data key as secret": func() (Secret, error) { return boxOfP.Unseal(keyOfP, "p") },
		"nothing":              func() (Secret, error) { return boxOfP.Unseal(nil, "id") },
		"a nonce alone":        func() (Secret, error) { return boxOfP.Unseal(sealed[:24], "id") },
	} {
		if got, err := open(); !errors.Is(err, ErrWrongKey) || !got.Empty() {
			t.Errorf("%s: got %v", name, err)
		}
	}

	for name, open := range map[string]func() (*Box, error){
		"a data key for another purpose":      func() (*Box, error) { return master.Open("q", keyOfP) },
		"a data key of another master":        func() (*Box, error) { return masterBox(t, "master2").Open("p", keyOfP) },
		"a data key of the empty master":      func() (*Box, error) { return masterBox(t, "").Open("p", keyOfP) },
		"a secret as data key":                func() (*Box, error) { return master.Open("id", sealed) },
		"a data key under another data key":   func() (*Box, error) { return boxOfP.Open("p", keyOfP) },
		"a data key with a byte cut off":      func() (*Box, error) { return master.Open("p", keyOfP[:len(keyOfP)-1]) },
		"a data key with a byte put after it": func() (*Box, error) { return master.Open("p", append(bytes.Clone(keyOfP), 0)) },
	} {
		if _, err := open(); !errors.Is(err, ErrWrongKey) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestBoxNoticesTamperingWithEveryBit(t *testing.T) {
	b := dataBox(t, masterBox(t, "master"), "p")
	sealed := seal(t, b, canary, "id")
	for i := range sealed {
		for bit := range 8 {
			altered := bytes.Clone(sealed)
			altered[i] ^= 1 << bit
			if _, err := b.Unseal(altered, "id"); !errors.Is(err, ErrWrongKey) {
				t.Fatalf("bit %d of byte %d: got %v", bit, i, err)
			}
		}
	}
	for n := range sealed {
		if _, err := b.Unseal(sealed[:n], "id"); !errors.Is(err, ErrWrongKey) {
			t.Fatalf("cut to %d bytes: got %v", n, err)
		}
	}
}

func TestBoxOfTheSameMasterKeyOpensAfterARestart(t *testing.T) {
	before := masterBox(t, "master")
	key, err := before.NewDataKey("p")
	if err != nil {
		t.Fatal(err)
	}
	box, err := before.Open("p", key)
	if err != nil {
		t.Fatal(err)
	}
	sealed := seal(t, box, canary, "id")
	after, err := masterBox(t, "master").Open("p", key)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := after.Unseal(sealed, "id"); err != nil || got.Reveal() != canary {
		t.Errorf("got %v", err)
	}
}

func TestBoxFailsWithoutRandomness(t *testing.T) {
	broken := errors.New("no entropy")
	master, err := NewMasterBox(iotest.ErrReader(broken), NewSecret("master"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := master.Seal(NewSecret("x"), "id"); !errors.Is(err, broken) {
		t.Errorf("Seal: got %v", err)
	}
	if _, err := master.NewDataKey("p"); !errors.Is(err, broken) {
		t.Errorf("NewDataKey: got %v", err)
	}
}
