package bedrock

import (
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A batch is a job in the form of OpenAI's batches.
type batch struct {
	ID, Model, Status, Message string
	Hours                      int64
	Input, Output              string // ids of files
	Created, Expires           int64  // Unix seconds; 0: not known
	Ended, Cancelling          int64
	Total, Completed, Failed   int64
	Counted                    bool
	Metadata                   string // JSON
}

// statuses maps the states of jobs to those of OpenAI's batches. A job that reached its
// time limit keeps the results that it has, like an expired batch.
var statuses = map[string]string{
	"Submitted":          "validating",
	"Validating":         "validating",
	"Scheduled":          "in_progress",
	"InProgress":         "in_progress",
	"Completed":          "completed",
	"PartiallyCompleted": "expired",
	"Expired":            "expired",
	"Failed":             "failed",
	"Stopping":           "cancelling",
	"Stopped":            "cancelled",
}

// readJob reads a job, or the summary of one.
func readJob(job gjson.Result) batch {
	b := batch{
		ID: lastPart(job.Get("jobArn").Str), Model: job.Get("modelId").Str, Message: job.Get("message").Str,
		Hours: job.Get("timeoutDurationInHours").Int(), Created: instant(job.Get("submitTime")), Expires: instant(job.Get("jobExpirationTime")),
		Ended: instant(job.Get("endTime")),
		Total: job.Get("totalRecordCount").Int(), Completed: job.Get("successRecordCount").Int(), Failed: job.Get("errorRecordCount").Int(),
		Counted: job.Get("totalRecordCount").Exists(),
	}
	word := job.Get("status").Str
	if b.Status = statuses[word]; b.Status == "" {
		b.Status = "in_progress" // a state that is newer than this code
	}
	if b.Hours == 0 {
		b.Hours = 24 // Bedrock's default
	}
	if b.Ended == 0 {
		b.Ended = instant(job.Get("lastModifiedTime"))
	}
	if b.Status == "cancelling" {
		b.Cancelling = instant(job.Get("lastModifiedTime"))
	}
	input := job.Get("inputDataConfig.s3InputDataConfig.s3Uri").Str
	b.Input = fileID(input)
	output := job.Get("outputDataConfig.s3OutputDataConfig.s3Uri").Str
	ended := word == "Completed" || word == "PartiallyCompleted" || (word == "Stopped" || word == "Expired") && b.Completed+b.Failed > 0
	if ended && strings.HasSuffix(input, ".jsonl") && output != "" {
		b.Output = fileID(strings.TrimSuffix(output, "/") + "/" + b.ID + "/" + lastPart(input) + ".out")
	}
	return b
}

// cancelling marks a batch that was just told to stop, because Bedrock may report it later.
func (b *batch) cancelling(now int64) {
	switch b.Status {
	case "completed", "failed", "expired":
		return
	}
	b.Status = "cancelling"
	if b.Cancelling == 0 {
		b.Cancelling = now
	}
}

// instant returns a time in Unix seconds, or 0 if there is none.
func instant(v gjson.Result) int64 {
	if v.Type == gjson.Number {
		return v.Int()
	}
	t, err := time.Parse(time.RFC3339, v.Str)
	if err != nil {
		return 0
	}
	return t.Unix()
}

func (b *batch) append(dst []byte) []byte {
	w := jsonscan.Builder(dst)
	w.Open('{')
	w.Key("id").Text(b.ID)
	w.Key("object").Text("batch")
	w.Key("endpoint").Text(batchedURL)
	w.Key("model").Text(b.Model)
	if b.Message != "" && (b.Status == "failed" || b.Status == "expired") {
		w.Key("errors").Open('{')
		w.Key("object").Text("list")
		w.Key("data").Open('[')
		w.Open('{')
		w.Key("code").Text("batch_" + b.Status)
		w.Key("message").Text(b.Message)
		w.Key("param").Raw([]byte("null"))
		w.Key("line").Raw([]byte("null"))
		w.Close('}')
		w.Close(']')
		w.Close('}')
	}
	w.Key("input_file_id").Text(b.Input)
	w.Key("completion_window").Text(strconv.FormatInt(b.Hours, 10) + "h")
	w.Key("status").Text(b.Status)
	if b.Output != "" {
		w.Key("output_file_id").Text(b.Output)
	}
	w.Key("created_at").Int(b.Created)
	if b.Expires != 0 {
		w.Key("expires_at").Int(b.Expires)
	}
	if b.Cancelling != 0 {
		w.Key("cancelling_at").Int(b.Cancelling)
	}
	switch b.Status {
	case "completed", "failed", "expired", "cancelled":
		if b.Ended != 0 {
			w.Key(b.Status + "_at").Int(b.Ended)
		}
	}
	if b.Counted {
		w.Key("request_counts").Open('{')
		w.Key("total").Int(b.Total)
		w.Key("completed").Int(b.Completed)
		w.Key("failed").Int(b.Failed)
		w.Close('}')
	}
	if b.Metadata != "" {
		w.Key("metadata").Raw([]byte(b.Metadata))
	}
	w.Close('}')
	return w
}
