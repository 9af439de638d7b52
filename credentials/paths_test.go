package credentials

import "testing"

func TestPathsMatchByMethodAndSegments(t *testing.T) {
	paths, err := ParsePaths([]string{"GET", "/v1/foo/*", "POST /v1/bar", "/v1/a/*/c"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, path string
		want         bool
	}{
		{"GET", "/v1/foo/x", true},
		{"GET", "/v1/foo/x/y", true},
		{"GET", "/v1/foo", false},
		{"GET", "/v1/foobar/x", false},
		{"POST", "/v1/foo/x", false},
		{"POST", "/v1/bar", true},
		{"GET", "/v1/bar", false},
		{"POST", "/v1/bar/x", false},
		{"DELETE", "/v1/a/b/c", true},
		{"PUT", "/v1/a/b/c/d", false},
		{"PUT", "/v1/a/b", false},
	} {
		if got := paths.Match(c.method, c.path); got != c.want {
			t.Errorf("%s %s: %v", c.method, c.path, got)
		}
	}
	for _, wrong := range []string{"GET", "get /v1/x", "/foo", "/v1/", "/v1/a*", "/v1//a", "/v1/a?b", "GET POST /v1/a"} {
		if paths, err := ParsePaths([]string{wrong}); err == nil {
			t.Errorf("%q is taken for %v", wrong, paths)
		}
	}
}
