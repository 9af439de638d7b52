// Package versions keeps the texts that a saved object has and had: sealed in the store, and
// parsed as long as they are asked for.
package versions

import (
	"slices"
	"strconv"
	"time"
)

// A Version is one text of a saved object.
type Version struct {
	ID        string    `json:"id"`
	Number    int       `json:"number"` // counted from 1
	Sealed    []byte    `json:"sealed"` // the text, which may hold credentials
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by,omitempty"`
}

// Bounds of the versions of an object that are kept. All are in memory, and are written together.
const (
	Max     = 100
	MaxSize = 4 << 20 // bytes; the newest one is kept whatever it takes
)

// Size is what versions take, in bytes.
func Size(list []Version) (size int) {
	for i := range list {
		size += len(list[i].Sealed)
	}
	return size
}

// Find returns a version by its id or its number, counted from 1; "" is the newest one, which is
// in force.
func Find(list []Version, which string) (*Version, bool) {
	if which == "" {
		return &list[len(list)-1], true
	}
	for i := range list {
		if list[i].ID == which || strconv.Itoa(list[i].Number) == which {
			return &list[i], true
		}
	}
	return nil, false
}

// A Sealer encrypts values for storage. A sealed value can only be opened with the id that it was
// sealed for.
type Sealer interface {
	SealText(id, text string) ([]byte, error)
	UnsealText(id string, sealed []byte) (string, error)
}

// A History makes and reads the versions of objects of one kind, which are parsed to T. It is safe
// for concurrent use.
type History[T any] struct {
	Sealer Sealer
	Now    func() time.Time
	NewID  func() string

	parsed parsedCache[T]
}

// Text returns the text of a version.
func (h *History[T]) Text(v *Version) (string, error) { return h.Sealer.UnsealText(v.ID, v.Sealed) }

// Parsed returns what a version was parsed to. It is parsed once, unless that fails, as long as it is among
// those that were last asked for, see [MaxParsed].
func (h *History[T]) Parsed(v *Version, parse func(text string) (T, error)) (t T, err error) {
	if known, ok := h.parsed.get(v); ok {
		return known, nil
	}
	text, err := h.Text(v)
	if err != nil {
		return t, err
	}
	if t, err = parse(text); err == nil {
		h.parsed.put(v, t)
	}
	return t, err
}

// Add returns the versions of an object with a new one, created by by. The oldest ones go once there
// are more than [Max], or they take more than [MaxSize].
func (h *History[T]) Add(list []Version, text, by string) ([]Version, error) {
	v := Version{ID: h.NewID(), Number: 1, CreatedAt: h.Now().UTC(), CreatedBy: by}
	if len(list) > 0 {
		v.Number = list[len(list)-1].Number + 1
	}
	var err error
	if v.Sealed, err = h.Sealer.SealText(v.ID, text); err != nil {
		return nil, err
	}
	list = append(slices.Clone(list), v)
	kept := Kept(list)
	h.Forget(list[:len(list)-len(kept)])
	return kept, nil
}

// Kept are the newest of versions, as many as are kept.
func Kept(list []Version) []Version {
	list = list[max(0, len(list)-Max):]
	for size := Size(list); len(list) > 1 && size > MaxSize; list = list[1:] {
		size -= len(list[0].Sealed)
	}
	return list
}

// Forget drops what was parsed of versions that are not kept any more.
func (h *History[T]) Forget(list []Version) {
	for i := range list {
		h.parsed.drop(&list[i])
	}
}
