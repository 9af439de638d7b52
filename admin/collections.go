package admin

import (
	"slices"
	"sync"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/prompts"
)

// CollectionFields are the fields of a collection in every response.
type CollectionFields struct {
	ID            string  `json:"id" format:"uuid"`
	Name          string  `json:"name"`
	WorkspaceID   string  `json:"workspace_id" format:"uuid"`
	Slug          string  `json:"slug"`
	ParentID      *string `json:"parent_collection_id"`
	IsDefault     bool    `json:"is_default"`
	Status        string  `json:"status" enum:"active"`
	CreatedAt     string  `json:"created_at" format:"date-time"`
	LastUpdatedAt string  `json:"last_updated_at" format:"date-time"`
	Object        string  `json:"object" enum:"collection"`
}

// CollectionSummary is a collection in a list.
type CollectionSummary struct {
	CollectionFields
	Details CollectionDetails `json:"collection_details"`
}

// Collection is a collection with the collections in it.
type Collection struct {
	CollectionFields
	Children []childCollection `json:"child_collections"`
}

type childCollection struct {
	ID            string            `json:"id" format:"uuid"`
	Name          string            `json:"name"`
	LastUpdatedAt string            `json:"last_updated_at" format:"date-time"`
	Details       CollectionDetails `json:"collection_details"`
}

// CollectionDetails are the numbers of objects in a collection.
type CollectionDetails struct {
	Children           int     `json:"child_collections_count"`
	Prompts            int     `json:"prompts_count" doc:"Partials included."`
	ChildrenLastUpdate *string `json:"child_collections_last_updated_at"`
	PromptsLastUpdate  *string `json:"prompts_last_updated_at"`
}

type createCollection struct {
	Name        string  `json:"name" minLength:"1" maxLength:"255"`
	ParentID    *string `json:"parent_collection_id,omitempty" maxLength:"255" doc:"Id or slug of the collection that it is in."`
	WorkspaceID string  `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; default: the caller's workspace, or the default one."`
}

type updateCollection struct {
	Name string `json:"name" minLength:"1" maxLength:"255"`
}

type createdCollection struct {
	ID   string `json:"id" format:"uuid"`
	Slug string `json:"slug"`
}

// collectionList holds the query parameters of the list.
type collectionList struct {
	WholePages
	InWorkspace
	Search string `query:"search" maxLength:"255" doc:"Only collections with this in their name or slug."`
}

func (a *API) collections() {
	all := &resource[prompts.Collection]{
		path: "/collections", param: "collection_id", noun: "collection", kind: audit.Collections, scope: "prompts",
		find: func(c *call, id string) (*prompts.Collection, error) { return found(c.collection(id, "")) },
		name: func(p *prompts.Collection) string { return p.Slug },
		workspace: func(p *prompts.Collection) string {
			return p.WorkspaceID
		},
		allow: func(_ *call, p *prompts.Collection, action string) error {
			if p.Default && action != "read" {
				return forbidden("The default collection of a workspace cannot be changed")
			}
			return nil
		},
	}
	create(a, all, (*call).createCollection)
	listChosen(a, all, func(c *call, workspace string, f *collectionList) (chosen choice[prompts.Collection], err error) {
		chosen.first, chosen.rows = c.defaultCollections(workspace), c.api.Prompts.Collections(workspace)
		chosen.search(f.Search, func(p *prompts.Collection) []string { return []string{p.Name, p.Slug} })
		return chosen, nil
	}, func(c *call, p *prompts.Collection) CollectionSummary {
		return CollectionSummary{showCollection(p), c.collectionDetails(p)}
	})
	get(a, all, func(c *call, p *prompts.Collection) Collection {
		out := Collection{showCollection(p), []childCollection{}}
		for _, child := range c.api.Prompts.CollectionsIn(p.ID) {
			out.Children = append(out.Children, childCollection{child.ID, child.Name, formatTime(child.UpdatedAt), c.collectionDetails(child)})
		}
		return out
	})
	update(a, all, func(c *call, p *prompts.Collection, in *updateCollection) error {
		p.Name = in.Name
		return c.api.Prompts.PutCollection(c.tx, p)
	})
	remove(a, all, "Delete", func(c *call, p *prompts.Collection) error {
		if err := unused(c, "collection", p, dependentsOfCollections); err != nil {
			return err
		}
		return c.api.Prompts.DeleteCollection(c.tx, p.ID)
	})
}

