package handlers_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// An amazon is a fake of AWS: a bucket, and the jobs of Bedrock's control plane. It
// refuses what is not signed as it should be.
type amazon struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	objects map[string][]byte
	parts   map[string][]byte // of uploads in parts, by key
	jobs    []map[string]any  // the latest first
	calls   []string
	fails   map[string]int // by method and path
}

// signed checks a signature, computed from the algorithm's text, and returns the service.
func (a *amazon) signed(r *http.Request, body []byte) string {
	m := authorization.FindStringSubmatch(r.Header.Get("Authorization"))
	if m == nil {
		a.t.Errorf("%s %s: not signed: %s", r.Method, r.URL, r.Header.Get("Authorization"))
		return ""
	}
	digest := func(b []byte) string { s := sha256.Sum256(b); return hex.EncodeToString(s[:]) }
	keyed := func(key []byte, s string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(s))
		return h.Sum(nil)
	}
	path := r.URL.EscapedPath()
	if m[2] == "bedrock" {
		path = strings.ReplaceAll(path, "%", "%25")
	} else if r.Header.Get("X-Amz-Content-Sha256") != digest(body) {
		a.t.Errorf("%s %s: the digest of another body", r.Method, r.URL)
	}
	canonical := r.Method + "\n" + path + "\n" + r.URL.RawQuery + "\n"
	names := strings.Split(m[3], ";")
	for _, name := range names {
		v := r.Header.Get(name)
		if name == "host" {
			v = r.Host
		}
		canonical += name + ":" + v + "\n"
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Amz-") && !slices.Contains(names, strings.ToLower(name)) {
			a.t.Errorf("%s %s: %s is not signed", r.Method, r.URL, name)
		}
	}
	canonical += "\n" + m[3] + "\n" + digest(body)
	scope := m[1] + "/eu-west-1/" + m[2] + "/aws4_request"
	key := []byte("AWS4the-secret")
	for _, s := range strings.Split(scope, "/") {
		key = keyed(key, s)
	}
	if want := hex.EncodeToString(keyed(key, "AWS4-HMAC-SHA256\n"+r.Header.Get("X-Amz-Date")+"\n"+scope+"\n"+digest([]byte(canonical)))); want != m[4] {
		a.t.Errorf("%s %s: wrong signature of\n%s", r.Method, r.URL, canonical)
	}
	return m[2]
}

func (a *amazon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	service := a.signed(r, body)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, strings.TrimSuffix(r.Method+" "+r.URL.Path, "/"))
	if status := a.fails[r.Method]; status != 0 {
		if status == 503 { // once
			delete(a.fails, r.Method)
		}
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, `<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>no</Message></Error>`)
		return
	}
	if service == "s3" {
		a.s3(w, r, body)
		return
	}
	a.job(w, r, body)
}

