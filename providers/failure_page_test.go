package providers

import (
	"net/http"
	"strings"
	"testing"
)

// An error page becomes what a person would read of it.
func TestOfAPageIsSaidWhatItShows(t *testing.T) {
	for page, want := range map[string]string{
		`<html><head><style>body { color: red }</style></head><body><h1>Bad gateway</h1></body></html>`:                 "Bad gateway",
		`<html><STYLE type="text/css">a > b { x: "</p>" }</STYLE ><body>Bad <b>gateway</b><script src="a.js"></script>`: "Bad gateway",
		"<html><script\nasync>if (a < b) { alert(\"</p>\") }</script><!-- <p>not shown</p> --><p>Over loaded":           "Over loaded",
		`<html><head><title>502 Bad gateway</title><style>a{}</style></head><body>x`:                                    "502 Bad gateway",
		`<html><head><title></title></head><body>Busy`:                                                                  "Busy",
		`<html><body><styled>Busy</styled><br/>now`:                                                                     "Busy now",
		`<html><style>body { never: ends }`:                                                                             "The provider answered 502 Bad Gateway",
		`<html><body>` + strings.Repeat("long ", 200):                                                                   strings.Repeat("long ", 100) + "…",
	} {
		if f := ReadFailure(http.StatusBadGateway, nil, []byte(page)); f.Message != want {
			t.Errorf("%s: got %q, want %q", page, f.Message, want)
		}
	}
}
