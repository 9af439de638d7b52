package policies

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-gw/gateway/internal/fairshare"
	"github.com/caddy-gw/gateway/internal/policies/ledger"
	"github.com/caddy-gw/gateway/storage"
)

// A Batch is one that a provider has accepted from a call through the gateway, or a fine-tuning job. What the call reserved of tokens and
// costs stays reserved under its name until it is known what the batch used.
type Batch struct {
	BatchName
	Provider  string    `json:"provider"`         // slug or name, as callers have it
	Models    []string  `json:"models,omitempty"` // of its calls; none: they are not known
	CreatedAt time.Time `json:"created_at"`
	// OutputFile is the provider's id of the file with its output; "": that is not known yet. Confirmed: the provider
	// has said so, and not only a client.
	OutputFile string `json:"output_file,omitempty"`
	Confirmed  bool   `json:"confirmed,omitempty"`
	// Settled: what it used is booked, or given back. Claims are what is reserved until then.
	Settled bool         `json:"settled,omitempty"`
	Claims  []batchClaim `json:"claims,omitempty"`
}

// A BatchName is what a batch is found by.
type BatchName struct {
	WorkspaceID string `json:"workspace_id"`
	Account     string `json:"account"`       // tells the workspace's providers and credentials apart
	ID          string `json:"id"`            // the provider's
	Job         bool   `json:"job,omitempty"` // it is a fine-tuning job
}

// A batchClaim is what a batch holds of a counter.
type batchClaim struct {
	Type  string `json:"type"`            // of the policy: tokens or cost
	Model string `json:"model,omitempty"` // whose calls it is for; "": those of all
	ledger.Held
}

// Bounds of the batches that are known.
const (
	// BatchesLast is how long a batch is known. Providers end a batch after a week at most. What it has reserved
	// by then counts as used.
	BatchesLast = 8 * 24 * time.Hour

	// maxBatches bounds all batches that are known, of which a workspace has its share. One that holds
	// many counters is as much as several.
	maxBatches = 20_000

	maxBatchName   = 512      // bytes of its id
	maxBatchFile   = 2048     // of that of its output
	maxBatchClaims = 32 << 10 // of the names of its counters and models
	bytesOfBatch   = 1 << 10  // of these names that are as much as another batch
)

// Key identifies the batch among all that are known.
func (n *BatchName) Key() string {
	account := n.Account
	if n.Job { // which may have the id of a batch
		account = "jobs of " + account
	}
	return n.WorkspaceID + "\x00" + account + "\x00" + n.ID
}

func (b *Batch) key() string { return b.Key() }

// weight is what a batch counts as.
func (b *Batch) weight() int {
	n := 0
	for i := range b.Claims {
		n += len(b.Claims[i].Key) + len(b.Claims[i].Model)
	}
	for _, model := range b.Models {
		n += len(model)
	}
	return 1 + n/bytesOfBatch
}

// holds reports whether anything is reserved for the batch.
func (b *Batch) holds() bool { return !b.Settled && len(b.Claims) > 0 }

// Batches are the batches that are known. It is safe for concurrent use.
type Batches struct {
	rows *storage.Cached[*Batch]
}

// Indices of batches, in memory.
const (
	batchWorkspace = "workspace"
	batchID        = "id"
	batchOutput    = "output"
	batchOpen      = "open" // those that are not settled, by workspace
	batchHeld      = "held" // those that hold something, by workspace and in all, once for each unit of their weight
	batchIdle      = "idle" // others, by workspace and in all, and by the day on which they were made
)

func openBatches(ctx context.Context, db *storage.DB) (*Batches, error) {
	index := func(name string, keys func(b *Batch) []string) storage.Index[*Batch] {
		return storage.Index[*Batch]{Name: name, Memory: true, Keys: keys}
	}
	b := &Batches{storage.NewCached(db, storage.NewCollection("batch", (*Batch).key,
		index(batchWorkspace, func(b *Batch) []string { return []string{b.WorkspaceID} }),
		index(batchID, func(b *Batch) []string { return []string{b.ID} }),
		index(batchOutput, func(b *Batch) []string {
			if b.OutputFile == "" {
				return nil
			}
			return []string{outputName(b.WorkspaceID, b.Account, b.OutputFile)}
		}),
		index(batchOpen, func(b *Batch) []string {
			if b.Settled {
				return nil
			}
			return []string{b.WorkspaceID}
		}),
		index(batchHeld, func(b *Batch) (keys []string) {
			if !b.holds() {
				return nil
			}
			for n := range b.weight() {
				keys = append(keys, numbered(b.WorkspaceID, n), numbered("", n))
			}
			return keys
		}),
		index(batchIdle, func(b *Batch) []string {
			if b.holds() {
				return nil
			}
			day := b.CreatedAt.UTC().Format(time.DateOnly)
			return []string{b.WorkspaceID + "\x00" + day, "\x00" + day}
		})))}
	return b, b.rows.Load(ctx)
}

