package admin

import (
	"math"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/internal/reqlog"
	"github.com/caddy-gw/gateway/internal/roles"
)

// A base is the URL of a request's host, which is the base of the URLs of calls.
type base struct{ url string }

// Resolve reads it from the request.
func (b *base) Resolve(ctx huma.Context) []error {
	b.url = "http://" + ctx.Host()
	if ctx.TLS() != nil {
		b.url = "https://" + ctx.Host()
	}
	return nil
}

// LogFilter holds the query parameters of the list of records. Exports of records use
// the same names.
type LogFilter struct {
	WorkspaceID string    `query:"workspace_id" maxLength:"255" doc:"Id or slug. Default: the caller's workspace, or all that it may see."`
	KeyIDs      []string  `query:"api_key_id" maxItems:"50" doc:"Any of these API keys."`
	Endpoints   []string  `query:"endpoint" maxItems:"50" doc:"Any of these, such as chatComplete."`
	Providers   []string  `query:"ai_org" maxItems:"50" doc:"Any of these providers."`
	Models      []string  `query:"ai_model" maxItems:"50" doc:"Any of these models, as providers were asked for them."`
	VirtualKeys []string  `query:"virtual_keys" maxItems:"50" doc:"Any of these slugs."`
	Configs     []string  `query:"configs" maxItems:"50" doc:"Any of these slugs."`
	Prompts     []string  `query:"prompt_slug" maxItems:"50" doc:"Any of these saved prompts."`
	Statuses    []string  `query:"status_code" maxItems:"50" doc:"Any of these, such as 429 or 5xx."`
	Caches      []string  `query:"cache_status" maxItems:"50" doc:"Any of these, such as HIT."`
	TraceIDs    []string  `query:"trace_id" maxItems:"50" doc:"Any of these."`
	From        time.Time `query:"time_of_generation_min" doc:"Only calls that began then or later."`
	To          time.Time `query:"time_of_generation_max" doc:"Only calls that began before."`
	CostFrom    cents     `query:"cost_min" minimum:"0" doc:"Only calls that cost so many cents or more. Those whose cost is not known cost neither."`
	CostTo      cents     `query:"cost_max" minimum:"0" doc:"Only calls that cost so many cents or less."`
	Metadata    string    `query:"metadata" maxLength:"4096" doc:"A JSON object of texts: only calls with all of these entries."`
}

// Resolve rejects filters that are not numbers, because an unfiltered list would look like a
// filtered one.
func (f *LogFilter) Resolve(huma.Context) []error {
	var faults []error
	for name, c := range map[string]cents{"cost_min": f.CostFrom, "cost_max": f.CostTo} {
		if math.IsNaN(c.value) {
			faults = append(faults, &huma.ErrorDetail{Location: "query." + name, Message: "expected cents"})
		}
	}
	return faults
}

// cents is an optional query parameter with an amount of money.
type cents struct {
	value float64
	given bool
}

// Receiver returns where to put the parameter's value.
func (c *cents) Receiver() reflect.Value { return reflect.ValueOf(&c.value).Elem() }

// OnParamSet records whether the parameter is given.
func (c *cents) OnParamSet(given bool, _ any) { c.given = given }

// Schema returns the schema of a number.
func (cents) Schema(r huma.Registry) *huma.Schema { return huma.SchemaFromType(r, typeOf[float64]()) }

func (c *cents) amount() *prices.Amount {
	if !c.given {
		return nil
	}
	a := prices.FromCents(c.value)
	return &a
}

func validStatus(s string) bool {
	return len(s) == 3 && s[0] >= '1' && s[0] <= '5' && (s[1:] == "xx" || s[1] >= '0' && s[1] <= '9' && s[2] >= '0' && s[2] <= '9')
}

// filter returns the requested filter, limited to what the caller may see.
func (f *LogFilter) filter(c *call) (*reqlog.Filter, error) {
	out := &reqlog.Filter{
		KeyIDs: f.KeyIDs, Endpoints: f.Endpoints, Providers: f.Providers, Models: f.Models, VirtualKeys: f.VirtualKeys, Configs: f.Configs, Prompts: f.Prompts,
		Statuses: f.Statuses, CacheStatuses: f.Caches, TraceIDs: f.TraceIDs, From: f.From, To: f.To,
		CostFrom: f.CostFrom.amount(), CostTo: f.CostTo.amount(),
	}
	if i := slices.IndexFunc(f.Statuses, func(s string) bool { return !validStatus(s) }); i >= 0 {
		return nil, invalid("status_code", "expected statuses such as 429 or 5xx, got %q", credentials.Clip(f.Statuses[i]))
	}
	if f.Metadata != "" {
		if err := json.Unmarshal([]byte(f.Metadata), &out.Metadata); err != nil || len(out.Metadata) == 0 || len(out.Metadata) > 50 {
			return nil, invalid("metadata", "expected a JSON object of at most 50 texts")
		}
	}
	out.UserIDs = c.ownRecords()
	named, err := c.inWorkspace(f.WorkspaceID)
	if err != nil {
		return nil, err
	}
	if out.Workspaces = c.logsOf(named); named != "" && len(out.Workspaces) == 0 {
		return nil, forbidden("organisationAdminsViewLogMetadata: the workspace does not show its logs to keys of the organisation")
	}
	return out, nil
}

// logsOf returns the workspaces whose records the caller may see: all, or the named one. A
// workspace key only sees those of its own workspace.
func (c *call) logsOf(named string) []string {
	seen := []string{}
	for _, w := range c.api.Directory.Workspaces() {
		if !c.maySee(w.ID) || named != "" && named != w.ID {
			continue
		}
		if _, metadata := c.api.Directory.AdminsSee(w); metadata || c.caller.WorkspaceID != "" {
			seen = append(seen, w.ID)
		}
	}
	return seen
}

