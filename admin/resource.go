package admin

import (
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/storage"
)

// A resource is a kind of object that the control plane manages, with the settings
// shared by its routes. The functions list, get, create and so on add the routes. They
// implement scopes, workspace boundaries, transactions, audit records, paging,
// envelopes and the OpenAPI document. The functions passed to them only check, store
// and show rows.
type resource[Row any] struct {
	path  string        // below /v1 and /v2, for example /configs
	alias string        // another full path
	param string        // the path parameter that identifies a row; "": there is only one row
	query []*huma.Param // further parameters of the routes for one row, used by find; see parameter
	noun  string        // for example config
	kind  audit.Type    // in the audit trail
	// onlyV2: its routes are below /v2 alone. Below /v1, the data plane has the path.
	onlyV2 bool
	// The path of the resource whose routes show the rows, if it is another one; see shownBy.
	shownAs string
	// details returns what the audit trail shows of a row besides what its routes show. It may be nil.
	details view[Row]
	// secrets calls is with each secret of a row and with where its routes show it masked, so that the audit trail says that it was
	// exchanged also for one that looks the same. It may be nil.
	secrets func(c *call, row *Row, is func(secret string, path ...string)) error
	// inner is the path parameter of what belongs to a row and is what the audit trail says that a request is about, whose id and
	// name identity returns. It may be empty.
	inner    string
	identity func(c *call, row *Row) (id, name string)

	scope  string                       // for example configs, for the scope configs.read
	scopes func(action string) []string // instead of scope: any of these, if allow decides further

	rows func(c *call) []*Row // that lists have
	// rowsOf returns those of a workspace, by an index. It may be nil.
	rowsOf    func(c *call, workspace string) []*Row
	find      func(c *call, key string) (*Row, error) // returns storage.ErrNotFound if there is none
	name      func(*Row) string                       // its name in the audit trail
	workspace func(*Row) string                       // only callers that see the workspace see the row; nil: everyone does
	allow     func(c *call, row *Row, action string) error
	// shared reports whether the caller, or for a list that workspace, sees a row of another
	// workspace for an action. It may be nil.
	shared func(c *call, workspace string, row *Row, action string) bool
}

// maySee reports whether the caller may see a row; only limits a list to a workspace unless it is
// empty.
func (r *resource[Row]) maySee(c *call, only string, row *Row, action string) bool {
	if r.workspace == nil {
		return true
	}
	if w := r.workspace(row); c.maySee(w) && (only == "" || w == only) {
		return true
	}
	return r.shared != nil && r.shared(c, only, row, action)
}

// visible returns maySee for many rows: most follow one of the same workspace, which is not looked up
// again.
func (r *resource[Row]) visible(c *call, only, action string) func(*Row) bool {
	var last string
	var known, seen bool
	return func(row *Row) bool {
		if r.workspace == nil {
			return true
		}
		if w := r.workspace(row); !known || w != last {
			known, last, seen = true, w, c.maySee(w) && (only == "" || w == only)
		}
		return seen || r.shared != nil && r.shared(c, only, row, action)
	}
}

// get adds GET path/{param}.
func get[Row, V any](a *API, r *resource[Row], show func(*call, *Row) V) {
	read(a, r, "", "Get "+r.aNoun(), func(c *call, row *Row) (*V, error) {
		v := show(c, row)
		return &v, nil
	})
}

// read adds GET path/{param}sub, which returns a part of a row.
func read[Row, V any](a *API, r *resource[Row], sub, summary string, show func(*call, *Row) (*V, error)) {
	if sub == "" {
		r.shownBy(a, func(c *call, row *Row) (any, error) { return show(c, row) })
	}
	register(a, r.routeOfOne(http.MethodGet, sub, "read", summary), func(c *call, in *itemInput) (*output[V], error) {
		row, err := r.one(c, &in.item, "read")
		if err != nil {
			return nil, err
		}
		v, err := show(c, row)
		if err != nil {
			return nil, err
		}
		return &output[V]{*v}, nil
	})
}

