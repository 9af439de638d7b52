package routing

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

func TestConditions(t *testing.T) {
	call := Input{
		Body: []byte(`{"model":"gpt-4o","n":5,"temperature":0.5,"id":12345678901234567890,"stream":true,"stop":null,"user":"",
			"messages":[{"role":"system"},{"role":"user","content":"caf\u00e9"}],"twice":1,"twice":2,"long":"` + strings.Repeat("a", 4097) + `","full":"` + strings.Repeat("a", 4096) + `","digits":"` + strings.Repeat("9", 64) + `"}`),
		Metadata: func(name string) json.RawMessage {
			return map[string]json.RawMessage{"plan": []byte(`"paid"`), "level": []byte(`"7"`), "depth": []byte(`7`), "flag": []byte(`true`), "a.b": []byte(`"dotted"`), "tags": []byte(`["x"]`)}[name]
		},
		Header: http.Header{"X-Tier": {"gold", "silver"}, "X-Num": {"10"}},
		Path:   "/v1/chat/completions",
	}
	for _, c := range []struct {
		query string
		want  bool
	}{
		{`{"metadata.plan":"paid"}`, true},
		{`{"metadata.plan":{"$eq":"paid"}}`, true},
		{`{"metadata.plan":{"$eq":"Paid"}}`, false},
		{`{"metadata.plan":{"$ne":"free"}}`, true},
		{`{"metadata.plan":{"$ne":"paid"}}`, false},
		{`{"metadata.a.b":"dotted"}`, true},
		{`{"metadata.tags":"x"}`, false},
		{`{"metadata.tags":{"$ne":"x"}}`, true},
		{`{"metadata.level":7}`, true},
		{`{"metadata.level":{"$eq":"7.0"}}`, false},
		{`{"metadata.level":{"$eq":7.0}}`, true},
		{`{"metadata.depth":"7"}`, true},
		{`{"metadata.flag":true}`, true},
		{`{"metadata.flag":"true"}`, true},
		{`{"metadata.flag":{"$ne":false}}`, true},

		// What is not there.
		{`{"metadata.none":null}`, true},
		{`{"params.stop":null}`, true},
		{`{"params.user":null}`, false},
		{`{"metadata.none":{"$eq":""}}`, false},
		{`{"metadata.none":{"$ne":"x"}}`, true},
		{`{"metadata.none":{"$nin":["x"]}}`, true},
		{`{"metadata.none":{"$in":["x",null]}}`, true},
		{`{"metadata.none":{"$gt":0}}`, false},
		{`{"metadata.none":{"$lte":0}}`, false},
		{`{"metadata.none":{"$regex":".*"}}`, false},

		// Numbers.
		{`{"params.n":5}`, true},
		{`{"params.n":5.0}`, true},
		{`{"params.n":{"$gt":4.9,"$gte":5,"$lt":6,"$lte":5}}`, true},
		{`{"params.n":{"$gt":5}}`, false},
		{`{"params.n":{"$lt":5}}`, false},
		{`{"params.n":{"$gt":"4"}}`, true},
		{`{"params.temperature":{"$lt":1e0}}`, true},
		{`{"params.id":12345678901234567890}`, true},
		{`{"params.id":12345678901234567891}`, false},
		{`{"params.id":{"$lt":12345678901234567891}}`, true},
		{`{"params.digits":{"$gt":` + strings.Repeat("9", 63) + `8}}`, true}, // the longest that are compared exactly
		{`{"params.digits":{"$gt":` + strings.Repeat("9", 64) + `}}`, false},
		{`{"params.model":{"$gt":1}}`, false},
		{`{"headers.x-num":{"$gt":9}}`, true},
		{`{"params.stream":{"$gt":0}}`, false},

		// Lists and expressions.
		{`{"params.model":{"$in":["gpt-4","gpt-4o"]}}`, true},
		{`{"params.model":{"$in":["gpt-4"]}}`, false},
		{`{"params.model":{"$nin":["gpt-4"]}}`, true},
		{`{"params.n":{"$in":["5"]}}`, true},
		{`{"params.model":{"$regex":"^gpt-4"}}`, true},
		{`{"params.model":{"$regex":"4$"}}`, false},
		{`{"params.n":{"$regex":"^5$"}}`, true},
		{`{"params.messages":{"$regex":"."}}`, false},
		{`{"params.long":{"$regex":"a"}}`, false},
		{`{"params.full":{"$regex":"a"}}`, true},
		{`{"params.stop":{"$regex":"null"}}`, false},

		// Where values are.
		{`{"params.messages[1].content":"café"}`, true},
		{`{"params.messages[2].content":null}`, true},
		{`{"params.messages.role":null}`, true},
		{`{"params.model.x":null}`, true},
		{`{"params.twice":2}`, true},
		{`{"url.pathname":"/v1/chat/completions"}`, true},
		{`{"url.pathname":{"$regex":"embeddings"}}`, false},
		{`{"headers.x-tier":"gold"}`, true},
		{`{"headers.X-TIER":{"$in":["gold"]}}`, true},
		{`{"headers.x-none":{"$eq":null}}`, true},

		// Together.
		{`{"metadata.plan":"paid","params.n":5}`, true},
		{`{"metadata.plan":"paid","params.n":6}`, false},
		{`{"$and":[{"metadata.plan":"paid"},{"params.n":6}]}`, false},
		{`{"$or":[{"metadata.plan":"free"},{"params.n":5}]}`, true},
		{`{"$or":[{"metadata.plan":"free"},{"params.n":6}]}`, false},
		{`{"$or":[{"$and":[{"metadata.plan":"paid"},{"params.n":6}]},{"$and":[{"params.n":5},{"$or":[{"params.n":1},{"params.n":5}]}]}],"params.stream":true}`, true},
	} {
		config := parse(t, `{"strategy":{"mode":"conditional","default":"b","conditions":[{"query":`+c.query+`,"then":"a"}]},`+two+`}`)
		p, err := config.Plan(call, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Target().Name == "a"; got != c.want {
			t.Errorf("%s matches: %v, want %v", c.query, got, c.want)
		}
	}
}

func TestTheFirstConditionThatMatchesDecides(t *testing.T) {
	config := parse(t, `{"strategy":{"mode":"conditional","conditions":[
		{"query":{"params.n":{"$gt":10}},"then":"b"},{"query":{"params.n":{"$gt":5}},"then":"a"},{"query":{"params.n":{"$gt":0}},"then":"b"}]},`+two+`}`)
	for body, want := range map[string]string{`{"n":11}`: "b", `{"n":6}`: "a", `{"n":1}`: "b"} {
		p, err := config.Plan(Input{Body: []byte(body)}, nil)
		if err != nil || p.Target().Name != want {
			t.Errorf("%s goes to %s (%v), want %s", body, p.Target().Name, err, want)
		}
	}
}

func TestConditionsWithoutABody(t *testing.T) {
	config := parse(t, `{"strategy":{"mode":"conditional","default":"b","conditions":[{"query":{"params.n":5,"metadata.x":1},"then":"a"}]},`+two+`}`)
	for _, body := range []string{"", "[]", "--boundary"} {
		if p, err := config.Plan(Input{Body: []byte(body)}, nil); err != nil || p.Target().Name != "b" {
			t.Errorf("%q: %v", body, err)
		}
	}
}
