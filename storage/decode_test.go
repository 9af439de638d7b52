package storage_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/storage"
)

type odd struct {
	ID    string            `json:"id"`
	Sum   [4]byte           `json:"sum"`
	Bytes []byte            `json:"bytes"`
	Wait  time.Duration     `json:"wait"`
	At    time.Time         `json:"at"`
	Raw   json.RawMessage   `json:"raw"`
	None  []string          `json:"none"`
	Empty map[string]string `json:"empty"`
	Any   any               `json:"any"`
	Count int64             `json:"count,string"`
	Inner struct {
		Name string `json:"name"`
	} `json:"inner"`
}

// Rows are encoded by encoding/json, and are read as that would read them.
func TestRowsAreReadAsTheyWereWritten(t *testing.T) {
	rows := storage.NewCollection("odd", func(o *odd) string { return o.ID })
	db := storage.NewDB(open(t))
	row := &odd{
		ID: "an \xff id", Sum: [4]byte{1, 0, 255, 7}, Bytes: []byte{0, 1, 2}, Wait: 90 * time.Second,
		At: time.Date(2026, 11, 30, 7, 8, 9, 123456789, time.FixedZone("", 3600)), Raw: json.RawMessage(`{"a":1,"a":"` + "\xff" + `","u":"\ud800"}`),
		Empty: map[string]string{"k": ""}, Any: map[string]any{"n": 1.5, "l": []any{nil, true}}, Count: 1<<62 + 1,
	}
	row.Inner.Name = "\u2028<&>"
	text, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	want := new(odd)
	if err := json.Unmarshal(text, want); err != nil {
		t.Fatal(err)
	}
	var got *odd
	err = db.Update(t.Context(), func(tx *storage.Txn) (err error) {
		row.ID = want.ID // in which what is no UTF-8 is replaced
		if err := rows.Put(tx, row); err != nil {
			return err
		}
		got, err = rows.Get(tx, row.ID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
