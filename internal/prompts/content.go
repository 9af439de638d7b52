package prompts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/storage"
)

// A Content is the content of a version. JSON in it is stored as it was sent.
type Content struct {
	ID          string `json:"id"`                  // of the version
	PromptID    string `json:"prompt_id,omitempty"` // "": it was stored by an earlier release
	Description string `json:"description,omitempty"`
	CreatedBy   string `json:"created_by,omitempty"`

	String     string          `json:"string"`
	Raw        bool            `json:"raw,omitempty"`
	Parameters json.RawMessage `json:"parameters,omitempty"` // an object
	Model      string          `json:"model,omitempty"`
	VirtualKey string          `json:"virtual_key,omitempty"`
	Tools      json.RawMessage `json:"tools,omitempty"`
	ToolChoice json.RawMessage `json:"tool_choice,omitempty"`
	Functions  json.RawMessage `json:"functions,omitempty"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
}

// Size is what the texts take, in bytes.
func (c *Content) Size() int {
	return len(c.Description) + len(c.String) + len(c.Parameters) + len(c.Model) + len(c.VirtualKey) + len(c.Tools) + len(c.ToolChoice) + len(c.Functions) + len(c.Metadata)
}

// ModelName returns the version's model, which is in its field or among its parameters.
func (c *Content) ModelName() string {
	return cmp.Or(c.Model, gjson.GetBytes(c.Parameters, "model").Str)
}

// key is the id of the content in the store. Those of a prompt are next to each other, so that a page of its versions is in few blocks of
// the store's files. Before, they were where their versions were made, among those of other prompts.
func (c *Content) key() string {
	if c.PromptID == "" {
		return c.ID
	}
	return contentKey(c.PromptID, c.ID)
}

func contentKey(prompt, version string) string { return prompt + "/" + version }

// Content reads the content of a version.
func (s *Store) Content(ctx context.Context, p *Prompt, v *Version) (c *Content, err error) {
	err = s.view(ctx, func(tx storage.Tx) error {
		c, err = s.content(tx, p, v)
		return err
	})
	return c, err
}

// Contents reads the contents of versions of a prompt that follow each other. reserve is asked for the memory of each, in
// bytes; its error ends it.
func (s *Store) Contents(ctx context.Context, p *Prompt, versions []Version, reserve func(size int) error) ([]*Content, error) {
	if len(versions) == 0 {
		return nil, nil
	}
	at := make(map[string]int, len(versions))
	first, last := versions[0].ID, versions[0].ID
	for i := range versions {
		id := versions[i].ID
		at[id], first, last = i, min(first, id), max(last, id)
	}
	contents := make([]*Content, len(versions))
	keep := func(i int, c *Content) error {
		contents[i] = c
		return reserve(c.Size())
	}
	err := s.view(ctx, func(tx storage.Tx) error {
		for c, err := range s.contents.Scan(tx, storage.Range{Prefix: contentKey(p.ID, ""), Start: contentKey(p.ID, first)}) {
			if err != nil {
				return err
			}
			if i, ok := at[c.ID]; ok {
				if err := keep(i, c); err != nil {
					return err
				}
			}
			if c.ID >= last {
				break
			}
		}
		for i := range versions {
			if contents[i] != nil {
				continue
			}
			c, err := s.content(tx, p, &versions[i])
			if err == nil {
				err = keep(i, c)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return contents, err
}

// view reads in the transaction, or else in one of its own.
func (s *Store) view(ctx context.Context, read func(tx storage.Tx) error) error {
	if s.tx != nil {
		return read(s.tx)
	}
	return s.db.View(ctx, read)
}

func (s *Store) content(tx storage.Tx, p *Prompt, v *Version) (*Content, error) {
	c, err := s.contents.Get(tx, contentKey(p.ID, v.ID))
	if errors.Is(err, storage.ErrNotFound) {
		return s.contents.Get(tx, v.ID)
	}
	return c, err
}

// putContent stores the content of a version, whose ID is set.
func (s *Store) putContent(tx *storage.Txn, p *Prompt, c *Content) error {
	c.PromptID = p.ID
	return s.contents.Put(tx, c)
}

func (s *Store) dropContent(tx *storage.Txn, p *Prompt, v *Version) error {
	err := s.contents.Delete(tx, contentKey(p.ID, v.ID))
	if errors.Is(err, storage.ErrNotFound) {
		return s.contents.Delete(tx, v.ID)
	}
	return err
}