func (a *amazon) s3(w http.ResponseWriter, r *http.Request, body []byte) {
	key, ok := strings.CutPrefix(r.URL.Path, "/the-bucket")
	if !ok {
		a.t.Errorf("another bucket: %s", r.URL)
	}
	key = strings.TrimPrefix(key, "/")
	query := r.URL.Query()
	w.Header().Set("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id", "arn:of-a-key")
	object, there := a.objects[key]
	switch {
	case key == "":
		var list struct {
			XMLName     xml.Name `xml:"ListBucketResult"`
			IsTruncated bool
			Contents    []any
		}
		var keys []string
		for k := range a.objects {
			if strings.HasPrefix(k, query.Get("prefix")) && k > query.Get("start-after") {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		if query.Get("max-keys") == "1" && len(keys) > 1 {
			keys, list.IsTruncated = keys[:1], true
		}
		for _, k := range keys {
			list.Contents = append(list.Contents, struct {
				Key, LastModified string
				Size              int
			}{k, "2026-01-02T03:04:05.000Z", len(a.objects[k])})
		}
		_ = xml.NewEncoder(w).Encode(list)
	case r.Method == "POST" && query.Has("uploads"):
		_, _ = fmt.Fprint(w, `<InitiateMultipartUploadResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><UploadId>up/1</UploadId></InitiateMultipartUploadResult>`)
	case r.Method == "PUT" && query.Has("partNumber"):
		if query.Get("uploadId") != "up/1" {
			a.t.Errorf("another upload: %s", r.URL)
		}
		a.parts[key] = append(a.parts[key], body...)
		w.Header().Set("ETag", `"part-`+query.Get("partNumber")+`"`)
	case r.Method == "POST":
		if !bytes.Contains(body, []byte(`<Part><PartNumber>1</PartNumber><ETag>&#34;part-1&#34;</ETag></Part>`)) {
			a.t.Errorf("completed with %s", body)
		}
		a.objects[key] = a.parts[key]
		_, _ = fmt.Fprint(w, `<CompleteMultipartUploadResult></CompleteMultipartUploadResult>`)
	case r.Method == "DELETE":
		if query.Has("uploadId") {
			delete(a.parts, key)
		}
		delete(a.objects, key)
		w.WriteHeader(204)
	case r.Method == "PUT":
		a.objects[key] = body
	case !there:
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(404)
		_, _ = fmt.Fprint(w, `<?xml version="1.0"?><Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>`)
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT")
		w.Header().Set("Etag", `"of-the-object"`)
		w.Header().Set("Content-Length", fmt.Sprint(len(object)))
		_, _ = w.Write(object)
	}
}

func (a *amazon) job(w http.ResponseWriter, r *http.Request, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	if r.URL.Path == "/model-invocation-job" {
		job := make(map[string]any)
		if err := json.Unmarshal(body, &job); err != nil {
			a.t.Errorf("a job of %s", body)
		}
		if job["modelInvocationType"] != "Converse" || job["roleArn"] != "arn:aws:iam::123456789012:role/batches" {
			a.t.Errorf("a job of %s", body)
		}
		job["jobArn"], job["status"] = arn+fmt.Sprintf("job%09d", len(a.jobs)), "Submitted"
		job["submitTime"] = fmt.Sprintf("2026-01-02T03:04:%02d.500Z", len(a.jobs)/3)
		a.jobs = slices.Insert(a.jobs, 0, job)
		answer(map[string]any{"jobArn": job["jobArn"]})
		return
	}
	if r.URL.Path == "/model-invocation-jobs" {
		query := r.URL.Query()
		if query.Get("sortOrder") != "Descending" {
			a.t.Errorf("listed as %s", r.URL)
		}
		from, size := 0, 0
		_, _ = fmt.Sscan(query.Get("nextToken"), &from)
		_, _ = fmt.Sscan(query.Get("maxResults"), &size)
		jobs := slices.DeleteFunc(slices.Clone(a.jobs), func(j map[string]any) bool {
			before := query.Get("submitTimeBefore")
			return before != "" && strings.TrimSuffix(j["submitTime"].(string), "Z") >= strings.TrimSuffix(before, "Z")
		})
		size = min(size, 4) // it may have its own bound
		page := map[string]any{"invocationJobSummaries": jobs[from:min(from+size, len(jobs))]}
		if from+size < len(jobs) {
			page["nextToken"] = fmt.Sprint(from + size)
		}
		answer(page)
		return
	}
	id := strings.TrimPrefix(r.URL.Path, "/model-invocation-job/")
	id, stop := strings.CutSuffix(id, "/stop")
	for _, job := range a.jobs {
		if job["jobArn"] == arn+id {
			if stop {
				answer(map[string]any{})
				return
			}
			answer(job)
			return
		}
	}
	w.Header().Set("X-Amzn-Errortype", "ResourceNotFoundException")
	w.WriteHeader(404)
	answer(map[string]any{"message": "no such job"})
}

func (a *amazon) took() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	calls := a.calls
	a.calls = nil
	return calls
}

func newAmazon(t *testing.T) *amazon {
	a := &amazon{t: t, objects: make(map[string][]byte), parts: make(map[string][]byte), fails: make(map[string]int)}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

var authorization = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=AKID/(\d{8})/eu-west-1/(s3|bedrock)/aws4_request, SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$`)

const arn = "arn:aws:bedrock:eu-west-1:123456789012:model-invocation-job/"
