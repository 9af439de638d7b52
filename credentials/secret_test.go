package credentials

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// canary is a credential that may turn up in no output.
const canary = "sk-CANARY-0123456789"

// traces are the forms in which a credential could be printed: as text, quoted, in
// hexadecimal, as a list of bytes.
var traces = []string{"CANARY", fmt.Sprintf("%x", "CANARY"), fmt.Sprintf("%X", "CANARY"), "67 65 78 65 82 89"}

func mustHide(t *testing.T, what, output string) {
	t.Helper()
	for _, trace := range traces {
		if strings.Contains(output, trace) {
			t.Errorf("%s shows the secret: %s", what, output)
			return
		}
	}
}

func TestSecretIsMaskedUnderEveryVerb(t *testing.T) {
	type exported struct{ Key Secret }
	type unexported struct{ key Secret }
	s := NewSecret(canary)
	values := map[string]any{
		"a secret":             s,
		"a pointer":            &s,
		"an exported field":    exported{s},
		"an unexported field":  unexported{s},
		"a pointer to a field": &unexported{s},
		"a list":               []Secret{s},
		"a map":                map[string]Secret{"key": s},
		"an interface":         []any{s},
		"a saved provider":     &Provider{Slug: "own", Key: s},
		"a route":              &Route{Key: s},
		"a selection":          Selection{Bearer: s},
	}
	// %p and %w are here because fmt hands what they do not suit to its own
	// printer, past every method of the value.
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%#q", "%x", "%X", "% x", "%d", "%t", "%c", "%U", "%e", "%b", "%o", "%10s", "%.3s", "%p", "%w", "%z", "%T", "%!"} {
		for name, v := range values {
			mustHide(t, verb+" of "+name, fmt.Sprintf(verb, v))
		}
	}
	for _, format := range []string{"no verb", "%[2]v", "%[x]v", "%*d", "%.*d"} { // vet knows constants only
		mustHide(t, "a surplus or misplaced argument of "+format, fmt.Sprintf(format, s, 1))
	}
	mustHide(t, "Sprint", fmt.Sprint(s, unexported{s}))
}

func TestSecretIsMaskedInsideErrors(t *testing.T) {
	s := NewSecret(canary)
	for _, format := range []string{"%v", "%s", "%q", "%w"} {
		err := fmt.Errorf("sending "+format, s)
		mustHide(t, format, err.Error())
		mustHide(t, "a joined error", errors.Join(err, err).Error())
	}
}

func TestSecretIsMaskedInEncodings(t *testing.T) {
	type holder struct {
		Key    Secret            `json:"key"`
		Ptr    *Secret           `json:"ptr"`
		ByName map[string]Secret `json:"by_name"`
		hidden Secret
	}
	s := NewSecret(canary)
	h := holder{s, &s, map[string]Secret{"a": s}, s}
	for name, v := range map[string]any{"a secret": s, "a pointer": &s, "a struct": h, "any": []any{h}, "a route": Route{Key: s}} {
		encoded, err := json.Marshal(v)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		mustHide(t, "JSON of "+name, string(encoded))
		if !bytes.Contains(encoded, []byte(Masked)) {
			t.Errorf("JSON of %s does not show the mask: %s", name, encoded)
		}
	}
	if h.hidden.Reveal() != canary {
		t.Error("Reveal does not give the value")
	}
}

func TestSecretIsMaskedInLogs(t *testing.T) {
	type holder struct{ Key Secret }
	type hiding struct{ key Secret }
	s := NewSecret(canary)
	values := map[string]any{"secret": s, "pointer": &s, "holder": holder{s}, "hiding": hiding{s}, "list": []Secret{s}, "provider": &Provider{Key: s}}
	var out bytes.Buffer
	loggers := map[string]func(key string, v any){
		"slog text": func(key string, v any) { slog.New(slog.NewTextHandler(&out, nil)).Info("m", key, v) },
		"slog JSON": func(key string, v any) { slog.New(slog.NewJSONHandler(&out, nil)).Info("m", key, v) },
		"slog group": func(key string, v any) {
			slog.New(slog.NewJSONHandler(&out, nil)).With(key, v).WithGroup("g").Info("m", key, v)
		},
	}
	for encoding, encoder := range map[string]zapcore.Encoder{
		"zap JSON":    zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()),
		"zap console": zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig()),
	} {
		logger := zap.New(zapcore.NewCore(encoder, zapcore.AddSync(&out), zap.DebugLevel))
		loggers[encoding] = func(key string, v any) {
			logger.Info("m", zap.Any(key, v), zap.Reflect(key, v), zap.Stringer(key, s))
			logger.Sugar().Infow("m", key, v)
			logger.Sugar().Infof("%v %+v", v, v)
		}
	}
	for name, log := range loggers {
		for key, v := range values {
			out.Reset()
			log(key, v)
			if out.Len() == 0 {
				t.Fatalf("%s logged nothing", name)
			}
			mustHide(t, name+" of "+key, out.String())
		}
	}
}

func TestSecretHintShowsTwoAndThreeCharactersOfLongValuesOnly(t *testing.T) {
	for _, c := range []struct{ value, want string }{
		{"", Masked},
		{"short", Masked},
		{"elevenchars", Masked},
		{"twelve-chars", "tw" + Masked + "ars"},
		{"sk-0123456789abcdef", "sk" + Masked + "def"},
	} {
		if got := NewSecret(c.value).Hint(); got != c.want {
			t.Errorf("%q: got %q, want %q", c.value, got, c.want)
		}
	}
}

func TestSecretEqualComparesWholeValues(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"", "", true},
		{"a", "a", true},
		{"a", "", false},
		{"", "a", false},
		{"abc", "abd", false},
		{"abc", "abcd", false},
		{strings.Repeat("x", 4096), strings.Repeat("x", 4096), true},
	} {
		if got := NewSecret(c.a).Equal(NewSecret(c.b)); got != c.want {
			t.Errorf("%q, %q: got %v", c.a, c.b, got)
		}
	}
	if !(Secret{}).Empty() || !NewSecret("").Empty() || NewSecret("x").Empty() {
		t.Error("Empty is wrong about what is empty")
	}
	if !(Secret{}).Equal(NewSecret("")) || (Secret{}).Reveal() != "" {
		t.Error("the zero Secret is not the empty one")
	}
}
