package sts

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

const given = `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>sk</SecretAccessKey><SessionToken>st</SessionToken><Expiration>2026-11-30T09:00:00Z</Expiration>
</Credentials></AssumeRoleResult></AssumeRoleResponse>`

func TestARoleIsRequested(t *testing.T) {
	now := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	own := aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "the-secret"}
	q, err := AssumeRole(t.Context(), "cn-north-1", own, Role{ARN: "arn:aws-cn:iam::123456789012:role/r", ExternalID: "e1"}, now)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(q.Body)
	if err != nil {
		t.Fatal(err)
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		t.Fatal(err)
	}
	if q.Method != http.MethodPost || q.URL.String() != "https://sts.cn-north-1.amazonaws.com.cn/" || form.Get("Action") != "AssumeRole" || form.Get("RoleArn") != "arn:aws-cn:iam::123456789012:role/r" ||
		form.Get("ExternalId") != "e1" || form.Get("RoleSessionName") != "caddy-gw" {
		t.Errorf("%s %s %s", q.Method, q.URL, body)
	}
	if got := q.Header.Get("Authorization"); !strings.HasPrefix(got, "AWS4-HMAC-SHA256 Credential=AKID/20261130/cn-north-1/sts/aws4_request, ") || strings.Contains(got+string(body), "the-secret") {
		t.Errorf("%s", got)
	}
}

func TestAnswersOfSTS(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		answer string
		want   error
	}{
		"credentials":       {200, given, nil},
		"of a web identity": {200, strings.ReplaceAll(given, "AssumeRole", "AssumeRoleWithWebIdentity"), nil},
		"without an end":    {200, strings.ReplaceAll(given, "Expiration", "Other"), ErrNoCredentials},
		"without a token":   {200, strings.ReplaceAll(given, "SessionToken", "Other"), ErrNoCredentials},
		"cut off":           {200, given[:len(given)-20], ErrNoCredentials},
		"something else":    {200, "{}", ErrNoCredentials},
		"nothing":           {200, "", ErrNoCredentials},
		"a refusal":         {403, `<ErrorResponse><Error><Code>AccessDenied</Code><Message>the-secret</Message></Error></ErrorResponse>`, &Error{403, "AccessDenied"}},
		"a strange refusal": {403, `<ErrorResponse><Error><Code>the secret 1</Code></Error></ErrorResponse>`, &Error{403, ""}},
		"a page":            {502, `<html>`, &Error{502, ""}},
	} {
		got, err := Read(c.status, []byte(c.answer))
		var refused, want *Error
		switch {
		case errors.As(c.want, &want):
			if !errors.As(err, &refused) || *refused != *want {
				t.Errorf("%s: %v", name, err)
			}
		case !errors.Is(err, c.want):
			t.Errorf("%s: %v", name, err)
		case err == nil && (got.AccessKeyID != "ASIA" || got.SecretAccessKey != "sk" || got.SessionToken != "st" || !got.Expires.Equal(time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC))):
			t.Errorf("%s: %+v", name, got)
		}
		if err != nil && got != (aws.Credentials{}) {
			t.Errorf("%s: %+v with an error", name, got)
		}
	}
}

func TestRolesAreChecked(t *testing.T) {
	for arn, right := range map[string]bool{
		"arn:aws:iam::123456789012:role/gateway": true, "arn:aws-us-gov:iam::123456789012:role/a/b": true,
		"": false, "arn": false, "arn:aws:iam::1:role/x": false, "arn:aws:iam::123456789012:user/x": false, "arn:aws:iam::123456789012:role/x\n": false,
	} {
		if got := (Role{ARN: arn}).CheckARN() == ""; got != right {
			t.Errorf("%q: %v", arn, got)
		}
	}
	for id, right := range map[string]bool{"": true, "ab": true, "a": false, "a b": false, strings.Repeat("x", 1001): false} {
		if got := (Role{ExternalID: id}).CheckExternalID() == ""; got != right {
			t.Errorf("%q: %v", id, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(200, given)
	f.Add(403, `<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>`)
	f.Fuzz(func(t *testing.T, status int, answer string) {
		got, err := Read(status, []byte(answer))
		if whole := got.AccessKeyID != "" && got.SecretAccessKey != "" && got.SessionToken != "" && got.CanExpire; whole != (err == nil) {
			t.Errorf("%+v, %v", got, err)
		}
		if (status == http.StatusOK) == errors.As(err, new(*Error)) {
			t.Errorf("%d: %v", status, err)
		}
	})
}
