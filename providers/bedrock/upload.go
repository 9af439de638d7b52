package bedrock

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-gw/gateway/internal/jsonscan"
	"github.com/caddy-gw/gateway/providers"
)

// partSize is how much of a file is sent at once. S3 wants five mebibytes in each part but
// the last, and takes ten thousand.
const partSize = 8 << 20

// A source is the content of a file as it is kept, piece by piece. last: nothing follows.
type source interface {
	chunk() (b []byte, last bool, err error)
}

// An upload is a file on its way to S3: in one request where one part holds it, or else in
// parts, of which memory holds one. What is not completed S3 keeps hidden, until a rule of
// the bucket takes it away.
type upload struct {
	file
	c     *providers.Call
	form  *form
	src   source
	id    string // of the upload in parts
	tags  []string
	size  int64
	final bool // the latest part is the last one
}

func uploadFile(c *providers.Call) (*providers.Request, error) {
	to, err := folderOf(c)
	if err != nil {
		return nil, err
	}
	form, err := openForm(c)
	if err != nil {
		return nil, err
	}
	content, err := form.file()
	if err != nil {
		return nil, err
	}
	u := &upload{c: c, form: form, file: file{folder: to, purpose: form.purpose, unique: c.NewID(), name: form.name}}
	if form.purpose == purposeBatch {
		if !strings.HasSuffix(u.name, ".jsonl") {
			u.name += ".jsonl" // or no job would read it
		}
		u.src = newLines(c, content)
	} else {
		u.src = &plainFile{content}
	}
	part, err := u.next()
	if err != nil {
		return nil, err
	}
	if l, ok := u.src.(*lines); ok {
		u.model = l.model
	}
	if !u.final {
		return u.begin(part), nil
	}
	r := u.s3(c, http.MethodPut, u.key(), nil, part)
	r.Header["Content-Type"] = []string{"application/octet-stream"}
	r.Answer.Whole = u.done
	return r, nil
}

// next is the next part.
func (u *upload) next() (part []byte, err error) {
	if part, u.final, err = u.src.chunk(); err == nil && u.final {
		err = u.form.rest()
	}
	u.size += int64(len(part))
	return part, u.form.fault(err)
}

func (u *upload) done(dst, _ []byte, _ http.Header) ([]byte, error) {
	b := jsonscan.Builder(dst)
	u.append(&b, u.size, u.c.Now)
	return b, nil
}

// begin opens an upload in parts.
func (u *upload) begin(part []byte) *providers.Request {
	r := u.s3(u.c, http.MethodPost, u.key(), url.Values{"uploads": {""}}, nil)
	r.Answer.Then = func(_ time.Time, body []byte, _ http.Header) (*providers.Request, error) {
		var begun struct {
			ID string `xml:"UploadId"`
		}
		if xml.Unmarshal(body, &begun) != nil || begun.ID == "" {
			return nil, errors.New("S3 gives the upload no id")
		}
		u.id = begun.ID
		return u.put(part), nil
	}
	return r
}

func (u *upload) put(part []byte) *providers.Request {
	number := strconv.Itoa(len(u.tags) + 1)
	r := u.s3(u.c, http.MethodPut, u.key(), url.Values{"partNumber": {number}, "uploadId": {u.id}}, part)
	r.Header["Content-Type"] = []string{"application/octet-stream"}
	r.Answer.Then = func(_ time.Time, _ []byte, h http.Header) (*providers.Request, error) {
		u.tags = append(u.tags, h.Get("Etag"))
		if u.final {
			return u.complete()
		}
		part, err := u.next()
		if err != nil {
			return u.abort(err), nil
		}
		return u.put(part), nil
	}
	return r
}

func (u *upload) complete() (*providers.Request, error) {
	type part struct {
		PartNumber int
		ETag       string
	}
	var list struct {
		XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ CompleteMultipartUpload"`
		Part    []part
	}
	for i, tag := range u.tags {
		list.Part = append(list.Part, part{i + 1, tag})
	}
	body, err := xml.Marshal(list)
	if err != nil {
		return nil, err
	}
	r := u.s3(u.c, http.MethodPost, u.key(), url.Values{"uploadId": {u.id}}, body)
	r.Header["Content-Type"] = []string{"application/xml"}
	r.Answer.Whole = func(dst, body []byte, h http.Header) ([]byte, error) {
		if f := readS3Failure(http.StatusInternalServerError, h, body); f.Code != "" { // it may say so after 200
			return dst, f
		}
		return u.done(dst, body, h)
	}
	return r, nil
}

// abort takes back what was sent of a file that turned out to be wrong.
func (u *upload) abort(why error) *providers.Request {
	r := u.s3(u.c, http.MethodDelete, u.key(), url.Values{"uploadId": {u.id}}, nil)
	r.Answer.Then = func(time.Time, []byte, http.Header) (*providers.Request, error) { return nil, why }
	return r
}

// A plainFile is kept as it is.
type plainFile struct{ io.Reader }

func (p *plainFile) chunk() ([]byte, bool, error) {
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(p, partSize))
	return b.Bytes(), n < partSize, err
}
