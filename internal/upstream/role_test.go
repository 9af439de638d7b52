package upstream

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/providers"
)

// A role of AWS is requested from the host of its region: through the pool of hosts that callers
// choose, unless the operator's configuration has it, and again shortly before it ends.
func TestARoleOfAWSIsAssumed(t *testing.T) {
	const arn = "arn:aws:iam::123456789012:role/r"
	var asked atomic.Int64
	refuse := false
	d := newDesk(t)
	sts := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		if err := r.ParseForm(); err != nil || r.Host != "sts.eu-west-1.amazonaws.com" || r.PostForm.Get("Action") != "AssumeRole" || r.PostForm.Get("RoleArn") != arn ||
			!strings.Contains(r.Header.Get("Authorization"), " Credential=AKID/19700101/eu-west-1/sts/aws4_request, ") || r.Header.Get("X-Amz-Security-Token") != "" {
			t.Errorf("%s: %v, %v", r.Host, r.PostForm, r.Header)
		}
		if refuse {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`<ErrorResponse><Error><Code>AccessDenied</Code><Message>a secret</Message></Error></ErrorResponse>`))
			return
		}
		ends := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		_, _ = w.Write([]byte(`<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIA` + string(rune('0'+n)) + `</AccessKeyId><SecretAccessKey>sk</SecretAccessKey><SessionToken>st</SessionToken><Expiration>` +
			ends + `</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`))
	}))
	defer sts.Close()
	var public, operator atomic.Int64
	of := func(dialed *atomic.Int64) *Pool {
		transport := sts.Client().Transport.(*http.Transport).Clone()
		transport.TLSClientConfig.InsecureSkipVerify = true // the host is AWS's
		transport.DisableKeepAlives = true
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			dialed.Add(1)
			if address != "sts.eu-west-1.amazonaws.com:443" {
				t.Errorf("dialed %s", address)
			}
			return new(net.Dialer).DialContext(ctx, network, sts.Listener.Addr().String())
		}
		return &Pool{Transport: transport}
	}
	d.pools = Pools{Operator: of(&operator), Public: of(&public)}
	d.route = &credentials.Route{Provider: "bedrock", VirtualKey: "vk"}
	l := &providers.Login{Role: &providers.AssumedRole{Region: "eu-west-1", ARN: arn, Keys: providers.RoleToken{AccessKeyID: "AKID", SecretAccessKey: "the-secret"}}}
	for _, at := range []int64{0, 3400} {
		d.now.Store(at)
		d.mustGive(t, l, "ASIA1 sk st")
	}
	d.now.Store(3600 - 100)
	d.mustGive(t, l, "ASIA2 sk st")
	if public.Load() != 2 || operator.Load() != 0 {
		t.Errorf("dialed %d times for callers, %d for the operator", public.Load(), operator.Load())
	}
	checks := &CheckServices{Client: d.Client, Workspace: "ws"}
	role := &guardrails.Role{Region: "eu-west-1", ARN: arn, ExternalID: "of-checks", Keys: guardrails.Keys{AccessKeyID: "AKID", SecretAccessKey: "the-secret"}}
	for range 2 {
		if keys, err := checks.AssumeRole(t.Context(), "bedrock", role); err != nil || keys != (guardrails.Keys{AccessKeyID: "ASIA3", SecretAccessKey: "sk", SessionToken: "st"}) || public.Load() != 3 {
			t.Errorf("a check has the keys %v, %v after %d dials", keys, err, public.Load())
		}
	}
	d.route = &credentials.Route{Provider: "bedrock"}
	d.mustGive(t, l, "ASIA4 sk st")
	if operator.Load() != 1 {
		t.Errorf("the operator's own role is requested as that of a caller")
	}
	if g, err := d.Grant(d.route, l); err == nil {
		other := *l.Role
		other.ExternalID = "e"
		if h, err := d.Grant(d.route, &providers.Login{Role: &other}); err != nil || g.key == h.key {
			t.Errorf("another external id has the same token: %v", err)
		}
	}
	refuse = true
	d.now.Store(2 * 3600)
	_, err := d.ask(t.Context(), l)
	var failure *LoginError
	if !errors.As(err, &failure) || failure.Status != http.StatusForbidden || failure.Code != "AccessDenied" || strings.Contains(err.Error(), "secret") {
		t.Errorf("a refusal: %v", err)
	}
}
