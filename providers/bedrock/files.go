package bedrock

import (
	"encoding/xml"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-gw/gateway/internal/jsonscan"
	"github.com/caddy-gw/gateway/providers"
)

// asked is the file that a path names: /files/<id>, or /files/<id>/content.
func asked(c *providers.Call) (file, error) {
	f, err := folderOf(c)
	if err != nil {
		return file{}, err
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(c.Path, "/files/"), "/")
	return f.file(id, "file_id")
}

func retrieveFile(c *providers.Call) (*providers.Request, error) {
	f, err := asked(c)
	if err != nil {
		return nil, err
	}
	r := f.s3(c, http.MethodHead, f.key(), nil, nil)
	r.Answer.Whole = func(dst, _ []byte, h http.Header) ([]byte, error) {
		b := jsonscan.Builder(dst)
		size, _ := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
		created, _ := http.ParseTime(h.Get("Last-Modified"))
		f.append(&b, size, created)
		return b, nil
	}
	return r, nil
}

// append writes the file as OpenAI has it. Its size is that of what is kept.
func (f file) append(b *jsonscan.Builder, size int64, created time.Time) {
	b.Open('{')
	b.Key("id").Text(f.id())
	b.Key("object").Text("file")
	b.Key("bytes").Int(size)
	b.Key("created_at").Int(max(0, created.Unix()))
	b.Key("filename").Text(f.name)
	b.Key("purpose").Text(f.purpose)
	b.Key("status").Text("processed")
	b.Close('}')
}

// fileContent is the object as it is kept, save for what a job made, which becomes the
// output of a batch as it streams.
func fileContent(c *providers.Call) (*providers.Request, error) {
	f, err := asked(c)
	if err != nil {
		return nil, err
	}
	r := f.s3(c, http.MethodGet, f.key(), nil, nil)
	r.Answer.Begin = func(h http.Header) {
		withoutAmazons(h)
		h["Content-Type"] = []string{"application/octet-stream"} // whatever somebody else says of it
	}
	if f.results() {
		out := &results{file: f, provider: c.Provider.Name, strict: c.Strict}
		r.Answer.Stream, r.Answer.Media = out, "application/jsonl"
		r.Answer.Begin = func(h http.Header) {
			withoutAmazons(h)
			out.created, _ = http.ParseTime(h.Get("Last-Modified"))
		}
	}
	return r, nil
}

// deleteFile looks first whether there is such a file: S3 deletes what is not there, too.
func deleteFile(c *providers.Call) (*providers.Request, error) {
	f, err := asked(c)
	if err != nil {
		return nil, err
	}
	r := f.s3(c, http.MethodHead, f.key(), nil, nil)
	r.Answer.Then = func(time.Time, []byte, http.Header) (*providers.Request, error) {
		r := f.s3(c, http.MethodDelete, f.key(), nil, nil)
		r.Answer.Whole = func(dst, _ []byte, _ http.Header) ([]byte, error) {
			b := jsonscan.Builder(dst)
			b.Open('{')
			b.Key("id").Text(f.id())
			b.Key("object").Text("file")
			b.Key("deleted").Bool(true)
			b.Close('}')
			return b, nil
		}
		return r, nil
	}
	return r, nil
}

// maxKeys is the most that S3 lists at once.
const maxKeys = 1000

// listFiles lists the folder, in the order of its keys, which is the only one that S3 has.
func listFiles(c *providers.Call) (*providers.Request, error) {
	f, err := folderOf(c)
	if err != nil {
		return nil, err
	}
	asked, _ := url.ParseQuery(c.Query)
	query := url.Values{"list-type": {"2"}, "max-keys": {strconv.Itoa(maxKeys)}, "prefix": {f.prefix + "/"}}
	if v := asked.Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > 10_000 {
			return nil, &providers.Refusal{Param: "limit", Code: "invalid_value", Message: "Invalid 'limit': expected a whole number from 1 to 10000."}
		}
		query.Set("max-keys", strconv.Itoa(min(n, maxKeys)))
	}
	if purpose := asked.Get("purpose"); purpose != "" {
		if !validPurpose.MatchString(purpose) {
			return nil, &providers.Refusal{Param: "purpose", Code: "invalid_value", Message: "Invalid 'purpose': expected a word such as batch."}
		}
		query.Set("prefix", f.prefix+"/"+purpose+"/")
	}
	if after := asked.Get("after"); after != "" {
		last, err := f.file(after, "after")
		if err != nil {
			return nil, err
		}
		query.Set("start-after", last.key())
	}
	r := f.s3(c, http.MethodGet, "", query, nil)
	r.Answer.Whole = func(dst, body []byte, _ http.Header) ([]byte, error) { return f.appendList(dst, body) }
	return r, nil
}

func (f folder) appendList(dst, body []byte) ([]byte, error) {
	var listed struct {
		XMLName     xml.Name `xml:"ListBucketResult"`
		IsTruncated bool
		Contents    []struct {
			Key          string
			Size         int64
			LastModified time.Time
		}
	}
	if err := xml.Unmarshal(body, &listed); err != nil {
		return dst, errors.New("it is no list of a bucket's objects")
	}
	first, last := "", ""
	b := jsonscan.Builder(dst)
	b.Open('{')
	b.Key("object").Text("list")
	b.Key("data").Open('[')
	for _, o := range listed.Contents {
		item, ok := f.parse(o.Key)
		if !ok {
			continue // no file of the gateway's
		}
		if last = item.id(); first == "" {
			first = last
		}
		item.append(&b, o.Size, o.LastModified)
	}
	b.Close(']')
	b.Key("first_id")
	textOrNull(&b, first)
	b.Key("last_id")
	textOrNull(&b, last)
	b.Key("has_more").Bool(listed.IsTruncated && last != "")
	b.Close('}')
	return b, nil
}

func textOrNull(b *jsonscan.Builder, s string) {
	if s == "" {
		b.Raw([]byte("null"))
		return
	}
	b.Text(s)
}
