package exchange

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/routing"
)

// mustBeEnvelope checks what every answer of the data plane that refuses a call has,
// for clients of the gateway and of OpenAI, and returns the members of error.
func mustBeEnvelope(t *testing.T, body []byte) map[string]any {
	t.Helper()
	var e struct {
		Status  *string        `json:"status"`
		Message *string        `json:"message"`
		Error   map[string]any `json:"error"`
	}
	if err := json.Unmarshal(body, &e); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if e.Status == nil || *e.Status != "failure" || e.Message == nil || *e.Message == "" || e.Error == nil {
		t.Fatalf("not an envelope: %s", body)
	}
	if e.Error["message"] != *e.Message {
		t.Errorf("two messages: %s", body)
	}
	if kind, _ := e.Error["type"].(string); kind == "" {
		t.Errorf("no error.type: %s", body)
	}
	for _, name := range []string{"param", "code"} {
		v, ok := e.Error[name]
		if text, isText := v.(string); !ok || v != nil && (!isText || text == "") {
			t.Errorf("error.%s is neither null nor a text: %s", name, body)
		}
	}
	return e.Error
}

// reasons are all there are.
var reasons = []credentials.Reason{
	credentials.InvalidKey, credentials.ExpiredKey, credentials.MissingScope, credentials.NoProvider, credentials.UnknownProvider, credentials.UnknownVirtualKey,
	credentials.ExpiredVirtualKey, credentials.IntegrationDisabled, credentials.UnknownConfig, credentials.BadCustomHost, credentials.StoredSecretElsewhere, credentials.InlineConfigBlocked,
	credentials.InlineProviderBlocked, credentials.InlineHostBlocked, credentials.InlineHeadersBlocked, credentials.InlineURLBlocked, credentials.AmbiguousHeader, credentials.SecretUnavailable, credentials.SecretUnfetched, credentials.SecretNotAllowed, credentials.KeysUnavailable,
}

func TestEveryRefusalHasAStatusAndAnEnvelope(t *testing.T) {
	t.Parallel()
	if len(credentialErrors) != len(reasons) {
		t.Errorf("%d reasons in the table, %d known here", len(credentialErrors), len(reasons))
	}
	want := map[credentials.Reason]struct {
		status int
		code   string
		field  bool
	}{
		credentials.InvalidKey:            {401, "03", false},
		credentials.ExpiredKey:            {401, "01", false},
		credentials.MissingScope:          {403, "033", false},
		credentials.NoProvider:            {400, "", false},
		credentials.UnknownProvider:       {400, "", false},
		credentials.UnknownVirtualKey:     {400, "", false},
		credentials.ExpiredVirtualKey:     {401, "", false},
		credentials.IntegrationDisabled:   {403, "integration_disabled", false},
		credentials.UnknownConfig:         {400, "", false},
		credentials.BadCustomHost:         {400, "", false},
		credentials.StoredSecretElsewhere: {400, "", false},
		credentials.InlineConfigBlocked:   {400, "inline_config_blocked", true},
		credentials.InlineProviderBlocked: {400, "inline_provider_blocked", true},
		credentials.InlineHostBlocked:     {400, "inline_custom_host_blocked", true},
		credentials.InlineHeadersBlocked:  {400, "inline_forward_headers_blocked", true},
		credentials.InlineURLBlocked:      {400, "inline_provider_url_blocked", true},
		credentials.AmbiguousHeader:       {400, "", false},
		credentials.SecretUnavailable:     {500, "", false},
		credentials.SecretUnfetched:       {503, "", false},
		credentials.SecretNotAllowed:      {403, "", false},
		credentials.KeysUnavailable:       {503, "jwt_keys_unavailable", false},
	}
	cause := errors.New("the cause")
	for _, reason := range reasons {
		e := CredentialError(&credentials.Error{Reason: reason, Field: "x-gw-provider", Message: "words", Err: cause})
		if e.Status != want[reason].status || want[reason].code != "" && e.Code != want[reason].code {
			t.Errorf("reason %d: status %d, code %s", reason, e.Status, e.Code)
		}
		if !errors.Is(e, cause) || e.Error() != "words" {
			t.Errorf("reason %d: the cause is lost: %v", reason, e)
		}
		inner := mustBeEnvelope(t, e.JSON(Envelope{}))
		if inner["param"] != "x-gw-provider" {
			t.Errorf("reason %d: param %v", reason, inner["param"])
		}
		if _, ok := inner["field"]; ok != want[reason].field {
			t.Errorf("reason %d: error.field is there: %v", reason, ok)
		}
		if strings.Contains(string(e.JSON(Envelope{})), "cause") {
			t.Errorf("reason %d: the caller sees the cause", reason)
		}
	}
	if credentialErrors[credentials.InvalidKey].Message != "" {
		t.Error("a refusal wrote into the table")
	}
}

