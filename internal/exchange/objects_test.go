package exchange

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A row without an id in its path is a way to objects of everybody, unless the table says what
// it has to do with them.
func TestEveryEndpointSaysWhatItHasToDoWithObjects(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for e := range Endpoints() {
		row := e.Method + " " + strings.TrimPrefix(e.Path, "/v1")
		o, listed := objectRows[row]
		seen[row] = true
		id, _ := objectIn(strings.TrimPrefix(e.Path, "/v1"), strings.NewReplacer("{", "", "}", "").Replace(strings.TrimPrefix(e.Path, "/v1")))
		switch {
		case !listed && id == "":
			t.Errorf("%s: not in objectRows, and names no object", row)
		case id == "" && !o.None && !o.List && !o.Creates():
			t.Errorf("%s: neither makes nor lists objects, and is not apart from them", row)
		case o.List && e.Method != "GET", o.Creates() && e.Method != "POST":
			t.Errorf("%s: not by that method", row)
		case o.StoreParam != "" && e.Body != JSON:
			t.Errorf("%s: a parameter of a body that is not read", row)
		}
	}
	for row := range objectRows {
		if !seen[row] {
			t.Errorf("%s: no endpoint", row)
		}
	}
}

func TestMembersOfAnswersAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ row, answer, want string }{
		{"POST /threads/runs", `{"object":"thread.run","thread_id":"thread_1"}`, "thread_1"},
		{"POST /threads/runs", `{"object":"thread","id":"thread_1"}`, "thread_1"},
		{"POST /threads/runs", `{"object":"thread.message.delta","delta":{"content":[{"image_file":{"file_id":"f"}}]}}`, "f"},
		{"GET /threads/{id}/messages", `{"data":[{"content":[{"image_file":{"file_id":"f"}},{"text":{"annotations":[{"file_path":{"file_id":"g"}}]}}]}]}`, "f g"},
		{"GET /threads/{id}/runs/{run_id}/steps", `{"data":[{"step_details":{"tool_calls":[{"code_interpreter":{"outputs":[{"image":{"file_id":"f"}}]}}]}}]}`, "f"},
		{"GET /batches", `{"data":[{"output_file_id":"f"},{"error_file_id":"g"}]}`, "f g"},
		{"GET /fine_tuning/jobs/{fine_tuning_job_id}", `{"result_files":["f","g"],"fine_tuned_model":"ft:m"}`, "f g ft:m"},
		{"POST /responses", `{"type":"response.created","response":{"id":"resp_1"}}`, "resp_1"},
		{"POST /responses", `{"type":"response.output_item.added","item":{"id":"ci_1","container_id":"cntr_1"}}`, "ci_1 cntr_1"},
		{"POST /uploads/{id}/complete", `{"id":"upload_1","file":{"id":"f"}}`, "f"},
	} {
		o := objectRows[c.row]
		var got []string
		var add func(v gjson.Result)
		add = func(v gjson.Result) {
			if v.IsArray() {
				for _, v := range v.Array() {
					add(v)
				}
			} else if v.Str != "" {
				got = append(got, v.Str)
			}
		}
		for _, list := range [][]string{o.Created, o.CreatedInEvents, o.Related, o.Models} {
			for _, member := range list {
				add(gjson.Get(c.answer, member))
			}
		}
		found := make(map[string]bool)
		for _, id := range got {
			found[id] = true
		}
		for id := range strings.FieldsSeq(c.want) {
			if !found[id] {
				t.Errorf("%s: %s: got %v, without %s", c.row, c.answer, got, id)
			}
			delete(found, id)
		}
	}
}

