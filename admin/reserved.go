package admin

import "strings"

// reserved lists the first path segments, after /v1, of the control plane, whether or
// not they are implemented. Such paths are never forwarded to a provider. Everything
// below /v2 is reserved, but calls of prompts, which are below both.
var reserved = map[string]bool{
	"admin": true, "agent-integrations": true, "agent-servers": true, "agents": true, "analytics": true, "api-keys": true,
	"audit-logs": true, "auth": true, "collections": true, "configs": true, "deployments": true, "feedback": true,
	"gateway": true, "guardrails": true, "integrations": true, "labels": true, "logs": true, "mcp": true,
	"mcp-integrations": true, "mcp-servers": true, "model-aliases": true, "model-configs": true, "oauth": true, "openapi.json": true,
	"openapi.yaml": true, "organisation": true, "organisations": true, "otel": true, "plugins": true, "policies": true,
	"prompts": true, "providers": true, "scim": true, "secret-references": true, "users": true, "versions": true,
	"virtual-keys": true, "workspace-exclusions": true, "workspaces": true,
}

// Reserved reports whether path belongs to the control plane.
func Reserved(path string) bool {
	if rest, ok := strings.CutPrefix(path, "/v2"); ok {
		return (rest == "" || rest[0] == '/') && !rendersPrompt(rest)
	}
	rest, ok := strings.CutPrefix(path, "/v1")
	if !ok || rest == "" || rest[0] != '/' {
		return false
	}
	first, _, _ := strings.Cut(rest[1:], "/")
	return reserved[first] && !rendersPrompt(rest)
}

// rendersPrompt reports whether the part of a path after its version is that of a call.
func rendersPrompt(path string) bool {
	rest, ok := strings.CutPrefix(path, "/prompts/")
	id, action, _ := strings.Cut(rest, "/")
	return ok && id != "" && id != "partials" && (action == "render" || action == "completions")
}
