package audit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/storage"
)

// A Report is what [Trail.Verify] found.
type Report struct {
	Rows        uint64    `json:"rows"`            // that are there
	First       uint64    `json:"first"`           // number of the first of them
	Last        uint64    `json:"last"`            // number of the last of them
	Cut         uint64    `json:"cut"`             // number of the last row that was removed because of its age
	CutAt       time.Time `json:"cut_at,omitzero"` // time of that row
	Checkpoints int       `json:"checkpoints"`     // that were compared
	Faults      []Fault   `json:"faults"`
	More        bool      `json:"more"` // there are more faults than these
}

// A Fault is a place where the trail is not as it was written.
type Fault struct {
	Row     uint64 `json:"row,omitempty"` // 0: of the trail
	Message string `json:"message"`
}

// maxFaults bounds a report.
const maxFaults = 100

func (r *Report) fault(row uint64, format string, args ...any) {
	if len(r.Faults) == maxFaults {
		r.More = true
		return
	}
	r.Faults = append(r.Faults, Fault{row, fmt.Sprintf(format, args...)})
}

// A Checkpoint is what the log says about a trail: the seal of a row.
type Checkpoint struct {
	Number uint64
	Seal   string
}

// Members of checkpoints in the log.
const (
	checkpointMessage = "audit trail checkpoint"
	checkpointRow     = "audit_row"
	checkpointSeal    = "audit_seal"
)

// ReadCheckpoints finds the checkpoints in a log, in Caddy's JSON or console format.
func ReadCheckpoints(r io.Reader) ([]Checkpoint, error) {
	var all []Checkpoint
	lines := bufio.NewReaderSize(r, 1<<16)
	for {
		line, err := lines.ReadSlice('\n')
		if at := bytes.IndexByte(line, '{'); at >= 0 && bytes.Contains(line, []byte(checkpointSeal)) {
			found := gjson.GetManyBytes(line[at:], checkpointRow, checkpointSeal)
			if n := found[0].Uint(); n > 0 && found[1].Str != "" {
				all = append(all, Checkpoint{n, found[1].Str})
			}
		}
		switch {
		case err == nil, errors.Is(err, bufio.ErrBufferFull): // the line is longer than any checkpoint
		case errors.Is(err, io.EOF):
			return all, nil
		default:
			return all, fmt.Errorf("reading checkpoints: %w", err)
		}
	}
}

// Verify compares the trail with its seals, the postings with the rows, and the rows with
// checkpoints. Rows that were sealed with an earlier key need it among keys.
func (t *Trail) Verify(ctx context.Context, checkpoints []Checkpoint, keys ...Key) (*Report, error) {
	v := &verification{trail: t, keys: map[keyID]Key{t.key.id: t.key}, checkpoints: make(map[uint64][]string)}
	for _, k := range keys {
		v.keys[k.id] = k
	}
	for _, c := range checkpoints {
		v.checkpoints[c.Number] = append(v.checkpoints[c.Number], c.Seal)
	}
	err := t.db.View(ctx, func(tx storage.Tx) error { return v.run(tx) })
	if err != nil {
		return nil, fmt.Errorf("verifying the audit trail: %w", err)
	}
	return &v.report, nil
}

// A verification goes through the rows in order.
type verification struct {
	trail       *Trail
	keys        map[keyID]Key
	checkpoints map[uint64][]string
	report      Report

	last     uint64 // number of the row before
	seal     seal   // of it
	at       time.Time
	block    uint64
	expected map[string]*set // postings of the block
	postings int             // that there should be
}

func (v *verification) run(tx storage.Tx) error {
	r := &v.report
	r.Faults = []Fault{}
	cut, err := v.mark(tx, markCut)
	if err != nil {
		return err
	}
	v.last, v.seal, v.at = cut.number, cut.seal, cut.at
	r.Cut, r.CutAt = cut.number, cut.at
	v.block, v.expected = (cut.number+1)/perBlock, make(map[string]*set)
	for blob, err := range v.trail.rows.Scan(tx, storage.Range{}) {
		if err != nil {
			return err
		}
		if err := v.row(tx, blob); err != nil {
			return err
		}
	}
	if err := v.endBlock(tx); err != nil {
		return err
	}
	if err := v.count(tx); err != nil {
		return err
	}
	head, err := v.mark(tx, markHead)
	if err != nil {
		return err
	}
	switch {
	case head.number == 0 && r.Rows > 0:
		r.fault(0, "the mark of the last row is missing")
	case head.number > v.last:
		r.fault(v.last+1, "rows %d to %d are missing: the end was cut off", v.last+1, head.number)
	case head.number < v.last:
		r.fault(head.number, "the mark of the last row is of row %d, but there are rows up to %d", head.number, v.last)
	case head.number > 0 && !head.seal.equal(v.seal):
		r.fault(v.last, "the mark of the last row has another seal than the row")
	}
	v.checked()
	return nil
}

