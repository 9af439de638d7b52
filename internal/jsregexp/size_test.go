package jsregexp

import (
	"runtime"
	"strings"
	"testing"
)

// A pattern that would be compiled to millions of instructions is refused before it is.
func TestPatternsThatWouldBecomeHugeAreRefusedAtOnce(t *testing.T) {
	for name, pattern := range map[string]string{
		"repetitions next to each other": strings.Repeat(`a{1,999}b`, 1500),
		"in each other":                  `((a{1,30}){1,30}){1,1}` + strings.Repeat(`((?:ab){1,30}c){1,30}`, 20),
		"of classes":                     strings.Repeat(`\s{1000}`, 30),
		"at least":                       strings.Repeat(`a{999,}`, 30),
		"with flags":                     `/` + strings.Repeat(`a{1,999}b`, 1500) + `/i`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, _, err := Parse(pattern)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: it is accepted", name)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 8<<20 {
			t.Errorf("%s: %d bytes to refuse it", name, got)
		}
	}
	for _, pattern := range []string{`^.{1,1000}$`, `\w{1,900}@\w{1,900}`, strings.Repeat("a", 9000), `(?:\d{1,3}\.){3}\d{1,3}`} {
		if _, err := Compile(pattern, ""); err != nil {
			t.Errorf("%.20s: %v", pattern, err)
		}
	}
}
