package admin_test

import (
	"crypto/sha256"
	"encoding/base64"
	"regexp"
	"strings"
	"testing"
)

// The pages have everything that they need, and their policy lets them load nothing from elsewhere.
func TestPagesLoadNothingFromElsewhere(t *testing.T) {
	a := newAPI(t)
	for _, path := range []string{"/docs", acceptPath} {
		page := a.as("", "GET", path, "")
		if page.status != 200 || page.header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Fatalf("%s: %d %s", path, page.status, page.header)
		}
		if found := regexp.MustCompile(`(https?:|\bsrc=|@import|<link|url\(|\bon[a-z]+=)[^\n]*`).FindString(page.body); found != "" {
			t.Errorf("%s loads %s", path, found)
		}
		if strings.Contains(page.body, "innerHTML") || strings.Count(page.body, "<script") != 1 {
			t.Errorf("%s inserts texts as HTML, or has more than one script", path)
		}
		_, rest, _ := strings.Cut(page.body, "<script>")
		script, _, ok := strings.Cut(rest, "</script>")
		sum := sha256.Sum256([]byte(script))
		policy := page.header.Get("Content-Security-Policy")
		if !ok || !strings.Contains(policy, "script-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") || !strings.HasPrefix(policy, "default-src 'none'; ") {
			t.Errorf("%s: policy %s", path, policy)
		}
		if page.header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %v", path, page.header)
		}
	}
	if out := a.as(ownerKey, "POST", "/docs", "{}"); out.status != 405 || out.header.Get("Allow") != "GET, HEAD" {
		t.Errorf("%d %s", out.status, out.body)
	}
}

// The link of an invite opens a page, whatever follows #, that sends what the route takes.
func TestTheLinkOfAnInviteOpensAPage(t *testing.T) {
	a := newAPI(t)
	link := a.ok("POST", "/v1/admin/users/invites", `{"email":"n@example.com","role":"member","workspaces":[]}`).get("invite_link").Str
	at, token, _ := strings.Cut(strings.TrimPrefix(link, "http://gw.test"), "#")
	page := a.as("", "GET", at, "")
	if page.status != 200 || !strings.Contains(page.body, "<form") || strings.Contains(page.body, token) {
		t.Fatalf("%d %s", page.status, page.body)
	}
	for _, name := range []string{"token", "first_name", "last_name"} {
		if !strings.Contains(page.body, name) {
			t.Errorf("the page sends no %s", name)
		}
	}
	if head := a.as("", "HEAD", at, ""); head.status != 200 {
		t.Errorf("%d", head.status)
	}
	if out := a.as("", "POST", at, `{"token":"`+token+`","first_name":"N","last_name":""}`); out.status != 200 {
		t.Errorf("%d %s", out.status, out.body)
	}
}
