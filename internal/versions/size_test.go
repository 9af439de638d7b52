package versions

import (
	"fmt"
	"testing"
	"time"
)

type plain struct{}

func (plain) SealText(_, text string) ([]byte, error) { return []byte(text), nil }

func (plain) UnsealText(_ string, sealed []byte) (string, error) { return string(sealed), nil }

// The versions of an object are written together, so that long ones could make an object that cannot be
// changed any more.
func TestVersionsAreBoundedBySize(t *testing.T) {
	t.Parallel()
	n := 0
	h := &History[string]{Sealer: plain{}, Now: func() time.Time { return time.Unix(0, 0) }, NewID: func() string { n++; return fmt.Sprint(n) }}
	var list []Version
	add := func(size int) {
		var err error
		if list, err = h.Add(list, string(make([]byte, size)), ""); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		add(MaxSize / 4)
	}
	if len(list) != 4 || list[3].Number != 10 || Size(list) != MaxSize {
		t.Errorf("%d versions of %d bytes are kept", len(list), Size(list))
	}
	if add(2 * MaxSize); len(list) != 1 || list[0].Number != 11 {
		t.Errorf("%d versions are kept with one that is too long", len(list))
	}
	for range 2 * Max {
		add(1)
	}
	if len(list) != Max || list[Max-1].Number != 11+2*Max {
		t.Errorf("%d versions are kept", len(list))
	}
}
