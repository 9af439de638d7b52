package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

// cutBatch is how many rows are removed in a transaction, each with its entries in postings.
const cutBatch = 100

// Cut removes the rows that are older than a time, and leaves a sealed mark, so that Verify
// knows that they were not removed by somebody else. A row says which are gone. fence is
// called first in each transaction.
func (t *Trail) Cut(ctx context.Context, before time.Time, fence func(storage.Tx) error) (removed int, err error) {
	for more := true; more; {
		n := 0
		err := t.db.Update(ctx, func(tx *storage.Txn) (err error) {
			if err := fence(tx); err != nil {
				return err
			}
			n, err = t.cut(tx, before)
			if more = n == cutBatch; err != nil || more || n+removed == 0 {
				return err
			}
			cut, err := t.mark(tx, markCut)
			if err != nil {
				return err
			}
			return t.Add(tx, &Record{Scope: "audit_logs.delete", Type: AuditLogs, Resource: fmt.Sprintf("rows up to %d", cut.number), Status: 200})
		})
		if err != nil {
			return removed, fmt.Errorf("removing old rows of the audit trail: %w", err)
		}
		removed += n
	}
	return removed, nil
}

// cut removes a batch of rows that are older than a time.
func (t *Trail) cut(tx storage.Tx, before time.Time) (int, error) {
	cut, err := t.mark(tx, markCut)
	if err != nil {
		return 0, err
	}
	var gone []*row
	for blob, err := range t.rows.Scan(tx, storage.Range{Start: numbered(cut.number + 1)}) {
		if err != nil {
			return 0, err
		}
		row, err := decodeRow(blob)
		if err != nil {
			return 0, err
		}
		r, err := row.record()
		if err != nil {
			return 0, err
		}
		if !r.At.Before(before) {
			break
		}
		if err := t.post(tx, r, false); err != nil {
			return 0, err
		}
		cut = mark{number: row.number, seal: row.seal, at: r.At}
		if gone = append(gone, row); len(gone) == cutBatch {
			break
		}
	}
	for _, row := range gone {
		if err := t.rows.Delete(tx, numbered(row.number)); err != nil {
			return 0, err
		}
	}
	if len(gone) == 0 {
		return 0, nil
	}
	return len(gone), t.putMark(tx, markCut, cut)
}