func TestBodiesThatNameObjects(t *testing.T) {
	t.Parallel()
	endpoints := map[string]*Endpoint{
		"": &passThrough, "messages": {Name: "messages"}, "evals": {Name: evals}, CreateFinetune: {Name: CreateFinetune}, vectorStores: {Name: vectorStores},
		"conversations": {Name: "conversations", Objects: objectRows["POST /conversations"]}, CreateResponse: {Name: CreateResponse, Objects: objectRows["POST /responses"]},
	}
	for _, c := range []struct{ endpoint, body, want string }{
		{"", `{"input_file_id":"a","completion_window":"24h"}`, "a"},
		{"", `{"File_ID":"a","file\u005fids":["b",["c"]]}`, "a b c"},
		{"", `{"file_id":"a","file_id":"b","id":"x"}`, "a b"},
		{"", `{"conversation":"a"}`, "a"},
		{"", `{"conversation":{"id":"a"}}`, "a"},
		{"", `{"conversation":{"id":"a","ID":"b"}}`, "a b"},
		{"", `{"conversation":{"id":"a","id":"b"}}`, "a b"},
		{"", `{"tools":[{"type":"code_interpreter","container":{"type":"auto","file_ids":["a"]}},{"type":"file_search","vector_store_ids":["b"]}]}`, "a b"},
		{"", `{"tools":[{"type":"code_interpreter","container":"a"}]}`, "a"},
		{"", `{"input":[{"type":"item_reference","id":"a"},{"type":"message","id":"m","content":[{"type":"input_file","file_id":"b"}]}]}`, "a b"},
		{"", `{"input":[{"id":"a","type":"item_reference"}]}`, "a"},
		{CreateResponse, `{"input":[{"id":"a"},{"type":null,"id":"b"},{"id":"x","type":"message","content":"c"},{"id":"y","role":"user","content":"c"}]}`, "a b"},
		{CreateResponse, `{"input":[{"type":"reasoning","id":"a","summary":[]},{"type":"reasoning","id":"b","encrypted_content":""},{"type":"reasoning","id":"x","encrypted_content":"c"}]}`, "a b"},
		{CreateResponse, `{"input":[{"type":"image_generation_call","id":"a"},{"Type":"message","id":"b"},{"type":"something_new","id":"c","content":"c"}]}`, "a b c"},
		{CreateResponse, `{"input":[{"type":"message","type":"reasoning","id":"a","content":"c"},{"id":"b","role":"user","content":"c","content":null}]}`, "a b"},
		{CreateResponse, `{"input":[{"type":"function_call","id":"x","call_id":"c","name":"n","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"o"}]}`, ""},
		{CreateResponse, `{"input":[{"type":"mcp_approval_request","id":"x","arguments":"{}"},{"type":"mcp_approval_response","approval_request_id":"x"},{"type":"mcp_approval_response","approval_request_id":"a"}]}`, "a"},
		{CreateResponse, `{"prompt":{"id":"a","version":"2"}}`, "a"},
		{"", `{"prompt":["hello"],"voice":"alloy","workflow":{"id":"a"}}`, "a"},
		{"", `{"voice":{"id":"a"}}`, "a"},
		{"", `{"FILE_ID":"a"}`, "a"},
		{"", `{"item":{"content":[{"file_id":"a"}]}}`, "a"},
		{"", `{"` + strings.NewReplacer("p", `\u0070`, "r", `\u0072`, "e", `\u0065`, "s", `\u0073`, "o", `\u006f`, "_", `\u005f`).Replace("previous_response_id") + `":"a"}`, "a"},
		{"", `{"file_id"` + strings.Repeat(" ", 100) + `:"a"}`, "a"},
		{"", `{"type"   :` + strings.Repeat(" ", 100) + `"item_reference","id":"a"}`, "a"},
		{"", `{"type":"item\u005freference","id":"a"}`, "a"},
		{"", `{"model":"ft:m:1","grader":{"Model" : "m\u003aft-x"},"models":["m","n.ft-1"]}`, "ft:m:1 m:ft-x n.ft-1"},
		{"", `{"model":{"id":"ft:m"},"session":{"model":{"id":"m"}},"properties":{"model":"ft:m"}}`, "ft:m"},
		{"", `{"text":"{\"file_id\":\"x\"}"}`, ""},
		{"conversations", `{"items":[{"id":"a"}]}`, "a"},
		{"", `{"messages":[{"role":"assistant","audio":{"id":"a"}}],"audio":{"voice":"v"}}`, "a"},
		{"", `{"previous_response_id":"a"}`, "a"},
		{"", `{"previous_response_id":null,"file_id":"","file_ids":[]}`, ""},
		{"", `{"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"a"}}]}]}`, "a"},
		{"", `{"metadata":{"file_id":"a"},"parameters":{"properties":{"file_id":{"type":"string","default":"a"}}}}`, ""},
		{"", `{"video":{"id":"a"},"characters":[{"id":"b"}]}`, "a b"},
		{"", `{"content":[{"type":"video","video":["https://a/b"]}],"video":"https://a"}`, ""},
		{"", `{"skills":[{"skill_id":"skill_1"},{"skill_id":"pptx"}]}`, "skill_1"},
		{"messages", `{"messages":[{"content":[{"type":"tool_use","input":{"file_id":"a"}},{"source":{"file_id":"b"}}]}]}`, "b"},
		{"evals", `{"data_source":{"type":"jsonl","source":{"type":"file_id","id":"a"}}}`, "a"},
		{"evals", `{"data_source":{"type":"jsonl","source":{"type":"stored_completions"}}}`, "shared data_source.source stored_completions"},
		{"evals", `{"data_source_config":{"type":"logs"}}`, "shared data_source_config logs"},
		{"evals", `{"data_source":{"type":"responses","source":{"type":"responses"}}}`, "shared data_source.source responses"},
		{"evals", `{"data_source":{"type":"responses","source":{"type":"file_content","content":[{"item":{"file_id":"x"}}]}}}`, ""},
		{"evals", `{"data_source":{"type":"responses","source":{"type":"file_content","content":[{"item":{"file_id":"a"}}]},"input_messages":{"type":"item_reference","item_reference":"item.x"}}}`, "a"},
		{"evals", `{"data_source":{"input_messages":{"Item_Reference":"item.x"},"type":"responses","source":{"type":"file_content","content":[{"item":{"content":[{"file_id":"a"}]}}]}}}`, "a"},
		{"evals", `{"data_source":{"type":"responses","source":{"type":"Responses"}}}`, "shared data_source.source responses"},
		{"evals", `{"data_source":{"type":"responses","source":{"metadata":{"a":"b"}}}}`, "shared data_source.source "},
		{"evals", `{"data_source":{"type":"jsonl","type":"traces","source":{"type":"file_id","id":"a"}}}`, "shared data_source jsonl, traces"},
		{"evals", `{"data_source_config":{"type":"custom","item_schema":{"type":"object","properties":{"source":{"type":"string"}}}}}`, ""},
		{CreateFinetune, `{"model":"m","training_file":"a","integrations":[]}`, "a"},
		{CreateFinetune, `{"model":"m","training_file":"a","integrations":[{"type":"wandb","wandb":{"project":"p"}}]}`, "shared integrations "},
		{CreateFinetune, `{"Integr\u0061tions":[{"type":"wandb"}]}`, "shared integrations "},
		{vectorStores, `{"file_ids":["a"],"attributes":{"thread_id":"x"},"files":[{"file_id":"b","attributes":{"model":"ft:x"}}]}`, "a b"},
		{"", `{"prompt":"hello"}`, ""},
	} {
		n := namedIn([]byte(c.body), endpoints[c.endpoint], false, fineTuned)
		got := strings.Join(n.ids, " ")
		if n.shared != "" {
			got = "shared " + n.shared + " " + n.kind
		}
		if got != c.want || len(n.params) != len(n.ids) {
			t.Errorf("%s %s: got %q, want %q", c.endpoint, c.body, got, c.want)
		}
	}
	if n := namedIn([]byte(`{"previous_response_id":"a","input":[{"type":"item_reference","id":"b"},{"file_id":"c"}]}`), endpoints[CreateResponse], true, fineTuned); strings.Join(n.ids, " ") != "c" {
		t.Errorf("of a response that the gateway makes: %v", n.ids)
	}
	if n := namedIn([]byte(`{"file_ids":[`+strings.Repeat(`"a",`, maxNamed)+`"b"]}`), &passThrough, false, fineTuned); !n.over {
		t.Error("too many are not said to be")
	}
}

