package bedrock

import (
	"encoding/xml"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// asked returns the file that a path names: /files/<id>, or /files/<id>/content.
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
	r.Answer.Body = func(dst, _ []byte, h http.Header) ([]byte, error) {
		b := jsonscan.Builder(dst)
		size, _ := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
		created, _ := http.ParseTime(h.Get("Last-Modified"))
		f.append(&b, size, created)
		return b, nil
	}
	return r, nil
}

// append writes the file object in OpenAI's form. Its size is the size of the stored
// object.
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

// fileContent returns the object unchanged, unless a job wrote it: then it is converted to
// the output of a batch while it streams.
func fileContent(c *providers.Call) (*providers.Request, error) {
	f, err := asked(c)
	if err != nil {
		return nil, err
	}
	r := f.s3(c, http.MethodGet, f.key(), nil, nil)
	r.Answer.Begin = func(h http.Header) {
		withoutAmazons(h)
		h["Content-Type"] = []string{"application/octet-stream"} // regardless of the object's stored type
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

// deleteFile checks first that the file exists, because S3 also confirms the deletion of
// missing objects.
func deleteFile(c *providers.Call) (*providers.Request, error) {
	f, err := asked(c)
	if err != nil {
		return nil, err
	}
	r := f.s3(c, http.MethodHead, f.key(), nil, nil)
	r.Answer.Then = func(time.Time, []byte, http.Header) (*providers.Request, error) {
		r := f.s3(c, http.MethodDelete, f.key(), nil, nil)
		r.Answer.Body = func(dst, _ []byte, _ http.Header) ([]byte, error) {
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

// maxKeys is the largest page that S3 returns.
const maxKeys = 1000

// listFiles lists the folder in the order of its keys, which is the only order that S3
// supports.
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
			return nil, &providers.RequestError{Param: "limit", Code: "invalid_value", Message: "Invalid 'limit': expected a whole number from 1 to 10000."}
		}
		query.Set("max-keys", strconv.Itoa(min(n, maxKeys)))
	}
	if purpose := asked.Get("purpose"); purpose != "" {
		if !validPurpose.MatchString(purpose) {
			return nil, &providers.RequestError{Param: "purpose", Code: "invalid_value", Message: "Invalid 'purpose': expected a word such as batch."}
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
	r.Answer.Body = func(dst, body []byte, _ http.Header) ([]byte, error) { return f.appendList(dst, body) }
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
		return dst, errors.New("it is not a list of a bucket's objects")
	}
	first, last := "", ""
	b := jsonscan.Builder(dst)
	b.Open('{')
	b.Key("object").Text("list")
	b.Key("data").Open('[')
	for _, o := range listed.Contents {
		item, ok := f.parse(o.Key)
		if !ok {
			continue // not a file of the gateway's
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
