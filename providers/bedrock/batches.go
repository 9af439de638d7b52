package bedrock

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

var (
	validJob  = regexp.MustCompile(`^[a-z0-9]{12}$`)
	validRole = regexp.MustCompile(`^arn:aws(-[^:]+)?:iam::[0-9]{12}:role/.+$`)
	validTag  = regexp.MustCompile(`^[a-zA-Z0-9\s._:/=+@-]*$`)
)

// control returns a request to Bedrock's control plane, which manages jobs.
func control(c *providers.Call, method, path string, query url.Values, body []byte) *providers.Request {
	if body == nil {
		body = []byte{}
	}
	return &providers.Request{
		Method: method, URL: providers.URL(sibling(c.Base, service), path, query.Encode()), Body: body,
		Header: http.Header{"Accept": {mediaJSON}, "Anthropic-Beta": nil},
		Answer: &providers.Answer{Failure: readFailure},
	}
}

// jobOf returns the batch id in the path, which is the last part of the job's ARN.
func jobOf(c *providers.Call) (string, error) {
	id, _, _ := strings.Cut(strings.TrimPrefix(c.Path, "/batches/"), "/")
	return id, checkJob(id, "batch_id")
}

func checkJob(id, param string) error {
	if !validJob.MatchString(id) {
		return &providers.RequestError{Param: param, Code: "invalid_batch_id", Message: "Invalid '" + param + "': expected the id of a batch of this provider, of 12 letters and digits."}
	}
	return nil
}

// createBatch creates a job from a file that was uploaded for a batch.
func createBatch(c *providers.Call) (*providers.Request, error) {
	to, err := folderOf(c)
	if err != nil {
		return nil, err
	}
	asked := gjson.ParseBytes(c.Body)
	if v := asked.Get("output_expires_after"); v.Exists() && v.Type != gjson.Null {
		return nil, &providers.RequestError{Param: "output_expires_after", Code: "unsupported_parameter", Message: "'output_expires_after' is not supported: rules of the bucket say how long S3 keeps a file"}
	}
	if e := asked.Get("endpoint").Str; e != batchedURL {
		return nil, &providers.RequestError{Param: "endpoint", Code: "endpoint_not_supported", Message: "Batches of provider " + c.Provider.Name + " are for " + batchedURL + " only"}
	}
	input, err := to.file(asked.Get("input_file_id").Str, "input_file_id")
	if err != nil {
		return nil, err
	}
	if input.purpose != purposeBatch {
		return nil, &providers.RequestError{Param: "input_file_id", Code: "invalid_purpose", Message: "The file was not uploaded with purpose batch"}
	}
	hours, err := window(asked.Get("completion_window").Str)
	if err != nil {
		return nil, err
	}
	role := c.Setting("aws_batch_role_arn")
	switch {
	case role == "":
		return nil, c.Provider.Missing("aws_batch_role_arn")
	case !validRole.MatchString(role):
		return nil, &providers.RequestError{Param: "x-gw-aws-batch-role-arn", Code: "invalid_setting", Message: "Invalid aws_batch_role_arn: expected the ARN of a role"}
	}
	metadata := asked.Get("metadata")
	model := c.Model
	for _, m := range []string{input.model, metadata.Get("model").Str, c.Setting("aws_bedrock_model")} {
		if model == "" {
			model = m
		}
	}
	if model == "" {
		return nil, &providers.RequestError{Param: "model", Code: "missing_required_parameter", Message: "The batch has no model: name it in the lines of its file, or as 'model'"}
	}
	output := file{folder: to, purpose: purposeOutput, model: model, unique: "x", name: "x"}
	body, err := newJob(c, model, role, hours, metadata, "s3://"+to.bucket+"/"+input.key(), "s3://"+to.bucket+"/"+strings.TrimSuffix(output.key(), "x/x"))
	if err != nil {
		return nil, err
	}
	r := control(c, http.MethodPost, "/model-invocation-job", nil, body)
	r.Answer.Body = func(dst, body []byte, _ http.Header) ([]byte, error) {
		made := batch{
			ID: lastPart(gjson.GetBytes(body, "jobArn").Str), Model: model, Status: "validating", Hours: hours,
			Input: input.id(), Created: c.Now.Unix(), Expires: c.Now.Add(time.Duration(hours) * time.Hour).Unix(), Metadata: metadata.Raw,
		}
		return made.append(dst), nil
	}
	return r, nil
}

