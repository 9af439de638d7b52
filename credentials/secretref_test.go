package credentials

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

func TestAMappingSelectsFromASecret(t *testing.T) {
	for name, c := range map[string]struct {
		text, key string
		json      bool
		want      string // "": an error
	}{
		"the whole text":       {"sk-1", "", false, "sk-1"},
		"a key":                {`{"a":"sk-1","b":{"c":1}}`, "a", false, "sk-1"},
		"an object":            {`{"a":"sk-1","b":{"c":1}}`, "b", false, `{"c":1}`},
		"a key with a dot":     {`{"a.b":"sk-1","a":{"b":"no"}}`, "a.b", false, "sk-1"},
		"a number":             {`{"a":1.50}`, "a", false, "1.50"},
		"JSON in a text":       {`{"a":"{\"x\":1}"}`, "a", true, `{"x":1}`},
		"JSON twice":           {`"{\"x\":1}"`, "", true, `{"x":1}`},
		"no JSON":              {"sk-1", "", true, ""},
		"no object":            {"sk-1", "a", false, ""},
		"no such key":          {`{"a":"x"}`, "b", false, ""},
		"an empty one":         {`{"a":""}`, "a", false, ""},
		"nothing":              {"", "", false, ""},
		"an object, cut short": {`{"a":"x"`, "a", false, ""},
	} {
		got, err := selectKey(c.text, c.key, c.json)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "sk-1") {
			t.Errorf("%s: the error repeats the secret", name)
		}
	}
}

// A secret of several keys is no credential as a whole, unless the mapping says that it is JSON.
func TestASecretWithKeysIsNoCredentialAsAWhole(t *testing.T) {
	value := NewSecret(`{"a":"sk-1"}`)
	for name, c := range map[string]struct {
		mapping SecretMapping
		ref     *SecretReference
		want    string
	}{
		"no key":             {SecretMapping{Field: MappedKey}, &SecretReference{}, ""},
		"of the reference":   {SecretMapping{Field: MappedKey}, &SecretReference{Key: "a"}, "sk-1"},
		"of the mapping":     {SecretMapping{Field: MappedKey, Key: "a"}, &SecretReference{}, "sk-1"},
		"as JSON":            {SecretMapping{Field: MappedKey, JSON: true}, &SecretReference{}, `{"a":"sk-1"}`},
		"of another setting": {SecretMapping{Field: "vertex_service_account_json"}, &SecretReference{}, `{"a":"sk-1"}`},
	} {
		part, err := c.mapping.Part(c.ref, value)
		if got := part.Reveal(); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

func FuzzSelectKey(f *testing.F) {
	f.Add(`{"a":"b"}`, "a", true)
	f.Add(`"{\"x\":1}"`, "", true)
	f.Add("sk-1", "", false)
	f.Fuzz(func(t *testing.T, text, key string, asJSON bool) {
		got, err := selectKey(text, key, asJSON)
		if err == nil && (got == "" || asJSON && !gjson.Valid(got)) {
			t.Errorf("got %q", got)
		}
	})
}
