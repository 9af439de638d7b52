package admin

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
)

// AuditLog is a row of the audit trail as shown by the control plane.
type AuditLog struct {
	ID             string         `json:"id" format:"uuid"`
	Number         uint64         `json:"number" doc:"Of the row in the trail."`
	Timestamp      string         `json:"timestamp" format:"date-time"`
	Method         string         `json:"method"`
	URI            string         `json:"uri"`
	RequestID      string         `json:"request_id"`
	RequestBody    string         `json:"request_body" doc:"JSON of the members of the body, with the values that the resource has afterwards; others, such as secrets, are masked."`
	QueryParams    string         `json:"query_params"`
	RequestHeaders string         `json:"request_headers" doc:"JSON of the recorded headers."`
	UserID         string         `json:"user_id" doc:"Of the user or the API key; empty: the gateway itself."`
	UserName       string         `json:"user_name"`
	UserType       string         `json:"user_type" enum:"user,api_key,system"`
	KeyUserID      *string        `json:"key_user_id" doc:"The user that the API key belongs to."`
	OrganisationID string         `json:"organisation_id"`
	WorkspaceID    *string        `json:"workspace_id"`
	Status         int            `json:"response_status_code"`
	ResourceType   string         `json:"resource_type" doc:"Such as virtual_keys: the member object of its answers, in the plural and with underscores."`
	Resource       string         `json:"resource" doc:"As the request names it."`
	ResourceID     string         `json:"resource_id"`
	ResourceName   string         `json:"resource_name"`
	Action         string         `json:"action" doc:"Such as create."`
	Changes        []audit.Change `json:"changes" doc:"The members that are different afterwards, as JSON; secrets are masked."`
	ClientIP       string         `json:"client_ip"`
	Country        *string        `json:"country"`
	UserAgent      string         `json:"user_agent"`
}

// AuditLogs is the envelope of the list.
type AuditLogs struct {
	Records []AuditLog `json:"records"`
	Total   int        `json:"total" doc:"Rows that match, on all pages."`
	Object  string     `json:"object" enum:"list"`
}

// auditFilter holds the query parameters of the list.
type auditFilter struct {
	InWorkspace
	PageSize       int       `query:"page_size" minimum:"0" maximum:"100" default:"100" doc:"Rows a page."`
	CurrentPage    int       `query:"current_page" minimum:"0" maximum:"1000000000" doc:"The page, counted from 0."`
	StartTime      time.Time `query:"start_time" doc:"The first moment. Default: the first row."`
	EndTime        time.Time `query:"end_time" doc:"The last moment. Default: now."`
	OrganisationID string    `query:"organisation_id" format:"uuid"`
	Method         string    `query:"method" enum:"POST,PUT,DELETE,GET"`
	URI            string    `query:"uri" maxLength:"2048" doc:"The whole path."`
	RequestID      string    `query:"request_id" maxLength:"255"`
	UserID         string    `query:"user_id" maxLength:"255" doc:"Of a user or an API key."`
	UserType       string    `query:"user_type" enum:"user,api_key,system"`
	Status         int       `query:"response_status_code" minimum:"100" maximum:"599"`
	ResourceType   string    `query:"resource_type" maxLength:"255"`
	ResourceID     string    `query:"resource_id" maxLength:"255"`
	Action         string    `query:"action" maxLength:"255" doc:"One of create, delete, export, invoke, list, manage, publish, read, rotate, update, view and write."`
	ClientIP       string    `query:"client_ip" maxLength:"255"`
	Country        string    `query:"country" maxLength:"255"`
}

func (a *API) auditLogs() {
	rt := route{method: http.MethodGet, path: "/audit-logs", kind: audit.AuditLogs, scopes: []string{"audit_logs.list"}, summary: "List administrative actions, the newest first"}
	register(a, rt, (*call).listAuditLogs)
}

