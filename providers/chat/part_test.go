package chat

import (
	"encoding/json"
	"testing"
)

func TestDataOfAPartStaysInsideOfItsQuotes(t *testing.T) {
	for source, want := range map[string]string{
		`"data:image/png;base64,AA\/\/BB=="`:           `AA//BB==`,
		`"data:image/png;base64,AA\"}],\"model\":\"x"`: `AA\"}],\"model\":\"x`,
		`"data:image/png;base64,AA\\\u0022,"`:          `AA\\\",`,
		`"data:text/plain,a%20\"b\"\nc"`:               `YSAiYiIKYw==`,
	} {
		p := Part{Kind: Image}
		p.SetURL(Literal(source))
		if string(p.Data) != want {
			t.Errorf("%s: got %s, want %s", source, p.Data, want)
		}
		if quoted := `"` + string(p.Data) + `"`; !json.Valid([]byte(quoted)) {
			t.Errorf("%s: %s is not a string", source, quoted)
		}
	}
}
