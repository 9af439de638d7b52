package external

import (
	"regexp"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
)

var panwScopes = []string{"last_message", "last_user_message", "user_messages", "all_messages"}

var panwIntercept = row{
	id: "panw-prisma-airs.intercept", doc: "the profile of Prisma AIRS lets the text pass",
	vendor: panw, base: "https://service.api.aisecurity.paloaltonetworks.com", path: "/v1/scan/sync/request", header: map[string]string{"x-pan-token": "{AIRS_API_KEY}"},
	parameters: []guardrails.Parameter{
		{Name: "profile_name", Doc: "the profile"},
		{Name: "profile_id", Doc: "or its id"},
		{Name: "ai_model", Default: `"unknown-model"`, Doc: "the model, as reports name it"},
		{Name: "app_user", Doc: "the user, as reports name it; default: _user of the metadata"},
		{Name: "app_name", Doc: "the application, as reports name it"},
		{Name: "scan_scope", OneOf: panwScopes, Default: `"last_message"`, Doc: "what is judged of a call with messages; last_message: what the hook judges"},
		{Name: "strip_scaffolding", Type: guardrails.Boolean, Doc: "what coding agents add to a call in <system-reminder>, <environment_context> or <environment_details> is not judged; whoever calls can hide texts in those"},
	},
	body: object{
		"tr_id":      "$trace",
		"ai_profile": object{"profile_name": "$profile_name", "profile_id": "$profile_id"},
		"metadata":   object{"ai_model": "$ai_model", "app_user": "$appUser", "app_name": "$app_name"},
		"contents":   list{object{"prompt": "$call", "response": "$answer"}},
	},
	takes: takesScope, values: panwValues, read: word("action", []string{"allow"}, []string{"block"}),
}

// panwValues has the user, as the parameters or the metadata name it, and the trace.
func panwValues(c *check, s *guardrails.Subject, _, name string) (any, bool) {
	switch name {
	case "trace":
		v := s.Header.Get("X-Gw-Trace-Id")
		return v, v != ""
	case "appUser":
		v := c.p.Text("app_user")
		if v == "" {
			v = gjson.GetBytes(s.Metadata, "_user").Str
		}
		return v, v != ""
	}
	return nil, false
}

// takesScope is what of a call the parameters scan_scope and strip_scaffolding leave. A call that
// has nothing of it is judged as the hook says.
func takesScope(c *check, s *guardrails.Subject) string {
	text := s.Text()
	if s.Phase != guardrails.Input {
		return text
	}
	if scope := c.p.Text("scan_scope"); scope != "last_message" {
		if scoped := scopeOf(s.Request, scope); scoped != "" {
			text = scoped
		}
	}
	if c.p.Boolean("strip_scaffolding") {
		if stripped := strings.TrimSpace(scaffolding.ReplaceAllString(text, "")); stripped != "" {
			text = stripped
		}
	}
	return text
}

// scaffolding is what coding agents put around what their users say.
var scaffolding = regexp.MustCompile(`(?s)<system-reminder>.*?</system-reminder>|<environment_context>.*?</environment_context>|<environment_details>.*?</environment_details>`)

// scopeOf are the texts of some of the messages of a call.
func scopeOf(body []byte, scope string) string {
	messages := gjson.GetBytes(body, "messages")
	if !messages.IsArray() {
		messages = gjson.GetBytes(body, "input") // of responses
	}
	var texts []string
	for _, m := range guardrails.Elements(messages) {
		text := textOf(m.Get("content"))
		if text == "" || scope != "all_messages" && m.Get("role").Str != "user" {
			continue
		}
		if scope == "last_user_message" {
			texts = texts[:0]
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "\n")
}

// textOf are the texts of a message.
func textOf(content gjson.Result) string {
	if !content.IsArray() {
		return content.Str
	}
	var texts []string
	for _, part := range guardrails.Elements(content) {
		if text := part.Get("text").Str; text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}
