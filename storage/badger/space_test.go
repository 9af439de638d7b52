package badger

import (
	"testing"
	"time"
)

// Ample space is not measured again at once; a disk that is nearly full is, each time.
func TestAmpleSpaceIsNotMeasuredForEachWrite(t *testing.T) {
	t.Parallel()
	now, calls, free := time.Unix(0, 0), 0, uint64(1<<40)
	space := lately(func(string) (Space, error) { calls++; return Space{Free: free}, nil }, func() time.Time { return now })
	for range 10 {
		if s, err := space("dir"); err != nil || s.Free != 1<<40 || calls != 1 {
			t.Fatalf("%+v, %v, %d calls", s, err, calls)
		}
	}
	now, free = now.Add(spaceLasts), Reserve
	for i := range 10 {
		if s, err := space("dir"); err != nil || s.Free != Reserve || calls != 2+i {
			t.Fatalf("%+v, %v, %d calls", s, err, calls)
		}
	}
}
