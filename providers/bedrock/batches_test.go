package bedrock

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/providers"
)

func TestIDsComeBackAsTheyWere(t *testing.T) {
	for _, s := range []string{"a", "Request-1", "gwx", "gwx61", "ü 漢/~!%-_.:", "arn:aws:bedrock:us-east-1:1:application-inference-profile/abc", "x~!7Ey"} {
		id := recordID(s)
		if customID(id) != s || strings.ContainsFunc(id, func(r rune) bool { return r >= 0x80 || !letterOrDigit(byte(r)) }) {
			t.Errorf("%q became the record %q", s, id)
		}
		in := file{folder: folder{"the-bucket", "a/b"}, purpose: "batch", model: s, unique: "u", name: "n.jsonl"}
		if out, err := in.file(in.id(), "file_id"); err != nil || out != in {
			t.Errorf("%q became the file %+v, %v", s, out, err)
		}
	}
}

func TestTheFolderIsWhatTheSettingsSay(t *testing.T) {
	for _, c := range []struct{ bucket, prefix, want string }{
		{"the-bucket", "", "the-bucket/gateway-files"},
		{"the.bucket", "/a/b/", "the.bucket/a/b"},
		{"", "a", "x-gw-aws-s3-bucket"},
		{"The_Bucket", "a", "x-gw-aws-s3-bucket"},
		{"a..b", "a", "x-gw-aws-s3-bucket"},
		{"the-bucket", "a//b", "x-gw-aws-s3-object-key"},
		{"the-bucket", "a/../b", "x-gw-aws-s3-object-key"},
		{"the-bucket", "a?b", "x-gw-aws-s3-object-key"},
	} {
		call := newCall(t, "listFiles", "")
		call.Provider = new(provider())
		call.Setting = words{"aws_s3_bucket": c.bucket, "aws_s3_object_key": c.prefix}.get
		f, err := folderOf(call)
		got := f.bucket + "/" + f.prefix
		if refusal := new(providers.RequestError); errors.As(err, &refusal) {
			got = refusal.Param
		}
		if got != c.want {
			t.Errorf("%s, %s: got %s, want %s", c.bucket, c.prefix, got, c.want)
		}
	}
}

func TestServicesOfAWSAreBesideEachOther(t *testing.T) {
	setting := words{"aws_s3_bucket": "the-bucket", "aws_batch_role_arn": "arn:aws:iam::123456789012:role/x"}
	input := file{folder: folder{"the-bucket", defaultPrefix}, purpose: "batch", model: "m", unique: "u", name: "n.jsonl"}
	for endpoint, want := range map[string]string{
		"retrieveBatch": "GET https://bedrock.us-east-1.amazonaws.com/model-invocation-job/abc123def456",
		"cancelBatch":   "POST https://bedrock.us-east-1.amazonaws.com/model-invocation-job/abc123def456/stop",
		"createBatch":   "POST https://bedrock.us-east-1.amazonaws.com/model-invocation-job",
		"listBatches":   "GET https://bedrock.us-east-1.amazonaws.com/model-invocation-jobs?maxResults=7&sortBy=CreationTime&sortOrder=Descending",
		"retrieveFile":  "HEAD https://s3.us-east-1.amazonaws.com/the-bucket/gateway-files/batch/m/u/n.jsonl",
		"listFiles":     "GET https://s3.us-east-1.amazonaws.com/the-bucket?list-type=2&max-keys=7&prefix=gateway-files%2F",
	} {
		c := newCall(t, endpoint, "")
		c.Method, c.Path, c.Query, c.Body = http.MethodGet, "/batches/abc123def456", "limit=7", nil
		switch {
		case strings.HasSuffix(endpoint, "File"):
			c.Path = "/files/" + input.id()
		case endpoint == "createBatch":
			c.Body = []byte(`{"input_file_id":"` + input.id() + `","endpoint":"/v1/chat/completions","completion_window":"24h"}`)
		}
		c.Setting = func(name string) string { return setting[name] + keys[name] }
		r := prepare(t, c)
		if got := r.Method + " " + r.URL.String(); got != want {
			t.Errorf("%s: got %s, want %s", endpoint, got, want)
		}
		if signed := r.Header.Get("Authorization"); strings.Contains(signed, "/s3/") != strings.Contains(want, "//s3.") {
			t.Errorf("%s: signed as %s", endpoint, signed)
		}
	}
}