// readList adds GET path/{param}sub, which returns a list that belongs to a row.
func readList[Row, V any](a *API, r *resource[Row], sub, summary string, page func(*call, *Row, Paging) (*listOutput[V], error)) {
	register(a, r.routeOfOne(http.MethodGet, sub, "read", summary), func(c *call, in *itemPageInput) (*listOutput[V], error) {
		row, err := r.one(c, &in.item, "read")
		if err != nil {
			return nil, err
		}
		return page(c, row, in.Paging)
	})
}

// create adds POST path. add checks and stores a row in the transaction c.tx, and
// returns it with the response. If there is an error, the row identifies what was not
// created.
func create[Row, B, V any](a *API, r *resource[Row], add func(*call, *B) (*Row, *V, error)) {
	change(a, r.route(http.MethodPost, "create", "Create "+r.aNoun()), func(c *call, in *bodyInput[B]) (*V, edit, error) {
		row, v, err := add(c, &in.Body)
		if row != nil {
			c.record.Resource = credentials.Clip(r.name(row))
		}
		if err != nil {
			return nil, edit{}, err
		}
		return v, r.edited(c, row, nil, r.show(c, row)), nil
	})
}

// update adds PUT path/{param}. apply changes and stores row, which is a copy, in the
// transaction c.tx.
func update[Row, B any](a *API, r *resource[Row], apply func(c *call, row *Row, in *B) error) {
	act(a, r, http.MethodPut, "", "update", "Update "+r.aNoun(), func(c *call, row *Row, in *B) (*empty, error) {
		return &empty{}, apply(c, row, in)
	})
}

// remove adds DELETE path/{param}. verb is the name of the operation: Delete, Archive
// or Revoke.
func remove[Row any](a *API, r *resource[Row], verb string, drop func(c *call, row *Row) error) {
	change(a, r.routeOfOne(http.MethodDelete, "", "delete", verb+" "+r.aNoun()), func(c *call, in *itemInput) (*empty, edit, error) {
		e, err := r.editOrDelete(c, &in.item, "delete", true, func(row *Row) error { return drop(c, row) })
		return &empty{}, e, err
	})
}

// act adds another operation that changes a single row, with its own response. It
// requires the scope of action.
func act[Row, B, V any](a *API, r *resource[Row], method, sub, action, summary string, do func(c *call, row *Row, in *B) (*V, error)) {
	change(a, r.routeOfOne(method, sub, action, summary), func(c *call, in *itemBodyInput[B]) (v *V, e edit, err error) {
		e, err = r.editOrDelete(c, &in.item, action, method == http.MethodDelete && sub == "", func(row *Row) (err error) {
			v, err = do(c, row, &in.Body)
			return err
		})
		return v, e, err
	})
}

// actBare is act for an operation whose request has no body, and whose answer says nothing.
func actBare[Row any](a *API, r *resource[Row], method, sub, action, summary string, do func(c *call, row *Row) error) {
	change(a, r.routeOfOne(method, sub, action, summary), func(c *call, in *itemInput) (*empty, edit, error) {
		e, err := r.edit(c, &in.item, action, func(row *Row) error { return do(c, row) })
		return &empty{}, e, err
	})
}

// edit changes the row that a request refers to, and returns what it was and is.
func (r *resource[Row]) edit(c *call, in *item, action string, do func(row *Row) error) (edit, error) {
	return r.editOrDelete(c, in, action, false, do)
}

// editOrDelete is edit for an operation after which the row may be gone, so that there is nothing to be shown of it.
func (r *resource[Row]) editOrDelete(c *call, in *item, action string, gone bool, do func(row *Row) error) (edit, error) {
	row, err := r.one(c, in, action)
	if err != nil {
		return edit{}, err
	}
	before := r.show(c, row)
	if err := do(row); err != nil {
		return edit{}, err
	}
	if gone {
		return r.edited(c, row, before, nil), nil
	}
	if stored, err := r.find(c, in.key); err == nil { // it may have got another slug
		row = stored
	}
	return r.edited(c, row, before, r.show(c, row)), nil
}

