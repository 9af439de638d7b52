package echo

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"
	"slices"
	"testing"

	"github.com/tidwall/gjson"
)

// vectorOf returns an embedding in either format.
func vectorOf(t *testing.T, embedding gjson.Result) []float32 {
	t.Helper()
	var vector []float32
	if embedding.IsArray() {
		for _, x := range embedding.Array() {
			vector = append(vector, float32(x.Num))
		}
		return vector
	}
	raw, err := base64.StdEncoding.DecodeString(embedding.Str)
	if err != nil || len(raw)%4 != 0 {
		t.Fatalf("%v: %s", err, embedding.Raw)
	}
	for ; len(raw) > 0; raw = raw[4:] {
		vector = append(vector, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
	}
	return vector
}

func TestEmbeddingIsADeterministicUnitVector(t *testing.T) {
	for options, dimensions := range map[string]int{
		``:                    8,
		`,"dimensions":null`:  8,
		`,"dimensions":1`:     1,
		`,"dimensions":1536`:  1536,
		`,"dimensions":3072`:  3072,
		`,"dimensions":256.0`: 256,
	} {
		ask := func(input, format string) []float32 {
			got := post(t, "/v1/embeddings", `{"input":"`+input+`","encoding_format":"`+format+`"`+options+`}`)
			return vectorOf(t, got.Get("data.0.embedding"))
		}
		vector := ask("hello", "float")
		length := 0.0
		for _, x := range vector {
			length += float64(x) * float64(x)
		}
		if len(vector) != dimensions || math.Abs(length-1) > 1e-5 {
			t.Errorf("%q: %d dimensions, squared length %v", options, len(vector), length)
		}
		if !slices.Equal(vector, ask("hello", "base64")) {
			t.Errorf("%q: the formats differ", options)
		}
		if dimensions > 1 && slices.Equal(vector, ask("hallo", "float")) {
			t.Errorf("%q: two inputs with one vector", options)
		}
	}
}

// Other tests may rely on these vectors.
func TestEmbeddingDoesNotChangeWithTime(t *testing.T) {
	got := post(t, "/v1/embeddings", `{"input":"hello","dimensions":2}`).Get("data.0.embedding").Raw
	if want := `[-0.94357044,0.3311721]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestEmbeddingAnswerMembers(t *testing.T) {
	got := post(t, "/v1/embeddings", `{"model":"m","input":["a b","c",[1,2]]}`)
	if got.Get("object").Str != "list" || got.Get("model").Str != "m" ||
		got.Get("data.#.index").Raw != "[0,1,2]" || got.Get("data.0.object").Str != "embedding" ||
		got.Get("usage.prompt_tokens").Int() != 5 || got.Get("usage.total_tokens").Int() != 5 {
		t.Errorf("%s", got.Raw)
	}
}

func TestEmbeddingRefuses(t *testing.T) {
	for _, options := range []string{
		`"dimensions":0`, `"dimensions":3073`, `"dimensions":"8"`,
		`"encoding_format":"int8"`, `"encoding_format":1`, `"model":1`,
	} {
		w := do(t, new(Echo), http.MethodPost, "/v1/embeddings", `{"input":"a",`+options+`}`)
		if w.Code != http.StatusBadRequest {
			t.Errorf("%s: status %d", options, w.Code)
		}
		checkError(t, w)
	}
}
