package admin_test

import (
	"crypto/sha256"
	"encoding/base64"
	"regexp"
	"strings"
	"testing"
)

// The page has everything that it needs, and its policy lets it load nothing from elsewhere.
func TestThePageOfTheDocumentLoadsNothingFromElsewhere(t *testing.T) {
	a := newAPI(t)
	page := a.as("", "GET", "/docs", "")
	if page.status != 200 || page.header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("%d %s", page.status, page.header)
	}
	if found := regexp.MustCompile(`(https?:|\bsrc=|@import|<link|url\()[^\n]*`).FindString(page.body); found != "" {
		t.Errorf("it loads %s", found)
	}
	if strings.Contains(page.body, "innerHTML") {
		t.Error("it inserts what the document says as HTML")
	}
	_, rest, _ := strings.Cut(page.body, "<script>")
	script, _, ok := strings.Cut(rest, "</script>")
	sum := sha256.Sum256([]byte(script))
	if policy := page.header.Get("Content-Security-Policy"); !ok || !strings.Contains(policy, "script-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") || !strings.HasPrefix(policy, "default-src 'none'; ") {
		t.Errorf("policy %s", policy)
	}
	if out := a.as(ownerKey, "POST", "/docs", "{}"); out.status != 405 || out.header.Get("Allow") != "GET, HEAD" {
		t.Errorf("%d %s", out.status, out.body)
	}
}
