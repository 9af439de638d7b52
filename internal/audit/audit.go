// Package audit keeps the trail of administrative actions: who did what to which
// resource, when, from where, and whether it was refused.
package audit

import (
	"context"
	"io"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// A Record is one administrative action. It has the names of fields, never their values.
type Record struct {
	ID             string    `json:"id"`
	At             time.Time `json:"at"`
	OrganisationID string    `json:"organisation_id"`
	WorkspaceID    string    `json:"workspace_id,omitempty"`
	KeyID          string    `json:"key_id"`
	KeyName        string    `json:"key_name,omitempty"`
	UserID         string    `json:"user_id,omitempty"`
	Action         string    `json:"action"`             // the required scope, such as virtual_keys.create
	Resource       string    `json:"resource,omitempty"` // id or slug of the target
	Method         string    `json:"method"`
	Path           string    `json:"path"`
	Fields         []string  `json:"fields,omitempty"` // members of the request body
	Status         int       `json:"status"`
	IP             string    `json:"ip,omitempty"`
	UserAgent      string    `json:"user_agent,omitempty"`
	RequestID      string    `json:"request_id,omitempty"`
}

// A Trail writes records. It is safe for concurrent use.
type Trail struct {
	db      *storage.DB
	records *storage.Collection[Record]
	now     func() time.Time
	random  io.Reader
}

// Open returns the trail of a store.
func Open(db *storage.DB, now func() time.Time, random io.Reader) *Trail {
	return &Trail{db, storage.NewCollection("audit", func(r *Record) string { return r.ID }), now, random}
}

// Add writes a record in the transaction of its action, so that both are committed or
// neither is. It fills in ID and At.
func (t *Trail) Add(tx *storage.Txn, r *Record) error {
	r.ID, r.At = storage.NewID(t.random), t.now().UTC()
	return t.records.Put(tx, r)
}

// Refused writes the record of an action that was refused. Since it changed nothing, there
// is no need to wait for the disk.
func (t *Trail) Refused(ctx context.Context, r *Record) error {
	r.ID, r.At = storage.NewID(t.random), t.now().UTC()
	return t.db.Write(ctx, func(tx storage.Tx) error { return t.records.Put(tx, r) })
}

// Records returns the newest records first, at most limit of them.
func (t *Trail) Records(ctx context.Context, limit int) ([]*Record, error) {
	var all []*Record
	if limit <= 0 {
		return nil, nil
	}
	err := t.db.View(ctx, func(tx storage.Tx) error {
		for r, err := range t.records.Scan(tx, storage.Range{Reverse: true}) {
			if err != nil {
				return err
			}
			if all = append(all, r); len(all) == limit {
				return nil
			}
		}
		return nil
	})
	return all, err
}
