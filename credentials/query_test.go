package credentials

import (
	"strings"
	"testing"
)

func TestQueriesOfURLsAreMasked(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"https://h.example.com/p":                "",
		"https://h.example.com/p?":               "",
		"https://h.example.com/p?k=":             "",
		"https://h.example.com/p?k=secret":       "https://h.example.com/p?k=*****",
		"HTTPS://h.example.com?k=secret&l=m;n=o": "HTTPS://h.example.com?k=*****&l=*****;n=*****",
		"http://h/p?secret":                      "http://h/p?*****",
		"http://h/p?k=secret&":                   "http://h/p?k=*****&",
		"http://h/p?k=a=b&&l=":                   "http://h/p?k=*****&&l=",
		"http://user:secret@h/p":                 "http://*****@h/p",
		"http://user:a@b@h/p@q?k=secret":         "http://*****@h/p@q?k=*****",
		"http://h/p#secret":                      "http://h/p#*****",
		"http://h/p?k=secret#secret?l=secret":    "http://h/p?k=*****#*****",
		"http://h/p?k=*****":                     "http://h/p?k=*****",
		"mailto:a@example.com?subject=s":         "",
		"what is https?":                         "",
		"ftp://h/p?k=secret":                     "",
	} {
		got, ok := MaskQuery(raw)
		if ok != (want != "") || ok && got != want || !ok && got != raw {
			t.Errorf("%s is shown as %s, %v", raw, got, ok)
		}
	}
}

func FuzzMaskQuery(f *testing.F) {
	f.Add("https://u:p@h/p?a=b&c;d=#e")
	f.Fuzz(func(t *testing.T, raw string) {
		shown, ok := MaskQuery(raw)
		if again, still := MaskQuery(shown); again != shown || still != ok {
			t.Errorf("%q is shown as %q, and that as %q", raw, shown, again)
		}
		if _, query, _ := strings.Cut(raw, "?"); ok && strings.Contains(query, "=CANARY") && strings.Contains(shown, "=CANARY") {
			t.Errorf("%q is shown as %q", raw, shown)
		}
	})
}
