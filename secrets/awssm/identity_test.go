package awssm

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-gw/gateway/secrets"
	"github.com/caddy-gw/gateway/secrets/secretstest"
)

const (
	theRole   = "arn:aws:iam::123456789012:role/gateway"
	otherRole = "arn:aws:iam::210987654321:role/secrets"
	external  = "external-id-1"
)

// A cloud stands for what AWS has on and around a machine.
type cloud struct {
	t       *testing.T
	now     time.Time
	life    time.Duration // of temporary credentials
	role    string        // of the instance; "": none
	version int           // of temporary credentials
	logins  map[string]int
	known   account
	tokens  map[string]time.Time // of the metadata service, and when they end
}

func newCloud(t *testing.T) *cloud {
	return &cloud{t: t, now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), life: time.Hour, role: "gateway", logins: map[string]int{}, known: account{}, tokens: map[string]time.Time{}}
}

func (c *cloud) at() time.Time { return c.now }

// issue makes temporary credentials.
func (c *cloud) issue(way string) aws.Credentials {
	c.logins[way]++
	c.version++
	k := aws.Credentials{
		AccessKeyID: fmt.Sprint("ASIA", c.version), SecretAccessKey: fmt.Sprint("key-", c.version), SessionToken: fmt.Sprint("session-", c.version),
		CanExpire: true, Expires: c.now.Add(c.life),
	}
	c.known[k.AccessKeyID] = k
	return k
}

// instance stands for the metadata service of EC2, which answers version 2 only.
func (c *cloud) instance(w http.ResponseWriter, r *http.Request) {
	const roles = "/latest/meta-data/iam/security-credentials/"
	ttl := r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds")
	until, valid := c.tokens[r.Header.Get("X-Aws-Ec2-Metadata-Token")]
	switch {
	case r.Header.Get("X-Forwarded-For") != "":
		w.WriteHeader(http.StatusForbidden)
	case r.URL.Path == "/latest/api/token":
		var seconds int
		if _, err := fmt.Sscan(ttl, &seconds); r.Method != http.MethodPut || err != nil || seconds < 1 || seconds > 21600 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		token := fmt.Sprint("imds-", len(c.tokens))
		c.tokens[token] = c.now.Add(time.Duration(seconds) * time.Second)
		_, _ = io.WriteString(w, token)
	case !valid || !c.now.Before(until):
		w.WriteHeader(http.StatusUnauthorized)
	case r.Method == http.MethodGet && r.URL.Path == roles && c.role != "":
		_, _ = io.WriteString(w, c.role+"\n")
	case r.Method == http.MethodGet && r.URL.Path == roles+c.role && c.role != "":
		c.write(w, "instance", `"Code":"Success","LastUpdated":"2026-11-29T11:00:00Z","Type":"AWS-HMAC",`)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// agent stands for the agent of ECS or EKS.
func (c *cloud) agent(path, token string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != path || r.Header.Get("Authorization") != token {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"code":"AccessDeniedException","message":"session"}`)
			return
		}
		c.write(w, "container", `"AccountId":"123456789012",`)
	}
}

func (c *cloud) write(w io.Writer, way, more string) {
	k := c.issue(way)
	_, _ = fmt.Fprintf(w, `{%s"AccessKeyId":%q,"SecretAccessKey":%q,"Token":%q,"Expiration":%q}`, more, k.AccessKeyID, k.SecretAccessKey, k.SessionToken, k.Expires.Format(time.RFC3339))
}

// sts stands for the Security Token Service of eu-west-1.
func (c *cloud) sts(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Error(err)
	}
	form, err := url.ParseQuery(string(body))
	refuse := func(status int, code string) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>`+code+`</Code><Message>session</Message></Error></ErrorResponse>`)
	}
	action, arn := form.Get("Action"), form.Get("RoleArn")
	id, fault := "", ""
	if action == "AssumeRole" {
		id, fault = c.known.signed(c.t, r, body, "sts", "eu-west-1", c.now)
	}
	switch {
	case err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || form.Get("Version") != "2011-06-15" || form.Get("RoleSessionName") == "":
		refuse(http.StatusBadRequest, "MissingAction")
		return
	case fault != "":
		refuse(http.StatusForbidden, fault)
		return
	case action == "AssumeRole" && id != "" && arn == otherRole && form.Get("ExternalId") == external:
	case action == "AssumeRoleWithWebIdentity" && r.Header.Get("Authorization") == "" && arn == theRole && form.Get("WebIdentityToken") == "jwt-of-the-pod":
	case action == "AssumeRoleWithWebIdentity":
		refuse(http.StatusBadRequest, "InvalidIdentityToken")
		return
	default:
		refuse(http.StatusForbidden, "AccessDenied")
		return
	}
	k := c.issue(action)
	_, _ = fmt.Fprintf(w, `<%[1]sResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><%[1]sResult><Credentials><AccessKeyId>%s</AccessKeyId><SecretAccessKey>%s</SecretAccessKey><SessionToken>%s</SessionToken><Expiration>%s</Expiration></Credentials></%[1]sResult></%[1]sResponse>`,
		action, k.AccessKeyID, k.SecretAccessKey, k.SessionToken, k.Expires.Format(time.RFC3339))
}

