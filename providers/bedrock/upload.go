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

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// partSize is how much of a file is sent at once. S3 requires at least 5 MiB for each part
// but the last, and accepts up to 10,000 parts.
const partSize = 8 << 20

// A source yields the content of a file to be stored in chunks. With last, nothing follows.
type source interface {
	chunk() (b []byte, last bool, err error)
}

// An upload sends a file to S3: in one request if it fits into one part, otherwise in
// parts, one of which is in memory at a time. S3 keeps an incomplete upload hidden until a
// lifecycle rule of the bucket removes it.
type upload struct {
	file
	c     *providers.Call
	form  *form
	src   source
	id    string // of the upload in parts
	tags  []string
	size  int64
	final bool // the current part is the last one
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
			u.name += ".jsonl" // jobs only read files with this extension
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
	r.Answer.Body = u.done
	return r, nil
}

// next returns the next part.
func (u *upload) next() (part []byte, err error) {
	if part, u.final, err = u.src.chunk(); err == nil && u.final {
		err = u.form.rest()
	}
	u.size += int64(len(part))
	return part, u.form.errorOf(err)
}

func (u *upload) done(dst, _ []byte, _ http.Header) ([]byte, error) {
	b := jsonscan.Builder(dst)
	u.append(&b, u.size, u.c.Now)
	return b, nil
}

// begin starts a multipart upload.
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
	r.Answer.Body = func(dst, body []byte, h http.Header) ([]byte, error) {
		if f := readS3Failure(http.StatusInternalServerError, h, body); f.Code != "" { // S3 may report an error after status 200
			return dst, f
		}
		return u.done(dst, body, h)
	}
	return r, nil
}

// abort removes the parts of a file that turned out to be invalid.
func (u *upload) abort(why error) *providers.Request {
	r := u.s3(u.c, http.MethodDelete, u.key(), url.Values{"uploadId": {u.id}}, nil)
	r.Answer.Then = func(time.Time, []byte, http.Header) (*providers.Request, error) { return nil, why }
	return r
}

// A plainFile is stored unchanged.
type plainFile struct{ io.Reader }

func (p *plainFile) chunk() ([]byte, bool, error) {
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(p, partSize))
	return b.Bytes(), n < partSize, err
}
