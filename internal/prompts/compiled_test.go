package prompts

import (
	"fmt"
	"testing"
)

// The size of the cache is bounded in bytes, including versions that moved to the
// younger generation.
func TestCompiledVersionsAreBounded(t *testing.T) {
	var c compiled
	const size = 1 << 20
	for i := range 400 {
		c.put(fmt.Sprint(i), &Compiled{size: size})
		for j := max(0, i-maxCompiled/size); j < i; j++ {
			c.get(fmt.Sprint(j)) // moves an older version to the younger generation
		}
		kept := 0
		for _, generation := range []map[string]*Compiled{c.young, c.old} {
			for _, v := range generation {
				kept += v.size
			}
		}
		if kept > 2*maxCompiled {
			t.Fatalf("%d bytes are kept after %d versions, expected at most %d", kept, i+1, 2*maxCompiled)
		}
	}
	if c.get("399") == nil {
		t.Error("the latest is gone")
	}
}