// seesBodies reports whether the caller may also see the bodies of a record.
func (c *call) seesBodies(r *reqlog.Record) bool {
	w, ok := c.api.Directory.Workspace(r.WorkspaceID)
	if !ok || !c.maySee(w.ID) {
		return false
	}
	if c.caller.WorkspaceID == "" {
		logs, _ := c.api.Directory.AdminsSee(w)
		return logs
	}
	return c.hasSetting(roles.MembersViewLogs, roles.ManagersViewLogs)
}

// ownRecords returns the caller's user id if the caller sees no records of others.
func (c *call) ownRecords() []string {
	if c.hasSetting(roles.MembersViewAllData, roles.ManagersViewAllData) {
		return nil
	}
	return []string{c.caller.UserID}
}

// hasSetting reports whether a setting of the caller's role in the workspace is on: the first for
// members, the second for managers. All others are not limited by it.
func (c *call) hasSetting(members, managers string) bool {
	r := c.caller.Rights
	switch {
	case r == nil || r.Organisation.Administers():
		return true
	case r.Workspace == roles.WorkspaceMember:
		return r.On(members)
	case r.Workspace == roles.WorkspaceManager:
		return r.On(managers)
	}
	return true
}

// LogList is a page of the request log, newest first.
type LogList struct {
	Object     string       `json:"object" enum:"list"`
	Total      int          `json:"total" doc:"Records that match, from the cursor on; of those in the searched part of the log, if total_exact is false."`
	TotalExact bool         `json:"total_exact" doc:"Whether the log was searched to its end. With filters besides workspace and time, one request searches a bounded part of it."`
	Data       []LogMetrics `json:"data"`
	HasMore    bool         `json:"has_more"`
	NextCursor *string      `json:"next_cursor" doc:"Where the list goes on. One request searches a bounded part of the log: the page may end early."`
}

func (a *API) logs() {
	register(a, route{
		method: http.MethodGet, path: "/logs", kind: audit.Logs, scopes: []string{"logs.list"}, summary: "List records of calls",
	}, func(c *call, in *struct {
		base
		Paging
		LogFilter
		Cursor string `query:"cursor" format:"uuid" doc:"next_cursor of the page before, in place of current_page: pages then stay as they are while calls come."`
	},
	) (*struct{ Body LogList }, error) {
		f, err := in.filter(c)
		if err != nil {
			return nil, err
		}
		page := reqlog.Page{Before: in.Cursor, Limit: in.PageSize}
		switch {
		case in.Cursor != "" && in.CurrentPage > 0:
			return nil, invalid("cursor", "give either a cursor or current_page")
		case in.PageSize > 0:
			page.Skip = min(in.CurrentPage, math.MaxInt32) * in.PageSize
		}
		list, err := c.api.Records.List(c, f, page)
		if err != nil {
			return nil, err
		}
		if list.Short {
			return nil, invalid("current_page", "it is too far to be reached with these filters; go on by next_cursor of a page before")
		}
		out := LogList{Object: "list", Total: list.Total, TotalExact: list.Exact, Data: []LogMetrics{}, HasMore: list.More, NextCursor: text(list.Next)}
		for _, r := range list.Records {
			out.Data = append(out.Data, c.showMetrics(r, in.url))
		}
		return &struct{ Body LogList }{out}, nil
	})

	register(a, route{
		method: http.MethodGet, path: "/logs/{log_id}", kind: audit.Logs, scopes: []string{"logs.view"}, summary: "Get the record of a call by its id, or the latest one by its trace id",
	}, func(c *call, in *struct {
		base
		ID string `path:"log_id" maxLength:"256" doc:"Of the record; or what x-gw-trace-id said in the call's answer."`
	},
	) (*struct{ Body LogObject }, error) {
		c.record.Resource = credentials.Clip(in.ID)
		r, err := c.api.Records.Find(c, in.ID, &reqlog.Filter{Workspaces: c.logsOf(""), UserIDs: c.ownRecords()})
		switch {
		case err != nil:
			return nil, err
		case r == nil:
			return nil, notFound("Log", in.ID)
		}
		if c.seesBodies(r) {
			err = c.api.Records.Bodies(c, r)
		} else {
			r.Request, r.Response, r.RequestHeaders, r.ResponseHeaders = nil, nil, nil, nil
		}
		if err != nil {
			return nil, err
		}
		return &struct{ Body LogObject }{c.showLog(r, in.url)}, nil
	})

	register(a, route{
		method: http.MethodPost, path: "/logs", kind: audit.Logs, scopes: []string{"logs.write", credentials.ScopeCompletions}, summary: "Write records of one's own", data: true,
	}, func(c *call, in *struct{ Body customLogs }) (*struct {
		ContentType string `header:"Content-Type"`
		Body        []byte
	}, error,
	) {
		w, err := c.workspace("")
		if err != nil {
			return nil, err
		}
		records, err := c.customRecords(in.Body, w)
		if err != nil {
			return nil, err
		}
		if err := c.mayWrite(len(records), len(in.Body)); err != nil {
			return nil, err
		}
		for i, r := range records {
			if !c.api.Records.Add(r) {
				return nil, failure(http.StatusServiceUnavailable, "The log cannot take more for now; it took %d of %d", i, len(records))
			}
		}
		return &struct {
			ContentType string `header:"Content-Type"`
			Body        []byte
		}{"text/plain; charset=utf-8", []byte("ok")}, nil
	})
}

// maxLogged returns how much of each body of a workspace's custom records is kept, in
// bytes.
func (c *call) maxLogged(w *directory.Workspace) int {
	if w.NoBodies {
		return 0
	}
	return c.api.Records.MaxBody()
}