func TestABatchIsWhatItsFieldsAllow(t *testing.T) {
	input := file{folder: folder{"the-bucket", defaultPrefix}, purpose: "batch", unique: "u", name: "n.jsonl"}
	data := input
	data.purpose = "user_data"
	good := `{"input_file_id":"` + input.id() + `","endpoint":"/v1/chat/completions","completion_window":"24h","model":"m"}`
	for _, c := range []struct{ old, replacement, param string }{
		{"", "", ""},
		{`"24h"`, `"7d"`, ""},
		{`"24h"`, `"168h"`, ""},
		{`"24h"`, `"23h"`, "completion_window"},
		{`"24h"`, `"8d"`, "completion_window"},
		{`"24h"`, `"24"`, "completion_window"},
		{`"24h"`, `""`, "completion_window"},
		{"chat/completions", "embeddings", "endpoint"},
		{input.id(), data.id(), "input_file_id"},
		{input.id(), "file-x", "input_file_id"},
		{`"model":"m"`, `"metadata":{"model":"m"}`, ""},
		{`"model":"m"`, `"metadata":{"a":"b"}`, "model"},
		{`"model":"m"`, `"model":"m","metadata":{"a":"<b>"}`, "metadata.a"},
		{`"model":"m"`, `"model":"m","output_expires_after":{"seconds":3600}`, "output_expires_after"},
	} {
		call := newCall(t, "createBatch", strings.Replace(good, c.old, c.replacement, 1))
		call.Setting = func(name string) string {
			return words{"aws_s3_bucket": "the-bucket", "aws_batch_role_arn": "arn:aws:iam::123456789012:role/x"}[name] + keys[name]
		}
		p := provider()
		_, err := p.Prepare(call)
		got := ""
		if refusal := new(providers.RequestError); errors.As(err, &refusal) {
			got = refusal.Param
		}
		if got != c.param {
			t.Errorf("%s: refused for %q, want %q: %v", c.replacement, got, c.param, err)
		}
	}
}

func TestAnIdempotencyKeyIsTheJobsOwn(t *testing.T) {
	token := func(key, unique string) string {
		input := file{folder: folder{"the-bucket", defaultPrefix}, purpose: "batch", unique: unique, model: "m", name: "n.jsonl"}
		c := newCall(t, "createBatch", `{"input_file_id":"`+input.id()+`","endpoint":"/v1/chat/completions","completion_window":"24h"}`)
		c.Header = words{"Idempotency-Key": key}.get
		c.Setting = func(name string) string {
			return words{"aws_s3_bucket": "the-bucket", "aws_batch_role_arn": "arn:aws:iam::123456789012:role/x"}[name] + keys[name]
		}
		body := gjson.ParseBytes(prepare(t, c).Body)
		if body.Get("jobName").Str != "gateway-"+body.Get("clientRequestToken").Str {
			t.Errorf("a job of %s", body.Raw)
		}
		return body.Get("clientRequestToken").Str
	}
	first := token("a", "1")
	if first != token("a", "1") || first == token("b", "1") || first == token("a", "2") || token("", "1") != "made-up" {
		t.Error("the token is not that of the key and the file")
	}
}

func TestAStoppedJobHasTheOutputOfWhatItDid(t *testing.T) {
	for status, want := range map[string]bool{"Stopped": true, "Expired": true, "Stopping": false, "Failed": false} {
		b := readJob(gjson.Parse(`{"jobArn":"j/abc123def456","status":"` + status + `","totalRecordCount":9,"successRecordCount":1,"errorRecordCount":0,
			"inputDataConfig":{"s3InputDataConfig":{"s3Uri":"s3://b/in/a.jsonl"}},"outputDataConfig":{"s3OutputDataConfig":{"s3Uri":"s3://b/out/"}}}`))
		if (b.Output != "") != want {
			t.Errorf("%s: output %q", status, b.Output)
		}
	}
}

func TestAJobIsABatchInOpenAIsWords(t *testing.T) {
	const job = `{"jobArn":"arn:aws:bedrock:us-east-1:1:model-invocation-job/abc123def456","modelId":"m","status":"STATUS","message":"why","submitTime":"2026-01-02T03:04:05Z",
		"lastModifiedTime":"2026-01-02T04:00:00.5Z","endTime":"2026-01-02T04:00:01Z","jobExpirationTime":"2026-01-03T03:04:05Z","timeoutDurationInHours":24,
		"inputDataConfig":{"s3InputDataConfig":{"s3Uri":"s3://b/in/a.jsonl"}},"outputDataConfig":{"s3OutputDataConfig":{"s3Uri":"s3://b/out/"}}}`
	for status, want := range map[string][3]string{ // its own time, and whether it has output and errors
		"Submitted":          {"validating"},
		"Scheduled":          {"in_progress"},
		"InProgress":         {"in_progress"},
		"Completed":          {"completed", "output"},
		"PartiallyCompleted": {"expired", "output", "errors"},
		"Expired":            {"expired", "", "errors"},
		"Failed":             {"failed", "", "errors"},
		"Stopping":           {"cancelling"},
		"Stopped":            {"cancelled"},
		"Unheard":            {"in_progress"},
	} {
		b := readJob(gjson.Parse(strings.Replace(job, "STATUS", status, 1)))
		got := gjson.ParseBytes(b.append(nil))
		if got.Get("id").Str != "abc123def456" || got.Get("status").Str != want[0] || got.Get("output_file_id").Exists() != (want[1] != "") || got.Get("errors").Exists() != (want[2] != "") {
			t.Errorf("%s: %s", status, got.Raw)
		}
		if ended := want[0] != "validating" && want[0] != "in_progress"; got.Get(want[0]+"_at").Exists() != ended {
			t.Errorf("%s: %s", status, got.Raw)
		}
		if id := got.Get("output_file_id").Str; id != "" && id != fileID("s3://b/out/abc123def456/a.jsonl.out") {
			t.Errorf("%s: output in %s", status, id)
		}
	}
}