// change adds a route that changes something, in a transaction that includes the audit
// record.
func change[I, V any](a *API, rt route, do func(*call, *I) (*V, edit, error)) {
	rt.audited = true
	var of *shape // of a body that says what is to be changed
	if b, ok := any(new(I)).(interface{ body() reflect.Type }); ok && rt.method == http.MethodPut {
		of = shapeOf(b.body())
	}
	register(a, rt, func(c *call, in *I) (*output[V], error) {
		if b, ok := any(in).(interface{ raw() []byte }); ok {
			c.fields(b.raw())
			if c.elsewhere != "" && gjson.GetBytes(b.raw(), "workspace_id").Str != c.elsewhere {
				return nil, invalid("workspace_id", "the query names a workspace, which the body says here; send it there, or the same in both")
			}
			if of != nil {
				if err := of.check(gjson.ParseBytes(b.raw()), ""); err != nil {
					return nil, err
				}
			}
			if err := oneLine(b.raw()); err != nil {
				return nil, err
			}
		}
		var out *V
		err := c.update(func() error {
			v, e, err := do(c, in)
			if err != nil {
				return err
			}
			out = v
			c.changed(e)
			return nil
		})
		if err != nil {
			return nil, err
		}
		return &output[V]{*out}, nil
	})
}

// one finds the row that a request refers to, and returns a copy of it.
func (r *resource[Row]) one(c *call, in *item, action string) (*Row, error) {
	c.item = in
	only := ""
	if named := in.query[ofWorkspace.Name]; named != "" && r.workspace != nil {
		var err error
		if only, err = c.inWorkspace(named); err != nil {
			return nil, err
		}
	}
	row, err := r.find(c, in.key)
	switch {
	case err == nil && !r.maySee(c, only, row, action) && r.maySee(c, only, row, "read"): // it is shared with the caller
		return nil, forbidden("The %s is another workspace's, which shares it with yours; fork it (POST …/fork), and change the copy", r.noun)
	case errors.Is(err, storage.ErrNotFound), err == nil && !r.maySee(c, only, row, action):
		return nil, notFound(strings.ToUpper(r.noun[:1])+r.noun[1:], in.key)
	case err != nil:
		return nil, err
	}
	if r.param == "" {
		c.record.Resource = r.name(row)
	}
	if r.allow != nil {
		if err := r.allow(c, row, action); err != nil {
			return nil, err
		}
	}
	r.concerns(c, row)
	changed := *row
	return &changed, nil
}

// found converts the result of a lookup to the result of find.
func found[Row any](row *Row, ok bool) (*Row, error) {
	if !ok {
		return nil, storage.ErrNotFound
	}
	return row, nil
}

// route returns a route for all rows.
func (r *resource[Row]) route(method, action, summary string) route {
	var scopes []string // register refuses routes without scopes
	switch {
	case r.scopes != nil:
		scopes = r.scopes(action)
	case r.scope != "":
		scopes = []string{r.scope + "." + action}
	}
	return route{method: method, path: r.path, kind: r.kind, onlyV2: r.onlyV2, alias: r.alias, scopes: scopes, summary: summary}
}

// routeOfOne returns a route for a single row.
func (r *resource[Row]) routeOfOne(method, sub, action, summary string) route {
	rt := r.route(method, action, summary)
	below := sub
	if r.param != "" {
		sub = "/{" + r.param + "}" + sub
		named := "Its id."
		if r.param != "id" {
			named = "Its slug or id."
		}
		rt.params = append(rt.params, parameter("path", r.param, named, huma.Schema{}))
	}
	for part := range strings.SplitSeq(below, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			rt.params = append(rt.params, parameter("path", strings.TrimSuffix(name, "}"), "Which of them, by its id or number.", huma.Schema{}))
		}
	}
	rt.params = append(rt.params, r.query...)
	named := func(p *huma.Param) bool { return p.Name == ofWorkspace.Name }
	// What creates something from the row may say where, which is not where the row is.
	if r.workspace != nil && method != http.MethodPost && !slices.ContainsFunc(rt.params, named) {
		rt.params = append(rt.params, ofWorkspace)
	}
	rt.identify, rt.inner = r.identify, r.inner
	rt.path += sub
	if rt.alias != "" {
		rt.alias += sub
	}
	return rt
}

