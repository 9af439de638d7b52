package bedrock

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

const (
	defaultBatches = 20
	maxPages       = 20
	spare          = 100 // jobs that may have been submitted in the same second as the one before
)

// A listing lists the batches after a given one, the latest first. Bedrock's pages continue
// from a token, which cannot be derived from a batch: the listing starts at the submission
// time of the batch instead, and skips the jobs before it.
type listing struct {
	c      *providers.Call
	limit  int
	after  string
	before string // the time, in the query's form
	found  bool   // after has been found
	pages  int
	jobs   []gjson.Result
	more   bool
}

func listBatches(c *providers.Call) (*providers.Request, error) {
	asked, _ := url.ParseQuery(c.Query)
	l := &listing{c: c, limit: defaultBatches, after: asked.Get("after")}
	if n, err := strconv.Atoi(asked.Get("limit")); err == nil { // the endpoint's table of parameters bounds it
		l.limit = min(max(n, 1), 100)
	}
	if l.after == "" {
		l.found = true
		return l.page(""), nil
	}
	if err := checkJob(l.after, "after"); err != nil {
		return nil, err
	}
	r := control(c, http.MethodGet, "/model-invocation-job/"+l.after, nil, nil)
	r.Answer.Then = func(_ time.Time, body []byte, _ http.Header) (*providers.Request, error) {
		at := instant(gjson.GetBytes(body, "submitTime"))
		l.before = time.Unix(at+1, 0).UTC().Format(time.RFC3339)
		return l.page(""), nil
	}
	return r, nil
}

func (l *listing) page(token string) *providers.Request {
	l.pages++
	query := url.Values{"sortBy": {"CreationTime"}, "sortOrder": {"Descending"}, "maxResults": {strconv.Itoa(l.limit)}}
	if l.before != "" {
		query.Set("submitTimeBefore", l.before)
		query.Set("maxResults", strconv.Itoa(l.limit+spare))
	}
	if token != "" {
		query.Set("nextToken", token)
	}
	r := control(l.c, http.MethodGet, "/model-invocation-jobs", query, nil)
	r.Answer.Then = func(_ time.Time, body []byte, _ http.Header) (*providers.Request, error) {
		answer := gjson.ParseBytes(body)
		token := answer.Get("nextToken").Str
		l.more = false
		answer.Get("invocationJobSummaries").ForEach(func(_, job gjson.Result) bool {
			switch {
			case !l.found:
				l.found = lastPart(job.Get("jobArn").Str) == l.after
			case len(l.jobs) == l.limit:
				l.more = true
			default:
				l.jobs = append(l.jobs, job)
			}
			return !l.more
		})
		l.more = l.more || token != ""
		if len(l.jobs) == l.limit || token == "" || l.pages == maxPages {
			return nil, nil // the current answer is the last one
		}
		return l.page(token), nil
	}
	r.Answer.Body = func(dst, _ []byte, _ http.Header) ([]byte, error) { return l.append(dst), nil }
	return r
}

func (l *listing) append(dst []byte) []byte {
	b := jsonscan.Builder(dst)
	b.Open('{')
	b.Key("object").Text("list")
	b.Key("data").Open('[')
	first, last := "", ""
	for i, job := range l.jobs {
		one := readJob(job)
		if last = one.ID; i == 0 {
			first = last
		}
		b.Raw(one.append(nil))
	}
	b.Close(']')
	b.Key("first_id")
	textOrNull(&b, first)
	b.Key("last_id")
	textOrNull(&b, last)
	b.Key("has_more").Bool(l.more)
	b.Close('}')
	return b
}