// clients returns the clients of a fetch on the machine.
func (c *cloud) clients(metadata secretstest.Hosts) *secrets.Clients {
	return secretstest.OnMachine(secretstest.Clients(secretstest.Hosts{
		"secretsmanager.eu-west-1.amazonaws.com": server(c.t, "eu-west-1", c.at, c.known), "sts.eu-west-1.amazonaws.com": http.HandlerFunc(c.sts),
	}, nil, c.at), metadata)
}

func provisioned(t *testing.T, config string) (*Manager, error) {
	t.Helper()
	m := new(Manager)
	if err := m.UnmarshalCaddyfile(caddyfile.NewTestDispenser("aws_sm {\n" + config + "\n}")); err != nil {
		return nil, err
	}
	return m, m.Provision(caddy.Context{})
}

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// unset removes what the environment of the tests may have of an identity.
func unset(t *testing.T) {
	for _, name := range []string{
		"AWS_REGION", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
		"AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
	} {
		t.Setenv(name, "")
	}
}

// With each identity, secrets are read with its credentials, which are kept until shortly before they
// end, and by a role that it assumes.
func TestSecretsAreReadAsWhatTheMachineIs(t *testing.T) {
	for name, set := range map[string]struct {
		identity string
		env      map[string]string
		metadata func(c *cloud) secretstest.Hosts
		login    string
	}{
		"an instance": {instance, nil, func(c *cloud) secretstest.Hosts {
			return secretstest.Hosts{"169.254.169.254": http.HandlerFunc(c.instance)}
		}, "instance"},
		"a task": {container, map[string]string{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/credentials/1"}, func(c *cloud) secretstest.Hosts {
			return secretstest.Hosts{"169.254.170.2": c.agent("/v2/credentials/1", "")}
		}, "container"},
		"a pod": {container, map[string]string{
			"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": file(t, "jwt-of-the-pod\n"),
		}, func(c *cloud) secretstest.Hosts {
			return secretstest.Hosts{"169.254.170.23": c.agent("/v1/credentials", "jwt-of-the-pod")}
		}, "container"},
		"a service account": {webIdentity, map[string]string{"AWS_ROLE_ARN": theRole, "AWS_WEB_IDENTITY_TOKEN_FILE": file(t, "jwt-of-the-pod")}, func(*cloud) secretstest.Hosts { return nil }, "AssumeRoleWithWebIdentity"},
	} {
		t.Run(name, func(t *testing.T) {
			unset(t)
			for k, v := range set.env {
				t.Setenv(k, v)
			}
			m, err := provisioned(t, "identity "+set.identity+"\nregion eu-west-1")
			if err != nil {
				t.Fatal(err)
			}
			c := newCloud(t)
			clients := c.clients(set.metadata(c))
			own := &secrets.Reference{Path: "prod/openai", Auth: secrets.Auth{fieldType: byServiceRole}}
			role := &secrets.Reference{Path: "prod/openai", Auth: secrets.Auth{fieldType: byAssumedRole, fieldRole: otherRole, fieldExternal: external, fieldRegion: "eu-west-1"}}
			read := func(r *secrets.Reference) {
				t.Helper()
				if err := m.Check(r, nil); err != nil {
					t.Fatal(err)
				}
				if got, err := m.Fetch(t.Context(), r, clients); err != nil || got.Reveal() != `{"key":"sk-1"}` {
					t.Fatalf("%q, %v", got.Reveal(), err)
				}
			}
			for range 3 {
				read(own)
				read(role)
			}
			if c.logins[set.login] != 1 || c.logins["AssumeRole"] != 1 {
				t.Errorf("%v, want one login each", c.logins)
			}
			c.now = c.now.Add(c.life - time.Minute - time.Second)
			read(own)
			if c.logins[set.login] != 1 {
				t.Errorf("%v, before the credentials end", c.logins)
			}
			c.now = c.now.Add(time.Second) // a minute before
			read(own)
			read(role)
			if c.logins[set.login] != 2 || c.logins["AssumeRole"] != 2 {
				t.Errorf("%v, shortly before the credentials end", c.logins)
			}
			for id := range c.known { // as if they had been revoked
				delete(c.known, id)
			}
			read(own)
			if c.logins[set.login] != 3 {
				t.Errorf("%v, after they were refused", c.logins)
			}
		})
	}
}