func TestEveryErrorHasAnEnvelopeWhateverItsWords(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 100)
	for name, e := range map[string]*Error{
		"not found":          NotFound("/v1/nothing"),
		"not found, long":    NotFound("/" + long),
		"not found, binary":  NotFound("/\xff\xfe\"\\\n\x00<script>"),
		"method":             MethodNotAllowed("GET", []string{"POST"}),
		"too large":          tooLarge(32 << 20),
		"unavailable":        Unavailable("later", errors.New("x")),
		"rate limited":       RateLimited("slow down", time.Second),
		"a config at fault":  badConfig(routing.ConfigErrors{{Path: "targets[0]", Message: "no \"good\""}, {Path: "", Message: "é"}}),
		"timed out":          TimedOut(1500*time.Millisecond, errors.New("x")),
		"nowhere to go":      Unroutable(errors.New("no condition matches")),
		"an unknown error":   AsError(errors.New("the cause")),
		"bad request":        badRequest("", "invalid_json", "no"),
		"quotes and newline": badRequest("a\"b", "c\\d", "e\n\"f\""),
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			e.Write(w, headersOf(t), Envelope{})
			inner := mustBeEnvelope(t, w.Body.Bytes())
			if w.Code != e.Status {
				t.Errorf("status %d, want %d", w.Code, e.Status)
			}
			h := w.Header()
			if h.Get("Content-Type") != "application/json" || h.Get("Content-Length") != strconv.Itoa(w.Body.Len()) || h.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("headers %v", h)
			}
			if (h.Get("X-Gw-Gateway-Exception") == "true") != e.Gateway {
				t.Errorf("gateway exception %q", h.Get("X-Gw-Gateway-Exception"))
			}
			if strings.Contains(inner["message"].(string), "\ufffd") != strings.Contains(name, "binary") {
				t.Errorf("the message is cut inside a character: %s", inner["message"])
			}
		})
	}
}

func TestWriteRoundsRetryAfterUp(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]string{
		0: "", -time.Second: "", 1: "1", time.Millisecond: "1", time.Second: "1", time.Second + 1: "2", 1500 * time.Millisecond: "2", time.Minute: "60", time.Minute + time.Millisecond: "61",
		24 * time.Hour: "86400",
	} {
		w := httptest.NewRecorder()
		RateLimited("slow down", after).Write(w, nil, Envelope{})
		if got := w.Header().Get("Retry-After"); got != want || w.Code != http.StatusTooManyRequests {
			t.Errorf("%s: got %q, status %d", after, got, w.Code)
		}
	}
}

func TestWriteSaysWhichMethodWouldDo(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	MethodNotAllowed("GET", []string{"POST"}).Write(w, nil, Envelope{})
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "POST" {
		t.Errorf("status %d, allow %q", w.Code, w.Header().Get("Allow"))
	}
}

func TestTooLargeNamesTheLimit(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int64]string{32 << 20: "32MB", 1 << 20: "1MB", 1000: "1000 bytes", 1<<20 + 1: "1048577 bytes", 0: "0 bytes"} {
		if e := tooLarge(limit); e.Status != 413 || e.Message != "Payload size exceeds the limit of "+want {
			t.Errorf("%d: %d %q", limit, e.Status, e.Message)
		}
	}
}