// parameter describes a parameter of the routes for a single row.
func parameter(in, name, doc string, s huma.Schema) *huma.Param {
	s.Type = huma.TypeString
	s.PrecomputeMessages()
	return &huma.Param{Name: name, In: in, Description: doc, Required: in == "path", Schema: &s}
}

// ofWorkspace is the query parameter that says whose the row is: one that a list of the workspace would not have is not found.
var ofWorkspace = parameter("query", "workspace_id", "Id or slug of the workspace that has it, where several may have one of the slug: one that is elsewhere is not found. Default: any that the caller sees.", huma.Schema{MaxLength: &longestName})

var longestName = 255 // of ids and slugs in queries

// An item identifies the row that a request refers to. It is read as described in the
// operation's metadata, because struct tags cannot differ between resources.
type item struct {
	key   string
	query map[string]string // further parameters, including those of the path
}

// item returns what a request names, whose parameters may not be valid.
func (rt *route) item(r *http.Request) *item {
	i := &item{query: make(map[string]string)}
	for part := range strings.SplitSeq(rt.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			if i.key == "" {
				i.key = r.PathValue(name)
			}
			i.query[name] = r.PathValue(name)
		}
	}
	for _, p := range rt.params {
		if p.In == "query" {
			i.query[p.Name] = r.URL.Query().Get(p.Name)
		}
	}
	return i
}

// itemParams is the key of the parameters in the metadata.
const itemParams = "item"

// Resolve reads the item from the request.
func (i *item) Resolve(ctx huma.Context) []error {
	var faults huma.ValidateResult
	i.query = make(map[string]string)
	params, _ := ctx.Operation().Metadata[itemParams].([]*huma.Param)
	for _, p := range params {
		switch {
		case p.In == "path" && i.key == "":
			i.key = ctx.Param(p.Name)
			continue
		case p.In == "path":
			i.query[p.Name] = ctx.Param(p.Name)
			continue
		}
		value := ctx.Query(p.Name)
		if value == "" {
			value, _ = p.Schema.Default.(string)
		}
		if value != "" {
			at := []byte("query." + p.Name)
			huma.Validate(nil, p.Schema, huma.NewPathBuffer(at, len(at)), huma.ModeWriteToServer, value, &faults)
			i.query[p.Name] = value
		}
	}
	return slices.Clip(faults.Errors)
}

// Inputs and outputs of routes.
type (
	itemInput struct{ item }

	itemPageInput struct {
		item
		Paging
	}

	bodyInput[B any] struct {
		RawBody []byte
		Body    B
	}

	itemBodyInput[B any] struct {
		item
		RawBody []byte
		Body    B
	}

	// The body may be left out. There is no RawBody, with which huma would require it.
	optionalBodyInput[B any] struct {
		item
		Body *B
	}

	output[B any] struct{ Body B }
)

func (in *bodyInput[B]) raw() []byte { return in.RawBody }

func (in *itemBodyInput[B]) raw() []byte { return in.RawBody }

func (in *bodyInput[B]) body() reflect.Type { return typeOf[B]() }

func (in *itemBodyInput[B]) body() reflect.Type { return typeOf[B]() }

// aNoun returns the noun with its article.
func (r *resource[Row]) aNoun() string {
	switch {
	case r.param == "":
		return "the " + r.noun
	case strings.ContainsRune("AEIOUaeiou", rune(r.noun[0])):
		return "an " + r.noun
	}
	return "a " + r.noun
}

func plural(noun string) string {
	if stem, ok := strings.CutSuffix(noun, "y"); ok && !strings.HasSuffix(stem, "e") {
		return stem + "ies"
	}
	return noun + "s"
}
