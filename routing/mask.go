package routing

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
)

// Mask returns the text of a config with every credential in it masked.
func Mask(text string) string {
	return rewriteSecrets(text, func(_, value string) string { return credentials.NewSecret(value).Hint() })
}

// Unmask returns text with every credential that is masked as old has it replaced by
// old's own: sending a config back as it was shown changes no credential.
func Unmask(text, old string) string {
	return rewriteSecrets(text, func(path, value string) string {
		was := gjson.Get(old, path).Str
		if was != "" && credentials.NewSecret(was).Hint() == value {
			return was
		}
		return value
	})
}

// rewriteSecrets replaces the credentials of a config, which are texts under names
// that say so, and leaves every other byte.
func rewriteSecrets(text string, rewrite func(path, value string) string) string {
	type edit struct {
		start, end int
		value      string
	}
	var edits []edit
	var walk func(v gjson.Result, path, name string)
	walk = func(v gjson.Result, path, name string) {
		switch {
		case v.IsObject(), v.IsArray():
			n := 0
			v.ForEach(func(key, child gjson.Result) bool {
				k := key.Str
				if v.IsArray() {
					k, n = strconv.Itoa(n), n+1
				}
				walk(child, join(path, k), k)
				return true
			})
		case v.Type == gjson.String && secretName(name) && v.Index > 0:
			edits = append(edits, edit{v.Index, v.Index + len(v.Raw), rewrite(path, v.Str)})
		}
	}
	walk(gjson.Parse(text), "", "")
	var out strings.Builder
	at := 0
	for _, e := range edits {
		out.WriteString(text[at:e.start])
		out.WriteString(quoteText(e.value))
		at = e.end
	}
	out.WriteString(text[at:])
	return out.String()
}

func join(path, key string) string {
	key = gjson.Escape(key)
	if path == "" {
		return key
	}
	return path + "." + key
}

// secretName reports whether a config's member of this name holds a credential.
func secretName(name string) bool {
	for _, part := range []string{"api_key", "secret", "token", "password", "private_key", "service_account_json", "access_key"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

func quoteText(s string) string { return string(gjson.AppendJSONString(nil, s)) }
