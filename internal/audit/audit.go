// Package audit keeps the trail of administrative actions: who did what to which
// resource, when, from where, what changed, and whether it was refused.
//
// Rows are numbered, and never changed. Each is sealed with an HMAC over itself and the seal
// of the row before, with a key that is not in the store, so that a row that was removed or
// changed is found by [Trail.Verify]. A trail whose end was cut off looks like a shorter one;
// the checkpoints in the log say that it was longer. Old rows are removed from the beginning,
// which leaves a sealed cut.
//
// Lists are served from postings: for each value of a field by which rows can be filtered,
// and each 1024 rows, which of them have it. A list of a million rows with a filter reads a
// thousand postings, of which those of terms that were asked for lately are in memory, and the rows of its page.
package audit

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/storage"
)

// A Record is one administrative action.
type Record struct {
	ID             string    `json:"id"`
	Number         uint64    `json:"number"` // of the row, counted from 1
	At             time.Time `json:"timestamp"`
	OrganisationID string    `json:"organisation_id"`
	WorkspaceID    string    `json:"workspace_id,omitempty"` // of the resource, or else of the caller

	// Who: an API key, a person, or neither, where the gateway itself did it.
	KeyID    string `json:"key_id,omitempty"`
	KeyName  string `json:"key_name,omitempty"`
	UserID   string `json:"user_id,omitempty"` // also of a key that belongs to one
	UserName string `json:"user_name,omitempty"`

	Scope        string   `json:"scope"`                   // that the action requires, such as virtual_keys.create
	Type         Type     `json:"type,omitempty"`          // of the resource; "": the one that the scope is named after
	Resource     string   `json:"resource,omitempty"`      // its id or slug, as the request named it
	ResourceID   string   `json:"resource_id,omitempty"`   // its id
	ResourceName string   `json:"resource_name,omitempty"` // its name
	Fields       []string `json:"fields,omitempty"`        // members of the request body
	Changes      []Change `json:"changes,omitempty"`       // what is different afterwards

	Method    string `json:"method,omitempty"`
	Path      string `json:"path,omitempty"`
	Query     string `json:"query,omitempty"`
	Status    int    `json:"status"`
	IP        string `json:"ip,omitempty"`
	Country   string `json:"country,omitempty"`
	UserAgent string `json:"user_agent,omitempty"`
	RequestID string `json:"request_id,omitempty"`
}

