package versions

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"
)

// open is a sealer that hides nothing, and binds a text to its id.
type open struct{}

func (open) SealText(id, text string) ([]byte, error) { return []byte(id + "|" + text), nil }

func (open) UnsealText(id string, sealed []byte) (string, error) {
	if len(sealed) <= len(id) || string(sealed[:len(id)+1]) != id+"|" {
		return "", errors.New("sealed for another id")
	}
	return string(sealed[len(id)+1:]), nil
}

func TestTheNewestVersionsAreKept(t *testing.T) {
	n := 0
	h := &History[string]{Sealer: open{}, Now: time.Now, NewID: func() string { n++; return "v" + strconv.Itoa(n) }}
	var list []Version
	for i := range Max + 2 {
		before := list
		var err error
		if list, err = h.Add(list, "text "+strconv.Itoa(i), "me"); err != nil {
			t.Fatal(err)
		}
		if len(before) > 0 && &before[0] == &list[0] {
			t.Fatal("the list of the row was changed")
		}
	}
	if len(list) != Max || list[0].Number != 3 {
		t.Errorf("%d versions, from %d on", len(list), list[0].Number)
	}
	for which, number := range map[string]int{"": Max + 2, "3": 3, "v50": 50, "2": 0, "v1": 0, "x": 0} {
		v, ok := Find(list, which)
		if ok != (number > 0) || ok && v.Number != number {
			t.Errorf("%q: %v", which, v)
		}
	}
}

func TestAVersionIsParsedOnce(t *testing.T) {
	h := &History[string]{Sealer: open{}, Now: time.Now, NewID: func() string { return "v" }}
	list, err := h.Add(nil, "text", "")
	if err != nil {
		t.Fatal(err)
	}
	parsed, wrong := 0, errors.New("it is not valid")
	parse := func(text string) (string, error) {
		parsed++
		if parsed == 1 {
			return "", wrong
		}
		return text + "!", nil
	}
	if _, err := h.Parsed(&list[0], parse); !errors.Is(err, wrong) {
		t.Errorf("%v", err)
	}
	for range 3 {
		if got, err := h.Parsed(&list[0], parse); err != nil || got != "text!" {
			t.Errorf("%q, %v", got, err)
		}
	}
	h.Forget(list)
	if _, err := h.Parsed(&list[0], parse); err != nil || parsed != 3 {
		t.Errorf("parsed %d times, %v", parsed, err)
	}
	other := list[0]
	other.ID = "w"
	if _, err := h.Parsed(&other, parse); err == nil {
		t.Error("a text that was sealed for another version")
	}
}

// What texts are parsed to takes many times their size, and any version can be asked for.
func TestWhatIsKeptParsedIsBounded(t *testing.T) {
	h := &History[int]{Sealer: open{}}
	const size = MaxParsed / 16
	parsed := 0
	ask := func(i int) {
		id := "v" + strconv.Itoa(i)
		v := &Version{ID: id, Sealed: []byte(id + "|" + strings.Repeat("x", size-len(id)-1))}
		if got, err := h.Parsed(v, func(string) (int, error) { parsed++; return i, nil }); err != nil || got != i {
			t.Fatal(got, err)
		}
	}
	kept := func() int { return len(h.parsed.recent) + len(h.parsed.before) }
	for i := range 1000 {
		ask(i)
		ask(0) // is never given up
		if kept() > 16 || h.parsed.size > MaxParsed/2 {
			t.Fatalf("%d versions are kept, the newest take %d bytes", kept(), h.parsed.size)
		}
	}
	if parsed != 1000 {
		t.Errorf("parsed %d times", parsed)
	}
	for i := range 1000 {
		h.Forget([]Version{{ID: "v" + strconv.Itoa(i), Sealed: make([]byte, size)}})
	}
	if kept() != 0 || h.parsed.size != 0 {
		t.Errorf("%d versions are kept, the newest take %d bytes", kept(), h.parsed.size)
	}
}
