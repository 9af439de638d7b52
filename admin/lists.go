package admin

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
)

// A filter has the query parameters of a list: a struct that embeds Paging, and InWorkspace
// if the list can be limited to a workspace. Huma only sees exported fields, including
// embedded ones.
type filter interface{ page() Paging }

// InWorkspace limits a list to one workspace.
type InWorkspace struct {
	WorkspaceID string `query:"workspace_id" doc:"Id or slug."`
}

func (f InWorkspace) inWorkspace() string { return f.WorkspaceID }

// WorkspaceFilter has the query parameters of a list without filters of its own.
type WorkspaceFilter struct {
	Paging
	InWorkspace
}

// A choice is what a list is made of, in the order of the ids of its rows.
type choice[Row any] struct {
	first   []*Row // that come before the others
	rows    []*Row
	keep    func(*Row) bool // those of both that the list has; nil: all
	foreign bool            // rows may be of other workspaces than the list
}

// only limits the list to what keep accepts, too.
func (ch *choice[Row]) only(keep func(*Row) bool) {
	if before := ch.keep; before != nil {
		ch.keep = func(row *Row) bool { return before(row) && keep(row) }
		return
	}
	ch.keep = keep
}

// search limits the list to rows with a text in one of the names that they have, whatever its case; "" does not.
func (ch *choice[Row]) search(text string, names func(*Row) []string) {
	if text != "" {
		ch.only(func(row *Row) bool { return contains(text, names(row)...) })
	}
}

// inOrder returns rows in the order of their ids, each once.
func inOrder[Row any](id func(*Row) string, rows []*Row) []*Row {
	slices.SortFunc(rows, func(a, b *Row) int { return strings.Compare(id(a), id(b)) })
	return slices.CompactFunc(rows, func(a, b *Row) bool { return id(a) == id(b) })
}

// merge returns the rows of two lists that are in order, each once.
func merge[Row any](id func(*Row) string, a, b []*Row) []*Row {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	both := make([]*Row, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch order := strings.Compare(id(a[0]), id(b[0])); {
		case order < 0:
			both, a = append(both, a[0]), a[1:]
		case order > 0:
			both, b = append(both, b[0]), b[1:]
		default:
			both, a, b = append(both, a[0]), a[1:], b[1:]
		}
	}
	return append(append(both, a...), b...)
}

// list adds GET path: a page of the rows that the caller may see and that keep accepts.
// keep may be nil.
func list[Row any, F filter, V any](a *API, r *resource[Row], keep func(*call, *Row, *F) bool, show func(*call, *Row) V) {
	listChosen(a, r, func(c *call, workspace string, in *F) (choice[Row], error) {
		chosen := r.all(c, workspace)
		if keep != nil {
			chosen.only(func(row *Row) bool { return keep(c, row, in) })
		}
		return chosen, nil
	}, show)
}

// listChosen is list for filters that are answered by an index: choose returns the rows for the
// query. workspace is the one that the list is of; "": it is of all.
func listChosen[Row any, F filter, V any](a *API, r *resource[Row], choose func(c *call, workspace string, in *F) (choice[Row], error), show func(*call, *Row) V) {
	register(a, r.route(http.MethodGet, "list", "List "+plural(r.noun)), func(c *call, in *F) (*listOutput[V], error) {
		only := ""
		if f, ok := any(*in).(interface{ inWorkspace() string }); ok {
			var err error
			if only, err = c.inWorkspace(f.inWorkspace()); err != nil {
				return nil, err
			}
		}
		workspace := cmp.Or(only, c.caller.WorkspaceID)
		seen := r.seesAll(c, workspace) // asked first: rows of a workspace that is deleted meanwhile were seen before it
		chosen, err := choose(c, workspace, in)
		if err != nil {
			return nil, err
		}
		if !seen || chosen.foreign {
			chosen.only(r.visible(c, only, "list"))
		}
		return pageOf(&chosen, (*in).page(), func(row *Row) V { return show(c, row) }), nil
	})
}

// all returns all rows of a workspace, by an index where there is one.
func (r *resource[Row]) all(c *call, workspace string) choice[Row] {
	if workspace == "" || r.rowsOf == nil {
		return choice[Row]{rows: r.rows(c), foreign: workspace != ""}
	}
	return choice[Row]{rows: r.rowsOf(c, workspace)}
}

// seesAll reports whether the caller sees all rows of a workspace, or, for "", of all: those of
// workspaces that were deleted, and not yet removed, are not seen.
func (r *resource[Row]) seesAll(c *call, workspace string) bool {
	if workspace == "" {
		return r.workspace == nil || len(c.api.Directory.Removals()) == 0
	}
	return c.maySee(workspace)
}