func TestAnIdentityThatIsNotThereSaysSo(t *testing.T) {
	unset(t)
	m, err := provisioned(t, "identity instance\nregion eu-west-1")
	if err != nil {
		t.Fatal(err)
	}
	c := newCloud(t)
	c.role = ""
	on := secretstest.Hosts{"169.254.169.254": http.HandlerFunc(c.instance)}
	own := &secrets.Reference{Path: "prod/openai", Auth: secrets.Auth{fieldType: byServiceRole}}
	_, err = m.Fetch(t.Context(), own, c.clients(on))
	if refused := new(secrets.Error); !errors.As(err, &refused) || refused.Status != 404 || !secrets.Refusal(err) {
		t.Errorf("a machine without a role: %v", err)
	}
	if _, err = m.Fetch(t.Context(), own, c.clients(nil)); err == nil || secrets.Refusal(err) || !strings.Contains(err.Error(), "no route") {
		t.Errorf("no metadata service: %v", err)
	}
	for name, answer := range map[string]string{
		"nothing": ``, "no object": `[]`, "a failure": `{"Code":"AssumeRoleUnauthorizedAccess"}`, "no token": `{"Code":"Success","AccessKeyId":"a","SecretAccessKey":"b","Expiration":"2026-11-29T13:00:00Z"}`,
		"no end": `{"Code":"Success","AccessKeyId":"a","SecretAccessKey":"b","Token":"c"}`, "long": strings.Repeat("x", secrets.MaxValue+1),
	} {
		service := func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/token") || strings.HasSuffix(r.URL.Path, "/") {
				_, _ = io.WriteString(w, "gateway")
				return
			}
			_, _ = io.WriteString(w, answer)
		}
		if got, err := m.Fetch(t.Context(), own, c.clients(secretstest.Hosts{"169.254.169.254": http.HandlerFunc(service)})); err == nil {
			t.Errorf("%s: %q", name, got.Reveal())
		}
	}
	service := func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "../../user-data") }
	if _, err := m.Fetch(t.Context(), own, c.clients(secretstest.Hosts{"169.254.169.254": http.HandlerFunc(service)})); !errors.Is(err, errNoKeys) {
		t.Errorf("a role that is a path: %v", err)
	}
	role := &secrets.Reference{Path: "prod/openai", Auth: secrets.Auth{fieldType: byAssumedRole, fieldRole: otherRole, fieldExternal: "another", fieldRegion: "eu-west-1"}}
	c.role = "gateway"
	if _, err := m.Fetch(t.Context(), role, c.clients(on)); err == nil || !strings.Contains(err.Error(), "AccessDenied") || strings.Contains(err.Error(), "session") || !secrets.Refusal(err) {
		t.Errorf("another external id: %v", err)
	}
}