// defaultCollections returns the collection that a workspace has from the start; of "", those of all workspaces.
func (c *call) defaultCollections(workspace string) []*prompts.Collection {
	if workspace == "" {
		return c.api.defaults.all()
	}
	w, ok := c.api.Directory.Workspace(workspace)
	if !ok {
		return nil
	}
	return []*prompts.Collection{prompts.DefaultCollection(w.ID, w.CreatedAt)}
}

// defaultCollections are the collections that workspaces have from the start, which are not stored. Those of all workspaces are
// kept until one changes: their ids are digests.
type defaultCollections struct {
	directory *directory.Directory // in memory: that a workspace has one depends on nothing

	mu         sync.Mutex
	workspaces []*directory.Workspace
	of         []*prompts.Collection
}

// all returns them in the order of the workspaces. The slice is shared and must not be modified.
func (d *defaultCollections) all() []*prompts.Collection {
	d.mu.Lock()
	defer d.mu.Unlock()
	workspaces := d.directory.Workspaces()
	if slices.Equal(workspaces, d.workspaces) {
		return d.of
	}
	known := make(map[*directory.Workspace]*prompts.Collection, len(d.of))
	for i, w := range d.workspaces {
		known[w] = d.of[i]
	}
	of := make([]*prompts.Collection, len(workspaces))
	for i, w := range workspaces {
		if of[i] = known[w]; of[i] == nil {
			of[i] = prompts.DefaultCollection(w.ID, w.CreatedAt)
		}
	}
	d.workspaces, d.of = workspaces, of
	return of
}

// collection returns a collection by its id or slug, limited to a workspace unless that
// is empty.
func (c *call) collection(idOrSlug, workspace string) (*prompts.Collection, bool) {
	p, ok := c.api.Prompts.Collection(idOrSlug)
	if !ok {
		for _, d := range c.defaultCollections(workspace) {
			if d.ID == idOrSlug || d.Slug == idOrSlug {
				p, ok = d, true
			}
		}
	}
	return p, ok && (workspace == "" || p.WorkspaceID == workspace)
}

func showCollection(p *prompts.Collection) CollectionFields {
	return CollectionFields{
		p.ID, p.Name, p.WorkspaceID, p.Slug, text(p.ParentID), p.Default, "active",
		formatTime(p.CreatedAt), formatTime(p.UpdatedAt), "collection",
	}
}

func (c *call) collectionDetails(p *prompts.Collection) (d CollectionDetails) {
	var children, inside time.Time // of their last updates
	for _, child := range c.api.Prompts.CollectionsIn(p.ID) {
		d.Children++
		children = later(children, child.UpdatedAt)
	}
	for _, prompt := range c.api.Prompts.InCollection(p.ID) {
		d.Prompts++
		inside = later(inside, prompt.UpdatedAt)
	}
	if d.Children > 0 {
		d.ChildrenLastUpdate = formatOptionalTime(&children)
	}
	if d.Prompts > 0 {
		d.PromptsLastUpdate = formatOptionalTime(&inside)
	}
	return d
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func (c *call) createCollection(in *createCollection) (*prompts.Collection, *createdCollection, error) {
	w, err := c.workspace(in.WorkspaceID)
	if err != nil {
		return nil, nil, err
	}
	p := &prompts.Collection{Slug: directory.NewSlug(c.api.Random, "co", in.Name), Name: in.Name, WorkspaceID: w.ID}
	if named := deref(in.ParentID); named != "" {
		parent, ok := c.collection(named, w.ID)
		if !ok {
			return p, nil, unknownReference("parent_collection_id", "the workspace has no collection %q", credentials.Clip(named))
		}
		p.ParentID = parent.ID
		if c.nesting(parent) >= prompts.MaxNesting {
			return p, nil, invalid("parent_collection_id", "expected at most %d collections within each other", prompts.MaxNesting)
		}
	}
	if err := c.api.Prompts.PutCollection(c.tx, p); err != nil {
		return p, nil, err
	}
	return p, &createdCollection{p.ID, p.Slug}, nil
}

// nesting returns the depth of a collection, which is 1 at the top.
func (c *call) nesting(p *prompts.Collection) int {
	var above []string
	for p.ParentID != "" && !slices.Contains(above, p.ID) {
		above = append(above, p.ID)
		parent, ok := c.api.Prompts.Collection(p.ParentID)
		if !ok {
			break
		}
		p = parent
	}
	return len(above) + 1
}