// mark reads a mark and checks its seal.
func (v *verification) mark(tx storage.Tx, id string) (mark, error) {
	m, sealed, there, err := v.trail.readMark(tx, id)
	if err != nil || !there {
		if there {
			v.report.fault(0, "the mark %s was altered", id)
			return mark{}, nil
		}
		return m, err
	}
	k, known := v.keys[m.key]
	switch {
	case !known:
		v.report.fault(m.number, "the mark %s was sealed with key %s, which was not given", id, m.key)
	case !k.seal(id, m.encode()).equal(sealed):
		v.report.fault(m.number, "the mark %s was altered", id)
	}
	return m, nil
}

func (v *verification) row(tx storage.Tx, blob storage.Blob) error {
	r := &v.report
	row, err := decodeRow(blob)
	if err != nil {
		r.fault(v.last+1, "a row after row %d is cut off", v.last)
		return nil //nolint:nilerr // it is in the report
	}
	n := row.number
	if r.Rows++; r.First == 0 {
		r.First = n
	}
	r.Last = n
	missing := n != v.last+1
	switch {
	case n <= v.last:
		r.fault(n, "row %d is there, though the trail was cut at row %d", n, v.last)
		return nil
	case n == v.last+2:
		r.fault(v.last+1, "row %d is missing", v.last+1)
	case missing:
		r.fault(v.last+1, "rows %d to %d are missing", v.last+1, n-1)
	}
	k, known := v.keys[row.key]
	switch {
	case !known:
		r.fault(n, "row %d was sealed with key %s, which was not given", n, row.key)
	case missing: // the seal of the row before is not known, so that of this one cannot be checked
	case !k.sealRow(n, v.seal, row.text).seal.equal(row.seal):
		r.fault(n, "row %d was altered, or the row before", n)
	}
	for _, checkpoint := range v.checkpoints[n] {
		if r.Checkpoints++; checkpoint != row.seal.String() {
			r.fault(n, "row %d is another one than in the log", n)
		}
	}
	delete(v.checkpoints, n)
	v.last, v.seal = n, row.seal
	if block, _ := blockOf(n); block != v.block {
		if err := v.endBlock(tx); err != nil {
			return err
		}
		v.block = block
	}
	record, err := row.record()
	if err != nil {
		r.fault(n, "row %d cannot be read", n)
		return nil //nolint:nilerr // it is in the report
	}
	if record.Number != n || record.At.Before(v.at) {
		r.fault(n, "row %d says that it is row %d of %s, after one of %s", n, record.Number, record.At.Format(time.RFC3339Nano), v.at.Format(time.RFC3339Nano))
	}
	v.at = record.At
	_, i := blockOf(n)
	for _, one := range record.terms() {
		id := one.posting(v.block)
		if v.expected[id] == nil {
			v.expected[id] = new(set)
		}
		v.expected[id].put(i, true)
	}
	return nil
}

// endBlock compares the postings of a block with those of its rows.
func (v *verification) endBlock(tx storage.Tx) error {
	for id, want := range v.expected {
		got, err := v.trail.posting(tx, id)
		if err != nil && !errors.Is(err, errAltered) {
			return err
		}
		if err != nil || got != *want {
			v.report.fault(v.block*perBlock, "the index of rows %d to %d was altered: lists show too few or too many of them", v.block*perBlock, v.block*perBlock+perBlock-1)
			break
		}
	}
	v.postings += len(v.expected)
	v.expected = make(map[string]*set)
	return nil
}

// count looks for postings of rows that are not there.
func (v *verification) count(tx storage.Tx) error {
	n := 0
	for _, err := range v.trail.postings.Scan(tx, storage.Range{}) {
		if err != nil {
			return err
		}
		n++
	}
	if n != v.postings {
		v.report.fault(0, "the index has %d entries, expected %d", n, v.postings)
	}
	return nil
}

// checked looks at the checkpoints of rows that are not there.
func (v *verification) checked() {
	for _, n := range slices.Sorted(maps.Keys(v.checkpoints)) {
		switch {
		case n > v.last:
			v.report.fault(n, "the log has row %d, but the last is row %d: the end was cut off", n, v.last)
		case n > v.report.Cut:
			v.report.fault(n, "the log has row %d, which is missing", n)
		}
	}
}
