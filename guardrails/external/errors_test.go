package external

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/guardrails"
)

// faulty are credentials that are wrong by themselves, and the parameter that the error names.
var faulty = []struct{ id, parameters, credentials, name string }{
	{"pangea.pii", `{}`, `{"apiKey":"k"}`, "credentials.domain"},
	{"pangea.pii", `{}`, `{"apiKey":"k","domain":"x.y/@evil"}`, "credentials.domain"},
	{"promptsecurity.protectPrompt", `{}`, `{"apiKey":"k"}`, "credentials.apiDomain"},
	{"mistral.moderateContent", `{"categories":["pii"]}`, `{"apiKey":"a\nb"}`, "credentials.apiKey"},
	{"mistral.moderateContent", `{"categories":["pii"]}`, `{"apiKey":"k","baseUrl":"https://"}`, "credentials.baseUrl"},
	{"aporia.validateProject", `{"projectID":".."}`, `{"apiKey":"k"}`, "projectID"},
	{"azure.shieldPrompt", `{}`, `{"resourceName":"res"}`, "credentials.apiKey"},
	{"azure.shieldPrompt", `{}`, `{"apiKey":"k"}`, "credentials.resourceName"},
	{"azure.shieldPrompt", `{}`, `{"resourceName":"res","azureAuthMode":"entra"}`, "credentials.azureEntraTenantId"},
	{"acuvity.scan", `{}`, `{"apiKey":"k"}`, "credentials.apiKey"},
	{"lasso.classify", `{"userId":"a\nb"}`, `{"apiKey":"k"}`, "userId"},
}

// Nobody is asked, and the faults are known when a guardrail is saved.
func TestFaultsOfCredentialsAreThoseOfParameters(t *testing.T) {
	for _, c := range faulty {
		parameters := strings.TrimSuffix(c.parameters, "}")
		if parameters != "{" {
			parameters += ","
		}
		faults := guardrails.Lookup(c.id).Faults([]byte(parameters + `"credentials":` + c.credentials + `}`))
		if len(faults) != 1 || faults[0].Name != c.name {
			t.Errorf("%s with %s: %v, want %s", c.id, c.credentials, faults, c.name)
		}
	}
}

func TestFaultsOfSavedCredentialsAreNoFailuresOfTheService(t *testing.T) {
	for name, saved := range map[string]map[string]string{
		"credentials.domain": {"apiKey": "k", "domain": "x.y/@evil"},
		"credentials.apiKey": {"domain": "aws.us.pangea.cloud"},
		"credentials":        nil,
	} {
		s := &standIn{t: t, saved: map[string]map[string]string{"pangea": saved}}
		_, err := made(t, "pangea.pii", `{}`, "").Judge(t.Context(), subject(s, false))
		var fault *guardrails.ParameterError
		if !errors.As(err, &fault) || fault.Name != name || s.sent != 0 {
			t.Errorf("%v, want a fault of %s, and nobody asked (%d)", err, name, s.sent)
		}
	}
}

func TestTextsThatAServiceRefusesAreUnreadable(t *testing.T) {
	judge := func(s *standIn, texts ...string) error {
		s.want = wanted{"https://redact.d.example.com/v1/redact_structured", map[string]string{"Authorization": "Bearer k"}, `{"data":["a"]}`}
		of := subject(s, false)
		of.Texts = texts
		_, err := made(t, "pangea.pii", `{}`, `{"apiKey":"k","domain":"d.example.com"}`).Judge(t.Context(), of)
		return err
	}
	for status, unreadable := range map[int]bool{400: true, 413: true, 422: true, 401: false, 403: false, 404: false, 408: false, 429: false, 500: false, 503: false} {
		if err := judge(&standIn{t: t, status: status}, "a"); err == nil || errors.Is(err, guardrails.ErrUnreadable) != unreadable {
			t.Errorf("status %d: %v, unreadable %v", status, err, !unreadable)
		}
	}
	if err := judge(&standIn{t: t, reply: `{"result":{"count":0}}`}, slices.Repeat([]string{"a"}, maxRequests+1)...); !errors.Is(err, guardrails.ErrUnreadable) {
		t.Errorf("too many texts: %v", err)
	}
	for _, s := range []*standIn{{t: t, err: errors.New("pangea could not be reached")}, {t: t, err: context.DeadlineExceeded}, {t: t, reply: `{}`}} {
		var fault *guardrails.ParameterError
		if err := judge(s, "a"); err == nil || errors.Is(err, guardrails.ErrUnreadable) || errors.As(err, &fault) {
			t.Errorf("a failure of the service is %v", err)
		}
	}
}

// What a check is sent itself wins over what the caller sends along.
func TestForwardedHeadersDoNotReplaceThoseOfTheCheck(t *testing.T) {
	s := &standIn{t: t, reply: `{"violations_detected":false}`, want: wanted{"https://server.lasso.security/gateway/v2/classify", map[string]string{"lasso-api-key": "k", "X-Tenant": "blue"}, `{"messages":[{"role":"user","content":"Ann's number is 12"}]}`}}
	of := subject(s, false)
	of.Header = http.Header{"X-Tenant": {"blue"}}
	if r, err := made(t, "lasso.classify", `{"forwardHeaders":["x-tenant"]}`, `{"apiKey":"k"}`).Judge(t.Context(), of); err != nil || !r.Verdict {
		t.Errorf("%v, %v", r, err)
	}
}
