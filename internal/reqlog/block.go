package reqlog

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// A row of records is their JSON, one record per line, in the order of their ids. Lines
// can be found and skipped by their bytes, without decoding them. Storing many records
// per row makes records cheap. Rows are compressed, which makes writing and merging
// cheaper. They are not larger, because the memory of the store's tables depends on the
// largest value.
const (
	blockRecords = 256
	blockBytes   = 256 << 10 // also for rows of bodies, where each body follows a line that identifies its record
)

// newBlock encodes records, which have ids, as a row. It reuses the memory of row.
func newBlock(records []*Record, row []byte) (*segment, []byte, error) {
	seg := span(records)
	var c collector
	var err error
	for _, r := range records {
		if row, err = appendLine(row, r); err != nil {
			return nil, row, err
		}
		seg.Workspaces.add(r.WorkspaceID, 1)
		c.add(r)
	}
	seg.Terms = newTerms(c.hashes)
	return seg, row, nil
}

// span returns a segment of records with only their ids and times.
func span(records []*Record) *segment {
	at := records[0].At.UnixMilli()
	seg := &segment{ID: records[0].ID, Last: records[len(records)-1].ID, Count: len(records), From: at, To: at}
	for _, r := range records {
		at := r.At.UnixMilli()
		seg.From, seg.To = min(seg.From, at), max(seg.To, at)
	}
	return seg
}

// lastLine splits off the last line, without its end.
func lastLine(row []byte) (rest, line []byte) {
	row = bytes.TrimSuffix(row, []byte("\n"))
	at := bytes.LastIndexByte(row, '\n') + 1
	return row[:at], row[at:]
}

// lineID returns the id of a line's record, or nil if the line does not begin with one.
func lineID(line []byte) []byte {
	const length = len("00000000-0000-0000-0000-000000000000")
	id, ok := bytes.CutPrefix(line, []byte(beginLine))
	if !ok || len(id) < length {
		return nil
	}
	return id[:length]
}

// lineOf returns the line of a record in a row, or nil if there is none.
func lineOf(row []byte, id string) []byte {
	begin := []byte(beginLine + id + `"`)
	for len(row) > 0 {
		line, rest, _ := bytes.Cut(row, []byte("\n"))
		if bytes.HasPrefix(line, begin) {
			return line
		}
		row = rest
	}
	return nil
}

// A label precedes the bodies of a record.
type label struct {
	ID       string `json:"id"`
	Request  int    `json:"request"`
	Response int    `json:"response"`
}

// newBodies encodes the bodies of records as a row. It reuses the memory of row.
func newBodies(records []*Record, row []byte) (*segment, []byte, error) {
	for _, r := range records {
		request, response := r.Request.bytes(), r.Response.bytes()
		head, err := json.Marshal(label{r.ID, len(request), len(response)})
		if err != nil {
			return nil, row, err
		}
		row = append(append(append(append(row, head...), '\n'), request...), response...)
	}
	return span(records), row, nil
}

func (b *Body) bytes() []byte {
	if b == nil {
		return nil
	}
	return b.Bytes
}

// bodiesOf returns the bodies of a record in a row. ok is false if it has none.
func bodiesOf(row []byte, id string) (request, response []byte, ok bool, err error) {
	for len(row) > 0 {
		head, rest, _ := bytes.Cut(row, []byte("\n"))
		var l label
		if err := json.Unmarshal(head, &l); err != nil {
			return nil, nil, false, fmt.Errorf("reading bodies: %w", err)
		}
		if l.Request < 0 || l.Response < 0 || l.Request+l.Response > len(rest) {
			return nil, nil, false, fmt.Errorf("the bodies of %s are cut", l.ID)
		}
		request, rest = rest[:l.Request], rest[l.Request:]
		response, row = rest[:l.Response], rest[l.Response:]
		if l.ID == id {
			return request, response, true, nil
		}
	}
	return nil, nil, false, nil
}
