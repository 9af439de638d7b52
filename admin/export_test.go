package admin

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// SmallTrailQuotas makes the quotas of workspaces for rows of the audit trail smaller than anybody could test.
func (a *API) SmallTrailQuotas(rowsAtOnce, bytesAtOnce int) {
	a.changes, a.turnedAway = newTrailQuota(rowsAtOnce, bytesAtOnce, a.Now), newTrailQuota(rowsAtOnce, bytesAtOnce, a.Now)
}

// Undocumented returns how a response differs from its description in the OpenAPI
// document.
func (a *API) Undocumented(r *http.Request, status int, body []byte) []string {
	if pageFor(r) != nil {
		return nil
	}
	_, pattern := a.mux.Handler(r)
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		return nil // not answered by an operation
	}
	path = strings.Replace(path, "...}", "}", 1)
	document := a.huma.OpenAPI()
	item := document.Paths["/v1"+strings.TrimPrefix(strings.TrimPrefix(path, "/v1"), "/v2")]
	if item == nil { // it is only below /v2
		item = document.Paths[path]
	}
	if item == nil { // the second path of workspaces
		item = document.Paths["/v1/admin"+strings.TrimPrefix(path, "/v2")]
	}
	if item == nil {
		if strings.Contains(path, "/openapi") {
			return nil
		}
		return []string{pattern + " is not in the document"}
	}
	operation := map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "PUT": item.Put, "DELETE": item.Delete}[method]
	if operation == nil {
		return []string{pattern + " is not in the document"}
	}
	answer := operation.Responses[strconv.Itoa(status)]
	if answer == nil {
		answer = operation.Responses["default"]
	}
	content := answer.Content["application/json"]
	if content == nil {
		if len(answer.Content) == 0 {
			return []string{pattern + " has an answer of no content"}
		}
		return nil
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return []string{err.Error()}
	}
	var result huma.ValidateResult
	schema := content.Schema
	huma.Validate(document.Components.Schemas, schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, v, &result)
	var faults []string
	for _, err := range result.Errors {
		faults = append(faults, err.Error())
	}
	return faults
}

// Unlike returns how a body differs from its description in the OpenAPI document.
func (a *API) Unlike(path, method string, body []byte) []string {
	document := a.huma.OpenAPI()
	item := document.Paths[path]
	operation := map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "PUT": item.Put, "DELETE": item.Delete}[method]
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return []string{err.Error()}
	}
	var result huma.ValidateResult
	huma.Validate(document.Components.Schemas, operation.RequestBody.Content["application/json"].Schema, huma.NewPathBuffer(nil, 0), huma.ModeWriteToServer, v, &result)
	var faults []string
	for _, err := range result.Errors {
		faults = append(faults, err.Error())
	}
	return faults
}

// Dependents are the kinds of objects that refer to those of each noun, and keep them from being deleted.
func Dependents() map[string][]string {
	return map[string][]string{
		"config": kindsOf(dependentsOfConfigs), "virtual key": kindsOf(dependentsOfVirtualKeys), "integration": kindsOf(dependentsOfIntegrations),
		"secret reference": kindsOf(dependentsOfSecretReferences), "guardrail": kindsOf(dependentsOfGuardrails), "prompt": kindsOf(dependentsOfPrompts),
		"partial": kindsOf(dependentsOfPartials), "label": kindsOf(dependentsOfLabels), "collection": kindsOf(dependentsOfCollections),
	}
}

func kindsOf[Row any](all []dependent[Row]) (kinds []string) {
	for _, d := range all {
		kinds = append(kinds, d.kind)
	}
	return kinds
}
