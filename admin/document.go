package admin

import (
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-gw/gateway/credentials"
)

// orNull lists members that are an object or null, by schema, because huma assumes that a
// referenced object is never null. The tests validate every answer against the document.
var orNull = [][2]string{{"APIKey", "usage_limits"}, {"VirtualKey", "usage_limits"}, {"Provider", "usage_limits"}, {"Workspace", "defaults"}}

// describe completes the OpenAPI document with what huma cannot know.
func describe(document *huma.OpenAPI) {
	document.Servers = []*huma.Server{{URL: "/", Description: "The site that serves this document"}}
	schemas := document.Components.Schemas.Map()
	// Huma describes its own error format too, which this API does not use.
	delete(schemas, "ErrorModel")
	delete(schemas, "ErrorDetail")
	for _, at := range orNull {
		schema := schemas[at[0]]
		schema.Properties[at[1]] = &huma.Schema{AnyOf: []*huma.Schema{schema.Properties[at[1]], {Type: "null"}}}
	}
	// An enum in the schema itself would be checked before the handler, whose error message
	// is more helpful.
	for _, name := range []string{"CreateAPIKey", "UpdateAPIKey"} {
		schemas[name].Properties["scopes"].Items.Extensions = map[string]any{"enum": scopes()}
	}
	for _, item := range document.Paths {
		for _, operation := range []*huma.Operation{item.Get, item.Post, item.Put, item.Delete} {
			if operation != nil && operation.RequestBody != nil {
				// Bodies that are read raw, for the audit trail, are JSON too.
				delete(operation.RequestBody.Content, "application/octet-stream")
			}
		}
	}
	document.Paths["/v1/logs"].Post.Responses["200"].Content = map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}}
}

// scopes returns all scopes, sorted.
func scopes() []string {
	var all []string
	for _, kind := range []credentials.Kind{credentials.OrganisationService, credentials.WorkspaceService, credentials.WorkspaceUser} {
		all = append(all, kind.Scopes()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
