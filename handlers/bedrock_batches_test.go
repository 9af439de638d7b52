package handlers_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A batcher calls a gateway with a saved credential of AWS's.
type batcher struct {
	*gatewaytest.Gateway
	aws *amazon
	key string
}

func newBatcher(t *testing.T) *batcher {
	a := newAmazon(t)
	g := gatewaytest.Start(t, `trusted_custom_hosts 127.0.0.1
		block_inline_config off
		provider aws {
			type bedrock
			base_url `+a.URL+`
			api_key the-secret
			setting aws_access_key_id AKID
			setting aws_region eu-west-1
			setting aws_s3_bucket the-bucket
			setting aws_s3_object_key /team/
			setting aws_batch_role_arn arn:aws:iam::123456789012:role/batches
		}`)
	key, _ := g.Key("k")
	return &batcher{g, a, key}
}

func (b *batcher) ask(method, path, body string, headers ...string) *gatewaytest.Answer {
	return b.Do(method, path, body, append([]string{"x-gw-api-key: " + b.key, "x-gw-provider: @aws"}, headers...)...)
}

func (b *batcher) upload(fields ...string) *gatewaytest.Answer {
	return b.ask("POST", "/v1/files", strings.Join(fields, "")+"--b--\r\n", "content-type:", "content-type: multipart/form-data; boundary=b")
}

func field(name, value string) string {
	return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n"
}

func content(name, value string) string {
	return "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name + "\"\r\nContent-Type: application/jsonl\r\n\r\n" + value + "\r\n"
}

func line(id, text string) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":"/v1/chat/completions","body":{"model":"@aws/anthropic.claude-x-v1:0","max_tokens":9,"messages":[{"role":"user","content":%q}]}}`, id, text) + "\n"
}

