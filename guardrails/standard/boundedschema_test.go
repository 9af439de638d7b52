package standard

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// What a value costs that does not follow its schema in exponentially many ways is bounded, however deep in the
// value that is: each fault has a path of its own.
func TestFaultsDeepInAValueTakeBoundedMemory(t *testing.T) {
	const most = 256 << 20
	for _, some := range []string{"anyOf", "oneOf", "allOf"} {
		for _, depth := range []int{20, 200, 2000} {
			t.Run(fmt.Sprint(some, " ", depth), func(t *testing.T) {
				schema, err := compileSchema(`{"$defs":{"a":{"` + some + `":[
					{"properties":{"x":{"$ref":"#/$defs/a"}},"required":["y"]},{"properties":{"x":{"$ref":"#/$defs/a"}},"required":["y"]}]}},"$ref":"#/$defs/a"}`)
				if err != nil {
					t.Fatal(err)
				}
				text := strings.Repeat(`{"x":`, depth) + "1" + strings.Repeat("}", depth)
				schema.begin(t.Context(), text)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				if _, err := schema.validate(text); !errors.Is(err, errSchemaSteps) {
					t.Fatal(err)
				}
				runtime.ReadMemStats(&after)
				if took := after.TotalAlloc - before.TotalAlloc; took > most {
					t.Errorf("%d MB", took>>20)
				} else {
					t.Logf("%d MB", took>>20)
				}
			})
		}
	}
}
