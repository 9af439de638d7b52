package inference

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Bounds of the files of a call.
const (
	maxFiles      = 16
	maxFilesBytes = 1 << 30 // of all together; OpenAI's have up to 512 MB
	maxFileLine   = 8 << 20
	filesTime     = 5 * time.Minute // to read and judge all of them
)

// lineCopies is how much memory a line needs while it is judged, by its length: it, its texts, and
// what checks make of them.
const lineCopies = 4

// A fileReader reads the lines of files that a call names, as they are at the provider. Each file costs a request.
type fileReader struct {
	f *Forwarder
	c *Candidate

	// What reads them, and does what, as errors say it: Guardrails, check. unread is the error if a file cannot be
	// read because of what it is.
	reader, does string
	unread       func(message string) *exchange.Error

	read     int64 // bytes of the files
	reserved int   // memory for a line, in bytes
}

func (r *fileReader) close() { r.c.Memory.Free(r.reserved) }

// file calls each with the lines of a file that are not empty, and where they are.
func (r *fileReader) file(ctx context.Context, id string, each func(line []byte, where string) *exchange.Error) *exchange.Error {
	x, target := r.c.Exchange, r.c.Chosen()
	q := &request{call: x.Call, target: target}
	defer q.close()
	provider := "Provider " + target.Route.Provider
	res, err := r.f.open(ctx, q, r.c.Target, operation{"retrieveFileContent", http.MethodGet, "/files/" + id + "/content", ""})
	switch {
	case ctx.Err() != nil:
		return r.tooSlow(id)
	case err != nil:
		return (&request{call: x.Call, target: target}).failure(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return &exchange.Error{
			Status: res.StatusCode, Type: "provider_error", Code: "file_unavailable",
			Message: provider + " answered " + strconv.Itoa(res.StatusCode) + " for the content of file " + id + ", which " + r.must(),
		}
	}
	return r.lines(ctx, id, provider, res.Body, each)
}

// must says that a file has to be read.
func (r *fileReader) must() string { return strings.ToLower(r.reader) + " have to " + r.does }

// tooSlow refuses files that take too long.
func (r *fileReader) tooSlow(id string) *exchange.Error {
	return r.unread(r.reader + " could not " + r.does + " file " + id + " within " + filesTime.String() + ": send fewer calls in a file")
}

// lines reads the lines of a file that a provider sends.
func (r *fileReader) lines(ctx context.Context, id, provider string, content io.Reader, each func([]byte, string) *exchange.Error) *exchange.Error {
	in := bufio.NewReaderSize(content, 64<<10)
	for n := 1; ; n++ {
		line, err := r.line(in)
		over := errors.Is(err, io.EOF)
		refusal := new(exchange.Error)
		switch {
		case errors.As(err, &refusal):
			return refusal
		case ctx.Err() != nil:
			return r.tooSlow(id)
		case err != nil && !over:
			return misbehaved(provider+" did not send all of file "+id+", which "+r.must(), err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			where := "line " + strconv.Itoa(n) + " of file " + id
			if !utf8.Valid(line) {
				return r.unread(where + ": it is not UTF-8")
			}
			if refusal := each(line, where); refusal != nil {
				return refusal
			}
			if ctx.Err() != nil { // a check may have passed because of that
				return r.tooSlow(id)
			}
		}
		if over {
			return nil
		}
	}
}

// line returns the next line of a file, which nothing else shares: a check that waits for others may
// be left behind with it. At the end of the file the error is io.EOF.
func (r *fileReader) line(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		piece, err := in.ReadSlice('\n')
		r.read += int64(len(piece))
		size := len(line) + len(piece)
		switch {
		case size > maxFileLine:
			return nil, r.unread(r.reader + " cannot " + r.does + " a file with lines of more than " + strconv.Itoa(maxFileLine>>20) + " MiB")
		case r.read > maxFilesBytes:
			return nil, r.unread(r.reader + " cannot " + r.does + " files of more than " + strconv.Itoa(maxFilesBytes>>20) + " MiB")
		}
		if need := lineCopies * size; need > r.reserved {
			need = max(need, 2*r.reserved)
			if err := r.c.Memory.Reserve(need - r.reserved); err != nil {
				return nil, exchange.Overloaded(err)
			}
			r.reserved = need
		}
		if line = append(line, piece...); !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// callOf returns the call that a line of the file of a batch is. If it cannot be read, why says so.
func callOf(line []byte) (l *exchange.Line, why string) {
	l = new(exchange.Line)
	var to string
	urls, bodies, records := 0, 0, 0
	err := jsonscan.Members(line, func(m jsonscan.Member) error {
		switch value := line[m.Start:m.End]; strings.ToLower(m.Key.String()) {
		case "url":
			urls++
			to = gjson.ParseBytes(value).Str
		case "body":
			bodies++
			l.Body = value
		case "modelinput": // a record of a job of Bedrock, which an upload through the gateway becomes
			records++
			if urls == 0 && bodies == 0 {
				l.Body = value
			}
		}
		return nil
	})
	l.Record = records > 0 && urls == 0 && bodies == 0
	switch {
	case err != nil:
		return nil, "it is not a JSON object"
	case !l.Record && (records > 0 || urls != 1 || bodies != 1):
		return nil, "it must have 'url' and 'body' once"
	}
	name := "body"
	if l.Record {
		name, to = "modelInput", "/v1/chat/completions"
	}
	repeated, err := repeats(l.Body)
	switch {
	case err != nil:
		return nil, "its '" + name + "' is not a JSON object"
	case repeated != "": // providers differ in which of them counts
		return nil, "its '" + name + "' has " + strconv.Quote(credentials.Clip(repeated)) + " twice"
	}
	if l.Endpoint = exchange.BatchLine(to); l.Endpoint == nil {
		return nil, "its 'url' is not the path of a known endpoint"
	}
	return l, ""
}

// repeats returns a member that an object has more than once, or "".
func repeats(object []byte) (name string, err error) {
	var names []string
	err = jsonscan.Members(object, func(m jsonscan.Member) error {
		names = append(names, m.Key.String())
		return nil
	})
	slices.Sort(names)
	for i := 1; i < len(names); i++ {
		if names[i] == names[i-1] {
			return names[i], err
		}
	}
	return "", err
}

// A creation is what the call that makes a batch says of all lines.
type creation struct {
	endpoint string // "": nothing
	model    string
}

// Members by which some providers have a batch make calls that are not in its file, or that say more than the lines.
var notInFile = []string{"input_blob", "requests", "input_dataset_id", "agent_id"}

// creationOf reads the call that makes a batch. If what the batch may use is not in its file, why says so.
func creationOf(body []byte) (c creation, why string) {
	_ = jsonscan.Members(body, func(m jsonscan.Member) error { // it was read before
		value := gjson.ParseBytes(body[m.Start:m.End])
		name := strings.ToLower(m.Key.String())
		switch {
		case slices.Contains(notInFile, name) && value.Type != gjson.Null:
			why = "not all that the batch does is in its file, but in '" + name + "'"
		case name == "endpoint": // once, as was checked before
			c.endpoint = value.Str
		case name == "model":
			c.model = value.Str
		}
		return nil
	})
	return c, why
}

// differs says in what a line is not as the call says that makes the batch, and by which some providers go; "": in nothing.
func (c *creation) differs(l *exchange.Line) string {
	switch model := gjson.GetBytes(l.Body, "model").Str; {
	case l.Record:
		return ""
	case c.endpoint != "" && exchange.BatchLine(c.endpoint) != l.Endpoint:
		return "its 'url' is not the batch's 'endpoint'"
	case c.model != "" && model != "" && model != c.model:
		return "its 'model' is not the batch's"
	}
	return ""
}