func (c *call) listAuditLogs(in *auditFilter) (*output[AuditLogs], error) {
	out := &output[AuditLogs]{AuditLogs{Records: []AuditLog{}, Object: "list"}}
	workspace, err := c.inWorkspace(in.WorkspaceID)
	if err != nil {
		return nil, err
	}
	if in.OrganisationID != "" && in.OrganisationID != c.caller.OrganisationID {
		return nil, forbidden("organisation_id: the %s belongs to another organisation", c.credential())
	}
	if !in.StartTime.IsZero() && !in.EndTime.IsZero() && in.EndTime.Before(in.StartTime) {
		return nil, invalid("end_time", "it is before start_time")
	}
	if types := audit.Types(); in.ResourceType != "" && !slices.Contains(types, audit.Type(in.ResourceType)) {
		return nil, oneOf("resource_type", types, in.ResourceType)
	}
	if actions := audit.Actions(); in.Action != "" && !slices.Contains(actions, in.Action) {
		return nil, oneOf("action", actions, in.Action)
	}
	list, err := c.api.Trail.List(c, &audit.Filter{
		From: in.StartTime, To: in.EndTime, WorkspaceID: workspace, Who: in.UserID, Actor: audit.Actor(in.UserType), Resource: in.ResourceType, ResourceID: in.ResourceID,
		Action: in.Action, Method: in.Method, Path: in.URI, Status: in.Status, RequestID: in.RequestID, IP: in.ClientIP, Country: in.Country,
	}, in.PageSize*in.CurrentPage, in.PageSize)
	if err != nil {
		return nil, err
	}
	out.Body.Total = list.Total
	for _, r := range list.Records {
		shown, err := showAuditLog(r)
		if err != nil {
			return nil, err
		}
		out.Body.Records = append(out.Body.Records, *shown)
	}
	return out, nil
}

// oneOf refuses a value that is none of those that there are.
func oneOf[T ~string](field string, all []T, got string) error {
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = string(one)
	}
	return invalid(field, "expected one of %s, got %q", strings.Join(names, ", "), credentials.Clip(got))
}

func showAuditLog(r *audit.Record) (*AuditLog, error) {
	resource, action := r.ResourceType()
	out := &AuditLog{
		ID: r.ID, Number: r.Number, Timestamp: formatTime(r.At), Method: r.Method, URI: r.Path, RequestID: r.RequestID, QueryParams: r.Query,
		UserID: r.KeyID, UserName: r.KeyName, UserType: string(r.Actor()), OrganisationID: r.OrganisationID, WorkspaceID: text(r.WorkspaceID),
		Status: r.Status, ResourceType: resource, Resource: r.Resource, ResourceID: r.ResourceID, ResourceName: r.ResourceName, Action: action,
		Changes: r.Changes, ClientIP: r.IP, Country: text(r.Country), UserAgent: r.UserAgent,
	}
	if out.Changes == nil {
		out.Changes = []audit.Change{}
	}
	switch r.Actor() {
	case audit.ActorKey:
		out.KeyUserID = text(r.UserID)
	case audit.ActorUser:
		out.UserID, out.UserName = r.UserID, cmp.Or(r.UserName, r.KeyName)
	case audit.ActorSystem:
	}
	body := make(map[string]any, len(r.Fields))
	for _, field := range r.Fields {
		body[field] = credentials.Masked
	}
	for _, change := range r.Changes {
		sent(body, change)
	}
	for _, part := range []struct {
		to    *string
		value map[string]any
	}{{&out.RequestBody, body}, {&out.RequestHeaders, map[string]any{"user-agent": r.UserAgent}}} {
		if len(part.value) == 0 {
			continue
		}
		raw, err := json.Marshal(part.value, json.Deterministic(true))
		if err != nil {
			return nil, err
		}
		*part.to = string(raw)
	}
	return out, nil
}

// sent puts what a member became into a body whose members are masked. Of a member that is an object, only members that changed
// are shown.
func sent(body map[string]any, change audit.Change) {
	if change.To == "" {
		return
	}
	var value any = change.To // it may be shortened
	if v := jsontext.Value(change.To); v.IsValid() {
		value = v
	}
	if _, ok := body[change.Field]; ok {
		body[change.Field] = value
		return
	}
	steps := strings.Split(change.Field, ".")
	if _, ok := body[steps[0]]; !ok {
		return
	}
	at := body
	for _, step := range steps[:len(steps)-1] {
		inner, ok := at[step].(map[string]any)
		if !ok {
			inner = make(map[string]any)
			at[step] = inner
		}
		at = inner
	}
	at[steps[len(steps)-1]] = value
}
