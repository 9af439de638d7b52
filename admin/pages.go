package admin

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
)

// DocsPath is the path of the page that shows the OpenAPI document.
const DocsPath = "/docs"

//go:embed docs.html
var docsHTML []byte

//go:embed invite.html
var inviteHTML []byte

var (
	docsPage   = newPage(docsHTML)   // shows /v1/openapi.json
	invitePage = newPage(inviteHTML) // what the link of an invite opens
)

// A page is a web page, which loads nothing from elsewhere.
type page struct {
	html   []byte
	policy string
}

// newPage returns a page with a policy that lets it run its own script, and
// send requests to its own site.
func newPage(html []byte) *page {
	_, rest, _ := bytes.Cut(html, []byte("<script>"))
	script, _, _ := bytes.Cut(rest, []byte("</script>"))
	sum := sha256.Sum256(script)
	return &page{html, "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}
}

// pageFor returns the page that a request is for, or nil.
func pageFor(r *http.Request) *page {
	switch {
	case r.URL.Path == DocsPath:
		return docsPage
	case r.URL.Path == "/v1"+acceptPath && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		return invitePage
	}
	return nil
}

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		e := failure(http.StatusMethodNotAllowed, "Method not allowed: expected GET")
		e.allow = "GET, HEAD"
		writeError(w, r, e)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", p.policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(p.html) // fails only if the client has disconnected
}