func TestABatchOfBedrockFromItsFileToItsOutput(t *testing.T) {
	b := newBatcher(t)
	up := b.upload(field("purpose", "batch"), content("my calls.jsonl", line("request-1", "Hi")+line("two", "Ho")))
	id := up.Get("id").Str
	if up.Status != 200 || !strings.HasPrefix(id, "file-") || up.Get("purpose").Str != "batch" || up.Get("filename").Str != "my_calls.jsonl" {
		t.Fatalf("uploaded: %d %s", up.Status, up.Body)
	}
	const record = `{"recordId":"gwx726571756573742d31","modelInput":{"messages":[{"role":"user","content":[{"text":"Hi"}]}],"inferenceConfig":{"maxTokens":9}}}` + "\n" +
		`{"recordId":"two","modelInput":{"messages":[{"role":"user","content":[{"text":"Ho"}]}],"inferenceConfig":{"maxTokens":9}}}` + "\n"
	if got := b.ask("GET", "/v1/files/"+id+"/content", ""); got.Body != record {
		t.Errorf("kept as %s", got.Body)
	} else if got.Header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id") != "" {
		t.Errorf("it tells of the bucket: %v", got.Header)
	}
	if got := b.ask("GET", "/v1/files/"+id, ""); got.Get("bytes").Int() != int64(len(record)) || got.Get("created_at").Int() != 1767323045 || got.Get("id").Str != id {
		t.Errorf("retrieved: %d %s", got.Status, got.Body)
	}

	made := b.ask("POST", "/v1/batches", `{"input_file_id":"`+id+`","endpoint":"/v1/chat/completions","completion_window":"24h","metadata":{"of":"me"}}`)
	batch := made.Get("id").Str
	if made.Status != 200 || batch != "job000000000" || made.Get("status").Str != "validating" || made.Get("input_file_id").Str != id ||
		made.Get("metadata.of").Str != "me" || made.Get("completion_window").Str != "24h" || made.Get("expires_at").Int()-made.Get("created_at").Int() != 24*3600 {
		t.Fatalf("made: %d %s", made.Status, made.Body)
	}
	job := b.aws.jobs[0]
	if job["modelId"] != "anthropic.claude-x-v1:0" || fmt.Sprint(job["tags"]) != "[map[key:of value:me]]" {
		t.Errorf("a job of %v", job)
	}
	if got := b.ask("GET", "/v1/batches/"+batch+"/output", ""); got.Status != 400 || got.Get("error.code").Str != "batch_not_completed" {
		t.Errorf("output before the end: %d %s", got.Status, got.Body)
	}

	uri := job["outputDataConfig"].(map[string]any)["s3OutputDataConfig"].(map[string]any)["s3Uri"].(string)
	if uri != "s3://the-bucket/team/batch_output/anthropic.claude-x-v1!3A0/" {
		t.Errorf("output goes to %s", uri)
	}
	b.aws.objects[strings.TrimPrefix(uri, "s3://the-bucket/")+batch+"/my_calls.jsonl.out"] = []byte(
		`{"modelInput":{},"modelOutput":{"output":{"message":{"role":"assistant","content":[{"text":"ok"}]}},"stopReason":"end_turn","usage":{"inputTokens":3,"outputTokens":2,"totalTokens":5}},"recordId":"two"}` + "\n" +
			`{"modelInput":{},"error":{"errorCode":400,"errorMessage":"bad request"},"recordId":"gwx726571756573742d31"}`)
	job["status"], job["endTime"], job["totalRecordCount"], job["successRecordCount"], job["errorRecordCount"] = "Completed", "2026-01-02T04:00:00Z", 2, 1, 1
	done := b.ask("GET", "/v1/batches/"+batch, "")
	if done.Get("status").Str != "completed" || done.Get("completed_at").Int() != 1767326400 || done.Get("request_counts.failed").Int() != 1 {
		t.Errorf("done: %s", done.Body)
	}
	b.aws.took()
	for _, path := range []string{"/v1/batches/" + batch + "/output", "/v1/files/" + done.Get("output_file_id").Str + "/content"} {
		got := b.ask("GET", path, "")
		first, second, _ := strings.Cut(got.Body, "\n")
		want := &gatewaytest.Answer{Body: first}
		if got.Status != 200 || want.Get("custom_id").Str != "two" || want.Get("response.status_code").Int() != 200 || want.Get("response.body.choices.0.message.content").Str != "ok" ||
			want.Get("response.body.usage.total_tokens").Int() != 5 || want.Get("response.body.model").Str != "anthropic.claude-x-v1:0" || want.Get("response.body.created").Int() != 1767323045 {
			t.Errorf("%s: %d %s", path, got.Status, first)
		}
		want.Body = second
		if want.Get("custom_id").Str != "request-1" || want.Get("response.status_code").Int() != 400 || want.Get("response.body.error.message").Str != "bad request" {
			t.Errorf("%s: %s", path, second)
		}
		if got.Header.Get("Content-Type") != "application/jsonl" || got.Header.Get("Etag") != "" {
			t.Errorf("%s: %v", path, got.Header)
		}
	}
	if calls := b.aws.took(); len(calls) != 3 {
		t.Errorf("it took %v", calls)
	}

	if got := b.ask("DELETE", "/v1/files/"+id, ""); got.Status != 200 || !got.Get("deleted").Bool() {
		t.Errorf("deleted: %d %s", got.Status, got.Body)
	}
	for _, method := range []string{"GET", "DELETE"} {
		if got := b.ask(method, "/v1/files/"+id, ""); got.Status != 404 || got.Get("error.type").Str != "not_found_error" || got.Get("provider").Str != "aws" {
			t.Errorf("%s after it was deleted: %d %s", method, got.Status, got.Body)
		}
	}
}

