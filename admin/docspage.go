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

// docsPage shows /v1/openapi.json. It loads nothing from elsewhere.
//
//go:embed docs.html
var docsPage []byte

// docsPolicy lets the page run its own script, and read nothing but its own site.
var docsPolicy = func() string {
	_, rest, _ := bytes.Cut(docsPage, []byte("<script>"))
	script, _, _ := bytes.Cut(rest, []byte("</script>"))
	sum := sha256.Sum256(script)
	return "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// serveDocs answers requests for [DocsPath].
func serveDocs(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		e := failure(http.StatusMethodNotAllowed, "Method not allowed: expected GET")
		e.allow = "GET, HEAD"
		writeError(w, e)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", docsPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(docsPage) // fails only if the client has disconnected
}
