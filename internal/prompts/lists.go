package prompts

// What lists are of. A list is named by one of these, and what it is limited to.
const (
	ofWorkspace  = "workspace/" // "": of all
	ofCollection = "collection/"
	ofShared     = "shared/"
)

// listName names a list of prompts, or of partials.
func listName(of, id string, partial bool) string {
	if partial {
		return "partial/" + of + id
	}
	return of + id
}

// lists returns the names of the lists that the prompt is in. What is archived is in none.
func (p *Prompt) lists() []string {
	if p.Archived {
		return nil
	}
	in := []string{
		listName(ofWorkspace, p.WorkspaceID, p.Partial), listName(ofWorkspace, "", p.Partial), listName(ofCollection, p.CollectionID, p.Partial),
	}
	if p.Share != nil {
		in = append(in, listName(ofShared, "", p.Partial))
	}
	return in
}

// Listed returns the prompts, or partials, of a workspace that are not archived, in the order of
// their creation; of "", those of all workspaces.
func (s *Store) Listed(workspace string, partial bool) []*Prompt {
	return s.prompts.Where(byList, listName(ofWorkspace, workspace, partial))
}

// ListedIn is Listed for those of a collection.
func (s *Store) ListedIn(collection string, partial bool) []*Prompt {
	return s.prompts.Where(byList, listName(ofCollection, collection, partial))
}

// Shared is Listed for those that are shared with other workspaces than their own.
func (s *Store) Shared(partial bool) []*Prompt {
	return s.prompts.Where(byList, listName(ofShared, "", partial))
}

// SharedBy is Shared for the prompts and partials of one workspace.
func (s *Store) SharedBy(workspace string) []*Prompt { return s.prompts.Where(bySharer, workspace) }

// sharer returns the workspace that shares the prompt, if it is shared.
func (p *Prompt) sharer() []string {
	if p.Archived || p.Share == nil {
		return nil
	}
	return []string{p.WorkspaceID}
}

// InCollection returns all prompts and partials of a collection, archived ones too.
func (s *Store) InCollection(collection string) []*Prompt {
	return s.prompts.Where(byCollection, collection)
}
