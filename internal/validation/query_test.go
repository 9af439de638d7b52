package validation

import (
	"net/url"
	"slices"
	"testing"
)

func TestQueryRows(t *testing.T) {
	for _, c := range []struct {
		name        string
		table       Query
		query       string
		param, code string
	}{
		{"batches", BatchList, "", "", ""},
		{"batches", BatchList, "after=batch_0&limit=1&unheard_of=1&unheard_of=2", "", ""},
		{"batches", BatchList, "limit=100", "", ""},
		{"batches", BatchList, "limit=0", "limit", IntegerBelowMin},
		{"batches", BatchList, "limit=-1", "limit", IntegerBelowMin},
		{"batches", BatchList, "limit=101", "limit", IntegerAboveMax},
		{"batches", BatchList, "limit=99999999999999999999", "limit", IntegerAboveMax},
		{"batches", BatchList, "limit=ten", "limit", InvalidType},
		{"batches", BatchList, "limit=", "limit", InvalidType},
		{"batches", BatchList, "limit=1.5", "limit", InvalidType},
		{"batches", BatchList, "limit=1e1", "limit", InvalidType},
		{"batches", BatchList, "limit=-", "limit", InvalidType},
		{"batches", BatchList, "limit=%2B5", "limit", InvalidType},
		{"batches", BatchList, "limit=5&limit=500", "limit", DuplicateField},
		{"fine-tuning jobs", FineTuningJobList, "limit=2&metadata%5Ba%5D=b", "", ""},
		{"fine-tuning jobs", FineTuningJobList, "limit=500&after=ftjob-1", "", ""},
		{"fine-tuning jobs", FineTuningJobList, "limit=0", "limit", IntegerBelowMin},
		{"fine-tuning jobs", FineTuningJobList, "limit=x", "limit", InvalidType},
		{"responses", ResponseGet, "include=file_search_call.results&include=a.newer.one", "", ""},
		{"responses", ResponseGet, "include%5B%5D=a&include[]=b", "", ""},
		{"responses", ResponseGet, "include=a,b", "", ""},
	} {
		values, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		fault := CheckQuery(c.table, values)
		switch {
		case c.param == "" && fault != nil:
			t.Errorf("%s?%s: %v", c.name, c.query, fault)
		case c.param != "" && (fault == nil || fault.Param != c.param || fault.Code != c.code || fault.Message == ""):
			t.Errorf("%s?%s: got %+v, want %s, %s", c.name, c.query, fault, c.param, c.code)
		}
	}
}

func TestListReadsTheThreeSpellings(t *testing.T) {
	want := []string{"a", "b"}
	for _, query := range []string{"include=a&include=b", "include%5B%5D=a&include[]=b", "include=a,b", "include=a&include[]=b", "include=a,,%20b", "include=&include=a,b"} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if got := List(values, "include"); !slices.Equal(got, want) {
			t.Errorf("%s: got %q", query, got)
		}
	}
}