func numbered(workspace string, n int) string { return strconv.Itoa(n) + "\x00" + workspace }

func outputName(workspace, account, file string) string {
	return workspace + "\x00" + account + "\x00" + file
}

// In returns the batches as tx sees them.
func (b *Batches) In(tx *storage.Txn) *Batches { return &Batches{b.rows.In(tx)} }

// Named returns the batches of all workspaces that have a provider's id, without fine-tuning jobs.
func (b *Batches) Named(id string) (named []*Batch) {
	for _, row := range b.rows.Memory().Where(batchID, id) {
		if row.Job {
			continue
		}
		if row, ok := b.rows.Get(row.key()); ok {
			named = append(named, row)
		}
	}
	return named
}

// OfOutput returns the batch that is not settled and whose output a file of a provider is; nil: there is none. One of which
// the provider says so comes before those of which only a client does.
func (b *Batches) OfOutput(workspace, account, file string) (batch *Batch) {
	for _, row := range b.rows.Memory().Where(batchOutput, outputName(workspace, account, file)) {
		switch {
		case row.Settled:
		case row.Confirmed:
			return row
		case batch == nil:
			batch = row
		}
	}
	return batch
}

// Awaited returns a batch that is known and not settled; nil: there is none of the name.
func (b *Batches) Awaited(name *BatchName) *Batch {
	row, ok := b.rows.Memory().Get(name.Key())
	if !ok || row.Settled {
		return nil
	}
	return row
}

// AwaitsAny reports whether any batch of a workspace is not settled.
func (b *Batches) AwaitsAny(workspace string) bool { return b.rows.Len(batchOpen, workspace) > 0 }

// NameOutput notes which file has the output of a batch, as a client says. The error is a *FieldError, or the error of the
// store.
func (b *Batches) NameOutput(tx *storage.Txn, row *Batch, file string) error {
	switch {
	case len(file) > maxBatchFile:
		return &FieldError{"internal_output_file_id", "expected at most 2048 bytes"}
	case row.Confirmed && file != row.OutputFile:
		return &FieldError{"internal_output_file_id", "expected the file that the provider says has the output: " + row.OutputFile}
	}
	return b.setOutput(tx, row, file, row.Confirmed)
}

func (b *Batches) setOutput(tx *storage.Txn, row *Batch, file string, confirmed bool) error {
	changed := *row
	changed.OutputFile, changed.Confirmed = file, confirmed
	return b.rows.In(tx).Put(tx, &changed)
}

// Of returns the keys of at most limit batches of a workspace, as memory has them.
func (b *Batches) Of(workspace string, limit int) []string {
	return storage.Some(b.rows.Memory().Where(batchWorkspace, workspace), limit, (*Batch).key)
}

// fits reports whether there is room for batches of a workspace, which come to so much besides those that are known. Those
// that hold nothing make room.
func (b *Batches) fits(workspace string, more int) bool {
	return fairshare.Left(int64(more+b.held(workspace)), int64(maxBatches-more-b.held(""))) >= 0
}

// held is what the batches of a workspace that hold something come to; "": those of all.
func (b *Batches) held(workspace string) (weight int) {
	for n := 0; ; n++ { // few have more than 1, and none more than 1+maxBatchClaims/bytesOfBatch
		of := b.rows.Len(batchHeld, numbered(workspace, n))
		if of == 0 {
			return weight
		}
		weight += of
	}
}

// makeRoom removes a batch that holds nothing if there are too many: one of the workspace, or else of any, of the first day of
// which there is one.
func (b *Batches) makeRoom(tx *storage.Txn, workspace string, now time.Time) error {
	if len(b.rows.Memory().All()) < maxBatches {
		return nil
	}
	row := b.idle(workspace, now)
	if row == nil {
		row = b.idle("", now)
	}
	if row == nil {
		return nil
	}
	if err := b.rows.In(tx).Delete(tx, row.key()); !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	return nil
}

// idle returns an old batch that holds nothing; nil: there is none.
func (b *Batches) idle(workspace string, now time.Time) *Batch {
	const day = 24 * time.Hour
	for at := now.UTC().Add(-BatchesLast - day); !at.After(now.Add(day)); at = at.Add(day) {
		if rows := b.rows.Memory().Where(batchIdle, workspace+"\x00"+at.Format(time.DateOnly)); len(rows) > 0 {
			return rows[0]
		}
	}
	return nil
}

// without returns the claims whose counters have no such prefix.
func without(claims []batchClaim, prefix string) []batchClaim {
	var left []batchClaim
	for _, c := range claims {
		if !strings.HasPrefix(c.Key, prefix) {
			left = append(left, c)
		}
	}
	return left
}
