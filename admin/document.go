package admin

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-gw/gateway/credentials"
)

// orNull lists members by schema that are an object or null, because huma assumes that
// a referenced object is never null. The tests validate all answers against the
// document.
var orNull = [][2]string{{"APIKey", "usage_limits"}, {"APIKey", "rotation_policy"}, {"VirtualKey", "usage_limits"}, {"Provider", "usage_limits"}, {"Workspace", "defaults"}, {"Self", "user"}}

// describe adds to the OpenAPI document what huma does not know.
func describe(document *huma.OpenAPI) {
	document.Servers = []*huma.Server{{URL: "/", Description: "The site that serves this document"}}
	schemas := document.Components.Schemas.Map()
	// Huma adds the schema of its own errors, which this API does not use.
	delete(schemas, "ErrorModel")
	delete(schemas, "ErrorDetail")
	for _, at := range orNull {
		schema := schemas[at[0]]
		schema.Properties[at[1]] = &huma.Schema{AnyOf: []*huma.Schema{schema.Properties[at[1]], {Type: "null"}}}
	}
	// Huma would check an enum in the schema before calling the handler, whose error
	// message is more helpful.
	for _, name := range []string{"CreateAPIKey", "UpdateAPIKey"} {
		schemas[name].Properties["scopes"].Items.Extensions = map[string]any{"enum": credentials.Scopes()}
	}
	for _, item := range document.Paths {
		for _, operation := range []*huma.Operation{item.Get, item.Post, item.Put, item.Delete} {
			if operation != nil && operation.RequestBody != nil {
				// Bodies are read as bytes for the audit trail, but they are JSON.
				delete(operation.RequestBody.Content, "application/octet-stream")
			}
		}
	}
	document.Paths["/v1/logs"].Post.Responses["200"].Content = map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}}
}