const outputs = `{"recordId":"1","modelOutput":{"output":{"message":{"content":[{"text":"ok"}]}},"stopReason":"end_turn"}}
{"recordId":"2","modelOutput":{"type":"message","role":"assistant","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn"}}
{"recordId":"3","error":{"errorCode":500,"errorMessage":"no"}}

{"recordId":"4","modelOutput":7}
{
{"recordId":"5","error":{}}`

func TestOutputIsTheSameWhereverItIsCut(t *testing.T) {
	whole := ""
	for size := len(outputs); size > 0; size /= 2 {
		s := &results{file: file{unique: "job", model: "m"}, provider: "bedrock", strict: true, created: time.Unix(1, 0)}
		var out []byte
		for at := 0; at < len(outputs); at += size {
			var err error
			if out, err = s.Translate(out, []byte(outputs[at:min(at+size, len(outputs))])); err != nil {
				t.Fatal(err)
			}
		}
		out, _ = s.End(out)
		if whole == "" {
			whole = string(out)
		}
		if string(out) != whole {
			t.Errorf("in pieces of %d: %s", size, out)
		}
	}
	lines := strings.Split(strings.TrimSpace(whole), "\n")
	for i, want := range []string{"ok", "ok", "no", "unreadable_output", "unreadable_output", "The provider answered 500 Internal Server Error"} {
		got := gjson.Parse(lines[i])
		text := got.Get("response.body.choices.0.message.content").Str + got.Get("response.body.error.message").Str + got.Get("error.code").Str
		if text != want || got.Get("id").Str != "batch_req_job-"+string(rune('1'+i)) {
			t.Errorf("%d: %s", i, lines[i])
		}
	}
}

func FuzzBatchInput(f *testing.F) {
	f.Add(`{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"Hi"}]}}` + "\n")
	f.Add("\n{}\n")
	f.Fuzz(func(t *testing.T, input string) {
		l := newLines(newCall(t, "uploadFile", ""), strings.NewReader(input))
		out, last, err := l.chunk()
		if err != nil {
			if refusal := new(providers.RequestError); !errors.As(err, &refusal) {
				t.Fatal(err)
			}
			return
		}
		for line := range bytes.Lines(out) {
			if !gjson.ValidBytes(line) || gjson.GetBytes(line, "recordId").Str == "" || !gjson.GetBytes(line, "modelInput").IsObject() {
				t.Fatalf("%q became %q", input, line)
			}
		}
		if !last {
			t.Fatal("more is to come")
		}
	})
}

func FuzzBatchOutput(f *testing.F) {
	f.Add(outputs)
	f.Fuzz(func(t *testing.T, output string) {
		s := &results{file: file{unique: "job"}, provider: "bedrock"}
		out, err := s.Translate(nil, []byte(output))
		if err != nil {
			t.Fatal(err)
		}
		out, _ = s.End(out)
		for line := range bytes.Lines(out) {
			if !gjson.ValidBytes(line) {
				t.Fatalf("%q became %q", output, line)
			}
		}
	})
}

func TestAnUploadThatBreaksOffIsTheClients(t *testing.T) {
	c := newCall(t, "uploadFile", "")
	broken := errors.New("broken")
	c.Body, c.Header = nil, words{"Content-Type": "multipart/form-data; boundary=b"}.get
	c.Upload = io.MultiReader(strings.NewReader("--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"), failing{broken})
	c.Setting = func(name string) string { return words{"aws_s3_bucket": "the-bucket"}[name] + keys[name] }
	p := provider()
	_, err := p.Prepare(c)
	if upload := new(providers.UploadError); !errors.As(err, &upload) || !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