// window converts a duration such as 24h or 7d to hours. A job may take from a day to a
// week.
func window(s string) (hours int64, err error) {
	n, unit := s, ""
	if s != "" {
		n, unit = s[:len(s)-1], s[len(s)-1:]
	}
	hours, err = strconv.ParseInt(n, 10, 16)
	if unit == "d" {
		hours *= 24
	}
	if err != nil || unit != "h" && unit != "d" || hours < 24 || hours > 168 {
		return 0, &providers.RequestError{Param: "completion_window", Code: "invalid_value", Message: "Invalid 'completion_window': expected 24h to 168h, or 1d to 7d."}
	}
	return hours, nil
}

// newJob writes the request that creates a job. The batch's metadata becomes the job's
// tags.
func newJob(c *providers.Call, model, role string, hours int64, metadata gjson.Result, input, output string) ([]byte, error) {
	token := c.NewID()
	if key := c.Header("Idempotency-Key"); key != "" { // chosen by the caller to identify this batch
		sum := sha256.Sum256([]byte(key + "\n" + model + "\n" + input))
		token = hex.EncodeToString(sum[:16])
	}
	b := jsonscan.Builder(make([]byte, 0, 1024))
	b.Open('{')
	b.Key("jobName").Text("gateway-" + token)
	b.Key("clientRequestToken").Text(token)
	b.Key("modelId").Text(model)
	b.Key("modelInvocationType").Text("Converse")
	b.Key("roleArn").Text(role)
	b.Key("inputDataConfig").Open('{')
	b.Key("s3InputDataConfig").Open('{')
	b.Key("s3InputFormat").Text("JSONL")
	b.Key("s3Uri").Text(input)
	b.Close('}')
	b.Close('}')
	b.Key("outputDataConfig").Open('{')
	b.Key("s3OutputDataConfig").Open('{')
	b.Key("s3Uri").Text(output)
	b.Close('}')
	b.Close('}')
	b.Key("timeoutDurationInHours").Int(hours)
	var err error
	open := false
	metadata.ForEach(func(key, v gjson.Result) bool {
		if key.Str == "" || len(v.Str) > 256 || !validTag.MatchString(key.Str) || !validTag.MatchString(v.Str) {
			err = &providers.RequestError{
				Param: "metadata." + key.Str, Code: "invalid_value",
				Message: "The metadata of a batch become tags of AWS's, which have up to 256 letters, digits, spaces and . _ : / = + @ -",
			}
			return false
		}
		if !open {
			b.Key("tags").Open('[')
			open = true
		}
		b.Open('{')
		b.Key("key").Text(key.Str)
		b.Key("value").Text(v.Str)
		b.Close('}')
		return true
	})
	if open {
		b.Close(']')
	}
	b.Close('}')
	return b, err
}

func retrieveBatch(c *providers.Call) (*providers.Request, error) {
	id, err := jobOf(c)
	if err != nil {
		return nil, err
	}
	r := control(c, http.MethodGet, "/model-invocation-job/"+id, nil, nil)
	r.Answer.Body = func(dst, body []byte, _ http.Header) ([]byte, error) {
		b := readJob(gjson.ParseBytes(body))
		return b.append(dst), nil
	}
	return r, nil
}

// cancelBatch stops a job, which returns nothing, and then asks for the job's state.
func cancelBatch(c *providers.Call) (*providers.Request, error) {
	id, err := jobOf(c)
	if err != nil {
		return nil, err
	}
	r := control(c, http.MethodPost, "/model-invocation-job/"+id+"/stop", nil, nil)
	r.Answer.Then = func(now time.Time, _ []byte, _ http.Header) (*providers.Request, error) {
		r := control(c, http.MethodGet, "/model-invocation-job/"+id, nil, nil)
		r.Answer.Body = func(dst, body []byte, _ http.Header) ([]byte, error) {
			b := readJob(gjson.ParseBytes(body))
			b.cancelling(now.Unix())
			return b.append(dst), nil
		}
		return r, nil
	}
	return r, nil
}

func lastPart(arn string) string { return arn[strings.LastIndexByte(arn, '/')+1:] }