// A Change is a member of a resource as the control plane shows it, so without secrets.
type Change struct {
	Field string `json:"field"`
	// Before and after, as JSON, shortened if it is long; "" where there was nothing.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// Size returns about how much the row of a record takes, in bytes: it and what finds it by its fields.
func (r *Record) Size() int {
	const rest = 1 << 10 // names of members, ids, numbers, the seal, and the postings
	n := rest
	for _, text := range []string{r.KeyName, r.UserName, r.Resource, r.ResourceName, r.Path, r.Query, r.UserAgent} {
		n += len(text)
	}
	for _, field := range r.Fields {
		n += len(field)
	}
	for _, change := range r.Changes {
		n += len(change.Field) + len(change.From) + len(change.To)
	}
	return n
}

// Actor is who did something: an API key, a user, or the system.
type Actor string

// The actors.
const (
	ActorKey    Actor = "api_key"
	ActorUser   Actor = "user"
	ActorSystem Actor = "system"
)

// Actor returns what did it. A user without a key is the key's, too.
func (r *Record) Actor() Actor {
	switch {
	case r.KeyID != "" && r.KeyID != r.UserID:
		return ActorKey
	case r.UserID != "":
		return ActorUser
	}
	return ActorSystem
}

// A Trail writes and lists records. It is safe for concurrent use.
type Trail struct {
	db       *storage.DB
	rows     *storage.Blobs // sealed records, by number
	marks    *storage.Blobs // head, cut, and how far followers are
	postings *storage.Blobs
	key      Key
	now      func() time.Time
	random   io.Reader
	logger   *zap.Logger
	unknown  atomic.Int64
	follower follower

	recall recall

	beginnings struct { // times of the first rows of blocks, by the numbers of the rows
		sync.Mutex
		at map[uint64]time.Time
	}
}

// Options are what a [Trail] needs besides a store.
type Options struct {
	Key    Key // of the seals
	Now    func() time.Time
	Random io.Reader
	Logger *zap.Logger
}

// Open returns the trail of a store. If its last row was sealed with another key, a row says
// that the key is another from now on. What was altered is logged, and does not keep the
// gateway from starting; see [Trail.Verify].
func Open(ctx context.Context, db *storage.DB, o Options) (*Trail, error) {
	t := newTrail(db, o)
	err := db.View(ctx, func(tx storage.Tx) error {
		head, err := t.head(tx)
		if err == nil && t.unlike(head) {
			t.logger.Warn("the audit trail has another key from its next row on; verify the rows before with the key that they were sealed with",
				zap.String("key", t.key.String()), zap.String("before", head.key.String()), zap.Uint64("rows", head.number))
		}
		return err
	})
	if err == nil {
		err = t.adopt(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the audit trail: %w", err)
	}
	return t, nil
}

// Sealed reports whether a store has an audit trail that was sealed with a key.
func Sealed(ctx context.Context, store storage.Store) (sealed bool, err error) {
	err = store.View(ctx, func(tx storage.Tx) error {
		head, err := newTrail(nil, Options{}).head(tx)
		sealed = head.number > 0
		return err
	})
	return sealed, err
}

func newTrail(db *storage.DB, o Options) *Trail {
	t := &Trail{
		db: db, key: o.Key, now: o.Now, random: o.Random, logger: o.Logger,
		rows: storage.NewBlobs("audit-row"), marks: storage.NewBlobs("audit-mark"), postings: storage.NewBlobs("audit-posting"),
	}
	t.follower.init()
	return t
}

// Add writes a record in the transaction of its action, so that both are committed or
// neither is. It fills in ID, Number and At.
func (t *Trail) Add(tx *storage.Txn, r *Record) error {
	if err := t.add(tx, r); err != nil {
		return err
	}
	tx.OnCommit(t.follower.wake)
	return nil
}

// Refused writes the record of an action that was refused. Since it changed nothing, there
// is no need to wait for the disk.
func (t *Trail) Refused(ctx context.Context, r *Record) error {
	err := t.db.Write(ctx, func(tx storage.Tx) error { return t.add(tx, r) })
	if err == nil {
		t.follower.wake()
	}
	return err
}

// Unknown counts a request of an unknown caller, which leaves no row: anybody can send any
// number of them.
func (t *Trail) Unknown() { t.unknown.Add(1) }

// Unknowns returns how many requests of unknown callers there were since the start.
func (t *Trail) Unknowns() int64 { return t.unknown.Load() }

func (t *Trail) add(tx storage.Tx, r *Record) error { return t.addAt(tx, r, t.now()) }

// addAt appends a row, and before the first one that is sealed with another key than those before it, a row that says so: reading
// a trail, as its verification does, writes nothing.
func (t *Trail) addAt(tx storage.Tx, r *Record, at time.Time) error {
	head, err := t.head(tx)
	if err != nil {
		return err
	}
	if t.unlike(head) {
		if head, err = t.appendTo(tx, head, &Record{Scope: "audit_logs.manage", Type: AuditLogs, Resource: "key " + t.key.String(), Status: 200}, at); err != nil {
			return err
		}
	}
	_, err = t.appendTo(tx, head, r, at)
	return err
}

// unlike reports whether the last row was sealed with another key.
func (t *Trail) unlike(head mark) bool { return head.number > 0 && head.key != t.key.id }

// appendTo writes a row after the last one, and returns it as the last one. Whatever the clock says, no row is older than the one
// before, so that the order of rows is that of their times.
func (t *Trail) appendTo(tx storage.Tx, head mark, r *Record, at time.Time) (mark, error) {
	r.ID, r.Number, r.At = storage.NewID(t.random), head.number+1, at.UTC()
	if r.At.Before(head.at) {
		r.At = head.at
	}
	text, err := json.Marshal(r)
	if err != nil {
		return mark{}, err
	}
	sealed := t.key.sealRow(r.Number, head.seal, text)
	if err := t.rows.Put(tx, numbered(r.Number), sealed.encode()); err != nil {
		return mark{}, err
	}
	if err := t.post(tx, r, true); err != nil {
		return mark{}, err
	}
	last := mark{number: r.Number, seal: sealed.seal, key: t.key.id, at: r.At}
	return last, t.putMark(tx, markHead, last)
}

// An unsealed is a row of an earlier version.
type unsealed struct {
	Record

	At       time.Time `json:"at"`
	Action   string    `json:"action"`
	Resource string    `json:"resource"`
}

// adopt moves the rows of earlier versions, which had no seals, into the trail.
func (t *Trail) adopt(ctx context.Context) error {
	const batch = 100 // bounds a transaction
	rows := storage.NewCollection("audit", func(r *unsealed) string { return r.ID })
	for left := true; left; {
		err := t.db.Update(ctx, func(tx *storage.Txn) error {
			var moved []*unsealed
			for r, err := range rows.All(tx) {
				if err != nil {
					return err
				}
				if moved = append(moved, r); len(moved) == batch {
					break
				}
			}
			left = len(moved) > 0
			for _, old := range moved {
				id, r := old.ID, old.Record
				r.Scope, r.Resource = old.Action, old.Resource
				if err := t.addAt(tx, &r, old.At); err != nil {
					return err
				}
				if err := rows.Delete(tx, id); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("moving the audit rows of an earlier version: %w", err)
		}
	}
	return nil
}