// A machine's identity is the operator's to give: without it in the configuration, no reference uses
// it, also not one that was made while it was there.
func TestOnlyTheOperatorGivesAnIdentity(t *testing.T) {
	unset(t)
	m, err := provisioned(t, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range []string{byServiceRole, byAssumedRole} {
		if login := m.Login(); login.Ways[way] != nil || login.Unavailable[way] == "" {
			t.Errorf("%s: %+v", way, login)
		}
		c := newCloud(t)
		_, err := m.Fetch(t.Context(), &secrets.Reference{Path: "p", Auth: secrets.Auth{fieldType: way, fieldRegion: "eu-west-1"}}, c.clients(secretstest.Hosts{"169.254.169.254": http.HandlerFunc(c.instance)}))
		if field := new(secrets.FieldError); !errors.As(err, &field) || len(c.logins)+len(c.tokens) > 0 {
			t.Errorf("%s: %v, %v", way, err, c.logins)
		}
	}
	for config, want := range map[string]string{
		"identity nope": "identity: expected", "identity container": "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "identity web_identity": "AWS_ROLE_ARN",
		"identity instance\nregion nope.example.com": "region: expected", "identity instance\nidentity instance": "given twice", "identity": "wrong argument", "nope": "unrecognized",
	} {
		if _, err := provisioned(t, config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", config, err)
		}
	}
	for _, uri := range []string{"http://169.254.169.254/latest", "https://169.254.170.2/x", "http://evil.example.com/x", "http://a@169.254.170.2/x", "http://127.0.0.1/x", "::"} {
		t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri)
		if _, err := provisioned(t, "identity container"); err == nil {
			t.Errorf("%s is accepted", uri)
		}
	}
	if m, err = provisioned(t, "identity instance"); err != nil {
		t.Fatal(err)
	}
	for field, auth := range map[string]secrets.Auth{
		fieldRegion:   {fieldType: byServiceRole},
		fieldRole:     {fieldType: byAssumedRole, fieldRegion: "eu-west-1", fieldRole: "gateway"},
		fieldExternal: {fieldType: byAssumedRole, fieldRegion: "eu-west-1", fieldRole: theRole, fieldExternal: "a b"},
	} {
		var fault *secrets.FieldError
		if err := m.Check(&secrets.Reference{Path: "p", Auth: auth}, nil); !errors.As(err, &fault) || fault.Field != secrets.AuthField(field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	t.Setenv("AWS_REGION", "eu-west-1")
	if m, err = provisioned(t, "identity instance"); err != nil || m.Check(&secrets.Reference{Path: "p", Auth: secrets.Auth{fieldType: byServiceRole}}, nil) != nil {
		t.Errorf("the region of the environment: %v", err)
	}
}

// Credentials are not printed, whatever prints them.
func TestTemporaryCredentialsAreMasked(t *testing.T) {
	k := keys{AccessKeyID: "ASIA1", SecretAccessKey: "s3cret", Token: "t0ken"}
	for _, text := range []string{fmt.Sprint(k), fmt.Sprintf("%+v %#v", k, &k)} {
		if strings.Contains(text, "s3cret") || strings.Contains(text, "t0ken") {
			t.Error(text)
		}
	}
}

func FuzzCredentialsOfTheMachine(f *testing.F) {
	f.Add([]byte(`{"AccessKeyId":"a","SecretAccessKey":"b","Token":"c","Expiration":"2026-11-29T13:00:00Z"}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		k, err := parse(answer)
		if err == nil && !k.complete() {
			t.Errorf("%q", answer)
		}
	})
}
