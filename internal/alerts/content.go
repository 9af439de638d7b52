package alerts

import (
	"strconv"
	"time"

	"github.com/caddy-gw/gateway/internal/mail"
	"github.com/caddy-gw/gateway/internal/policies"
)

// content is an alert as events and webhooks have it. Amounts are dollars, or numbers of tokens or
// requests.
func content(a *policies.Alert) map[string]any {
	c := map[string]any{
		"id": a.ID, "type": a.Type, "created_at": a.At.Format(time.RFC3339), "value_key": a.Group, "limit_type": a.Counts,
		"credit_limit": a.Limit, "current_usage": a.Booked, "organisation_id": a.OrganisationID,
	}
	set := func(name, value string) {
		if value != "" {
			c[name] = value
		}
	}
	set("policy_id", a.Policy)
	set("policy_name", a.Name)
	set("object_type", a.Carrier)
	set("object_id", a.Object)
	set("api_key_id", a.Key)
	set("workspace_id", a.WorkspaceID)
	if a.Threshold != nil {
		c["alert_threshold"] = *a.Threshold
	}
	if a.NextResetAt != nil {
		c["next_usage_reset_at"] = a.NextResetAt.UTC().Format(time.RFC3339)
	}
	return c
}

// objects are what the kinds of objects are called that have limits of their own.
var objects = map[string]string{
	policies.KeyAPIKey: "API key", policies.KeyWorkspace: "workspace", policies.KeyVirtualKey: "provider", policies.KeyIntegration: "integration",
	policies.KeyToken: "JWT",
}

// message is the mail of an alert.
func message(a *policies.Alert, to string) *mail.Message {
	budget := "The usage limit of the " + objects[a.Carrier] + " " + a.Object
	if a.Carrier == "" {
		budget = "The usage limit " + a.Policy
		if a.Name != "" {
			budget = "The usage limit " + a.Name + " (" + a.Policy + ")"
		}
		budget += " for " + a.Group
	}
	m := &mail.Message{To: to, Subject: "A usage limit has reached its alert threshold"}
	what := budget + " has reached its alert threshold: " + amount(a, a.Booked) + " of " + amount(a, a.Limit) + " are used."
	if a.Type == policies.AlertExhausted {
		m.Subject = "A usage limit is exhausted"
		what = budget + " is exhausted: " + amount(a, a.Booked) + " of " + amount(a, a.Limit) + " are used, and calls for which there is no room are refused."
	}
	m.Paragraphs = []string{what}
	if a.NextResetAt != nil {
		m.Paragraphs = append(m.Paragraphs, "It is reset on "+a.NextResetAt.UTC().Format("2 January 2006, 15:04 UTC")+".")
	}
	return m
}

func amount(a *policies.Alert, n float64) string {
	text := strconv.FormatFloat(n, 'f', -1, 64)
	if a.Counts == policies.Cost {
		return "$" + text
	}
	return text + " " + a.Counts
}