// What is before the colons of a body decides whether it names objects, however it is written.
func FuzzABodyThatNamesObjectsIsRead(f *testing.F) {
	for _, seed := range []string{
		`{"file_id":"a"}`, "{\"File_ID\" \t\n:[\"a\"]}", `{"x":{"type": "item_reference" ,"id":"a"}}`, `{"type":"fil\u0065_id","id":"a"}`,
		`{"input":[{"id":"a"}]}`, `{"a\"file_id":"b","conv\u0065rsation":{"id":"a"}}`, `{"a":"\":\\","prompt":{"id":"a"}}`, `{"file_id\\":"a"}`, `{"model" : "ft:a"}`,
		`{"file_id` + strings.Repeat(" ", 70) + `":"a"}`, `{"file_id"` + strings.Repeat("\t", 70) + `:"a"}`,
	} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, body string, items bool) {
		all := &names{items: items, hides: fineTuned, r: jsonscan.NewReader([]byte(body))}
		all.value("", 0)
		if some := (&names{items: items, hides: fineTuned}); all.r.Err() == nil && len(all.ids) > 0 && !some.may([]byte(body)) {
			t.Errorf("%q names %q", body, all.ids)
		}
	})
}

func BenchmarkABodyThatNamesNoObjects(b *testing.B) {
	body := []byte(`{"model":"m","messages":[` + strings.Repeat(`{"role":"user","content":[{"type":"text","text":"It was: quiet, at 12:30, in the \"house\": nobody came. `+strings.Repeat("More text. ", 40)+`"}]},`, 20) + `{"role":"user","content":"hi"}]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		namedIn(body, &passThrough, false, fineTuned)
	}
}