func TestBatchesOfBedrockAreListedAndCancelled(t *testing.T) {
	b := newBatcher(t)
	id := b.upload(field("purpose", "batch"), content("a.jsonl", line("1", "Hi"))).Get("id").Str
	for range 13 {
		b.ask("POST", "/v1/batches", `{"input_file_id":"`+id+`","endpoint":"/v1/chat/completions","completion_window":"7d","model":"amazon.nova-pro-v1:0"}`)
	}
	for _, limit := range []int{1, 2, 5, 12, 13, 14, 100} {
		var seen []string
		for after := ""; ; after = "&after=" + seen[len(seen)-1] {
			page := b.ask("GET", fmt.Sprintf("/v1/batches?limit=%d%s", limit, after), "")
			data := page.Get("data").Array()
			if page.Status != 200 || len(data) == 0 || page.Get("first_id").Str != data[0].Get("id").Str {
				t.Fatalf("limit %d%s: %d %s", limit, after, page.Status, page.Body)
			}
			for _, one := range data {
				seen = append(seen, one.Get("id").Str)
			}
			if page.Get("last_id").Str != seen[len(seen)-1] {
				t.Fatalf("limit %d%s: %s", limit, after, page.Body)
			}
			if more := page.Get("has_more").Bool(); more != (len(seen) < 13) || more && len(data) != limit {
				t.Fatalf("limit %d%s: %s", limit, after, page.Body)
			} else if !more {
				break
			}
		}
		for i, got := range seen {
			if want := fmt.Sprintf("job%09d", 12-i); got != want {
				t.Fatalf("limit %d: %v", limit, seen)
			}
		}
	}
	for path, status := range map[string]int{"/v1/batches?after=job999999999": 404, "/v1/batches?after=x": 400, "/v1/batches/nosuchjob000": 404, "/v1/batches/x": 400} {
		if got := b.ask("GET", path, ""); got.Status != status || got.Get("error.message").Str == "" {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
	b.aws.took()
	for status, want := range map[string]string{"InProgress": "cancelling", "Stopping": "cancelling", "Stopped": "cancelling", "Completed": "completed"} {
		b.aws.jobs[0]["status"] = status
		got := b.ask("POST", "/v1/batches/job000000012/cancel", "")
		if got.Status != 200 || got.Get("status").Str != want || want == "cancelling" && got.Get("cancelling_at").Int() == 0 {
			t.Errorf("cancelled when %s: %d %s", status, got.Status, got.Body)
		}
		if calls := b.aws.took(); !slices.Equal(calls, []string{"POST /model-invocation-job/job000000012/stop", "GET /model-invocation-job/job000000012"}) {
			t.Errorf("it took %v", calls)
		}
	}
}

func TestAnUploadToS3IsSentInPartsOrNotAtAll(t *testing.T) {
	b := newBatcher(t)
	long := strings.Repeat("w", 1<<20)
	var all strings.Builder
	for i := range 20 {
		all.WriteString(line(fmt.Sprint(i), long))
	}
	got := b.upload(field("purpose", "batch"), content("a.jsonl", all.String()))
	calls := b.aws.took()
	if got.Status != 200 || len(calls) != 5 { // begun, three parts, completed
		t.Errorf("%d %s after %v", got.Status, got.Body, calls)
	}
	for key, object := range b.aws.objects {
		if int64(len(object)) != got.Get("bytes").Int() || bytes.Count(object, []byte("\n")) != 20 || !strings.HasPrefix(key, "team/batch/anthropic.claude-x-v1!3A0/") {
			t.Errorf("%s has %d bytes", key, len(object))
		}
	}
	plain := b.upload(field("purpose", "user_data"), content("a.bin", all.String()))
	if plain.Status != 200 || plain.Get("bytes").Int() != int64(all.Len()) || plain.Get("filename").Str != "a.bin" {
		t.Errorf("as it is: %d %s", plain.Status, plain.Body)
	}
	if got := b.ask("GET", "/v1/files/"+plain.Get("id").Str+"/content", ""); got.Body != all.String() {
		t.Error("as it is: it comes back as something else")
	}
	if got := b.upload(content("a.jsonl", line("1", "Hi")), field("purpose", "batch")); got.Status != 200 {
		t.Errorf("the purpose last: %d %s", got.Status, got.Body)
	}
	if got := b.ask("GET", "/v1/files?limit=1&purpose=batch", ""); !got.Get("has_more").Bool() || len(got.Get("data").Array()) != 1 {
		t.Errorf("listed: %s", got.Body)
	} else if got = b.ask("GET", "/v1/files?purpose=batch&after="+got.Get("last_id").Str, ""); got.Get("has_more").Bool() || len(got.Get("data").Array()) != 1 {
		t.Errorf("listed: %s", got.Body)
	}

	before := len(b.aws.objects)
	for name, c := range map[string]struct {
		fields []string
		code   string
	}{
		"no JSON":           {[]string{field("purpose", "batch"), content("a", line("1", "Hi")+"{\n")}, "invalid_json_line"},
		"after two parts":   {[]string{field("purpose", "batch"), content("a", all.String()+"{\n")}, "invalid_json_line"},
		"another model":     {[]string{field("purpose", "batch"), content("a", line("1", "Hi")+strings.Replace(line("1", "Hi"), "claude", "x", 1))}, "mismatched_model"},
		"another endpoint":  {[]string{field("purpose", "batch"), content("a", strings.Replace(line("1", "Hi"), "chat/completions", "embeddings", 1))}, "invalid_url"},
		"no words for it":   {[]string{field("purpose", "batch"), content("a", strings.Replace(line("1", "Hi"), `"content":"Hi"`, `"content":[{"type":"image_url","image_url":{"url":"https://a.b/c.png"}}]`, 1))}, "unsupported_parameter"},
		"an empty file":     {[]string{field("purpose", "batch"), content("a", "\n\n")}, "empty_file"},
		"a line too long":   {[]string{field("purpose", "batch"), content("a", line("1", strings.Repeat("w", 9<<20)))}, "line_too_long"},
		"no purpose":        {[]string{content("a", "x")}, "missing_required_parameter"},
		"no file":           {[]string{field("purpose", "batch")}, "missing_required_parameter"},
		"the purpose late":  {[]string{content("a", all.String()), field("purpose", "batch")}, "purpose_after_file"},
		"output of nobody":  {[]string{field("purpose", "batch_output"), content("a", "x")}, "invalid_value"},
		"two files":         {[]string{field("purpose", "batch"), content("a", line("1", "Hi")), content("a", line("1", "Hi"))}, "invalid_form"},
		"a form cut off":    {[]string{field("purpose", "batch"), "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n" + line("1", "Hi")}, "invalid_form"},
		"an expiry":         {[]string{field("expires_after[seconds]", "3600"), field("purpose", "batch"), content("a", line("1", "Hi"))}, "unsupported_parameter"},
		"a purpose as path": {[]string{field("purpose", "../x"), content("a", "x")}, "invalid_value"},
	} {
		if got := b.upload(c.fields...); got.Status != 400 || got.Get("error.code").Str != c.code {
			t.Errorf("%s: %d %s", name, got.Status, got.Body)
		}
	}
	if len(b.aws.objects) != before {
		t.Error("something of them is kept")
	}

	const retried = `x-gw-config: {"provider":"@aws","retry":{"attempts":1,"on_status_codes":[503]}}`
	send := func(text string) *gatewaytest.Answer {
		b.aws.fails["PUT"] = 503
		return b.Do("POST", "/v1/files", field("purpose", "batch")+content("a", text)+"--b--\r\n", "x-gw-api-key: "+b.key, retried, "content-type:", "content-type: multipart/form-data; boundary=b")
	}
	if got := send(line("1", "Hi")); got.Status != 200 {
		t.Errorf("again: %d %s", got.Status, got.Body)
	}
	if got := send(all.String()); got.Status != 503 || got.Get("error.code").Str != "body_not_replayable" {
		t.Errorf("too large to be sent again: %d %s", got.Status, got.Body)
	}

	b.aws.fails["PUT"] = 403
	if got := b.upload(field("purpose", "batch"), content("a", all.String())); got.Status != 403 || got.Get("error.type").Str != "permission_error" || got.Get("error.code").Str != "AccessDenied" {
		t.Errorf("denied: %d %s", got.Status, got.Body)
	}
}

func TestFilesOfBedrockAreThoseOfItsFolder(t *testing.T) {
	b := newBatcher(t)
	const other = "czM6Ly9hbm90aGVyL3RlYW0vYmF0Y2gvLS91L2EuanNvbmw" // s3://another/team/batch/-/u/a.jsonl
	const above = "czM6Ly90aGUtYnVja2V0L290aGVyL2JhdGNoLy0vdS9hLmpzb25s"
	const dots = "czM6Ly90aGUtYnVja2V0L3RlYW0vYmF0Y2gvLi4vLi4vYS5qc29ubA"
	for _, id := range []string{other, above, dots, "!", "x"} {
		for _, call := range []string{"GET /v1/files/file-%s", "GET /v1/files/file-%s/content", "DELETE /v1/files/file-%s"} {
			method, path, _ := strings.Cut(fmt.Sprintf(call, id), " ")
			if got := b.ask(method, path, ""); got.Status != 400 || got.Get("error.code").Str != "invalid_file_id" {
				t.Errorf("%s %s: %d %s", method, path, got.Status, got.Body)
			}
		}
		got := b.ask("POST", "/v1/batches", `{"input_file_id":"file-`+id+`","endpoint":"/v1/chat/completions","completion_window":"24h"}`)
		if got.Status != 400 || got.Get("error.param").Str != "input_file_id" {
			t.Errorf("a batch of %s: %d %s", id, got.Status, got.Body)
		}
	}
	// What a caller says counts only with its own credential.
	up := b.upload(field("purpose", "user_data"), content("a", "x"))
	got := b.ask("GET", "/v1/files/"+up.Get("id").Str, "", "x-gw-aws-s3-bucket: mine", "x-gw-aws-region: us-east-1", "x-gw-aws-batch-role-arn: arn:aws:iam::999999999999:role/mine")
	if got.Status != 400 {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	if calls := b.aws.took(); len(calls) != 1 {
		t.Errorf("it took %v", calls)
	}
	own := func(path, keys string) *gatewaytest.Answer {
		return b.Do("GET", path, "", "x-gw-api-key: "+b.key, `x-gw-config: {"provider":"bedrock","custom_host":"`+b.aws.URL+`","aws_region":"eu-west-1","aws_s3_bucket":"the-bucket"`+keys+`}`)
	}
	if got := own("/v1/files", `,"aws_access_key_id":"AKID","aws_secret_access_key":"the-secret"`); got.Status != 200 || len(got.Get("data").Array()) != 0 {
		t.Errorf("a host and a folder of one's own: %d %s", got.Status, got.Body)
	}
	if got := own("/v1/files", `,"aws_access_key_id":"AKID","aws_secret_access_key":"the-secret","aws_role_arn":"role/x"`); got.Status != 400 || got.Get("error.param").Str != "x-gw-aws-role-arn" {
		t.Errorf("a role that is none: %d %s", got.Status, got.Body)
	}
	got = b.Do("GET", "/v1/files", "", "x-gw-api-key: "+b.key, "x-gw-provider: bedrock", "authorization: Bearer a-bedrock-key", "x-gw-custom-host: "+b.aws.URL, "x-gw-aws-region: eu-west-1", "x-gw-aws-s3-bucket: the-bucket")
	if got.Status != 400 || got.Get("error.param").Str != "x-gw-aws-access-key-id" {
		t.Errorf("S3 with an API key of Bedrock's: %d %s", got.Status, got.Body)
	}
}
