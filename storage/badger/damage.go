package badger

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/caddy-gw/gateway/storage"
)

const remedy = `restore a backup, or save what can be read with "caddy gw salvage" (docs/operations.md)`

// A damage is a problem with a file of a store.
type damage struct{ file, problem string }

// damages collects the problems with the files of a store.
type damages []damage

func (f *damages) add(file, problem string, args ...any) {
	*f = append(*f, damage{file, fmt.Sprintf(problem, args...)})
}

// err returns an error that wraps [storage.ErrDamaged] and names the files, or nil if
// there is no damage.
func (f damages) err() error {
	if len(f) == 0 {
		return nil
	}
	const most = 5
	var words []string
	for i, one := range f {
		if i == most {
			words = append(words, fmt.Sprintf("and %d more", len(f)-most))
			break
		}
		words = append(words, one.file+": "+one.problem)
	}
	return fmt.Errorf("%w: %s; %s", storage.ErrDamaged, strings.Join(words, "; "), remedy)
}

// guard runs fn and returns an error if it panics. The library panics if it finds
// damage in a file, and Go does so if the disk cannot read a page of a file that is
// mapped into memory.
func guard(doing string, fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: %s", doing, firstLine(r))
		}
	}()
	return fn()
}

// firstLine shortens the value of a panic, which may have many lines.
func firstLine(value any) string {
	line := ""
	for line = range strings.Lines(fmt.Sprint(value)) {
		if line = strings.Trim(line, " =\n"); line != "" && !strings.Contains(line, "Recover") {
			break
		}
	}
	const most = 300
	if len(line) > most {
		line = line[:most]
	}
	return line
}

// isDamage reports whether the library found damage. The library formats causes into
// its messages instead of wrapping them.
func isDamage(err error) bool {
	for _, text := range []string{"checksum mismatch", "failed to read from file", "failed to decode", "invalid checksum length"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}
