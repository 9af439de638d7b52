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

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// filesOf are the members of the calls that make a batch or a fine-tuning job in which providers
// expect the ids of files. The lines of the files are what hooks of the call judge.
var filesOf = map[string][]string{
	exchange.CreateBatch:    {"input_file_id", "input_files"},
	exchange.CreateFinetune: {"training_file", "training_files", "validation_file", "validation_files"},
}

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

// beforeLines returns the visit of a call that makes something of the lines of files. Async hooks
// do not run: they would read the files a second time.
func (h *guardrailHook) beforeLines(c *Candidate, members []string) (Visit, *Reply, *exchange.Error) {
	before, _, refusal := c.Hooks(c.Target)
	before = slices.DeleteFunc(slices.Clone(before), func(h *hooks.Hook) bool { return h.Async })
	if refusal != nil || len(before) == 0 {
		return nil, nil, refusal
	}
	g, refusal := h.guard(c, before, nil)
	if refusal != nil {
		return nil, nil, refusal
	}
	v := &lineGuard{guard: g, c: c}
	if v.files, refusal = namedFiles(g.request, members); refusal != nil {
		return nil, nil, refusal
	}
	return v, nil, nil
}

// namedFiles returns the ids in members of the body of a call.
func namedFiles(body []byte, members []string) (ids []string, refusal *exchange.Error) {
	_ = jsonscan.Members(body, func(m jsonscan.Member) error { // it was read before
		name := strings.ToLower(m.Key.String())
		if refusal == nil && slices.Contains(members, name) {
			refusal = appendIDs(&ids, name, gjson.ParseBytes(body[m.Start:m.End]))
		}
		return nil
	})
	if refusal == nil && len(ids) == 0 {
		refusal = unreadCall(members[0], "The call names no file in '"+members[0]+"', so that guardrails cannot check it")
	}
	return ids, refusal
}

// appendIDs appends the strings in a value to ids.
func appendIDs(ids *[]string, param string, value gjson.Result) (refusal *exchange.Error) {
	switch {
	case value.Type == gjson.String && slices.Contains(*ids, value.Str):
	case value.Type == gjson.String && !plainID(value.Str):
		return unreadCall(param, "'"+param+"' is not the id of a file, so that guardrails cannot check it")
	case value.Type == gjson.String && len(*ids) == maxFiles:
		return unreadCall(param, "The call names more than "+strconv.Itoa(maxFiles)+" files, so that guardrails cannot check it")
	case value.Type == gjson.String:
		*ids = append(*ids, value.Str)
	case value.IsArray(), value.IsObject():
		value.ForEach(func(_, v gjson.Result) bool {
			refusal = appendIDs(ids, param, v)
			return refusal == nil
		})
	}
	return refusal
}

// plainID reports whether an id is one segment of a path as it stands.
func plainID(id string) bool {
	return strings.Trim(id, ".") != "" && !strings.ContainsFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.:=", r)
	})
}

// A lineGuard is the visit of a call whose hooks judge the lines of its files. The call itself has
// no texts.
type lineGuard struct {
	*guard
	c     *Candidate
	files []string // their ids

	read     int64 // bytes of the files
	reserved int   // memory for the line that is judged, in bytes
}

// Counted judges the files as they are at the provider, once the limits have counted the call:
// that costs a request for each, and time.
func (v *lineGuard) Counted(ctx context.Context) (*Reply, *exchange.Error) {
	ctx, cancel := context.WithTimeout(ctx, filesTime)
	defer cancel()
	defer func() { v.x.Memory.Free(v.reserved) }()
	var refusal *exchange.Error
	for i := 0; i < len(v.files) && refusal == nil; i++ {
		refusal = v.file(ctx, v.files[i])
	}
	v.judgment.failed = failed(v.judgment.before)
	v.count("input", v.judgment.before)
	if refusal != nil && refusal.Status == exchange.StatusHooksDenied {
		refusal.Hooks = v.judgment.JSON()
	}
	return nil, refusal
}

// file judges the lines of a file.
func (v *lineGuard) file(ctx context.Context, id string) *exchange.Error {
	target := v.c.Chosen()
	q := &request{call: v.x.Call, target: target}
	defer q.close()
	provider := "Provider " + target.Route.Provider
	res, err := v.f.open(ctx, q, v.c.Target, operation{"retrieveFileContent", http.MethodGet, "/files/" + id + "/content", ""})
	switch {
	case ctx.Err() != nil:
		return filesTooSlow(id)
	case err != nil:
		return (&request{call: v.x.Call, target: target}).failure(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return &exchange.Error{
			Status: res.StatusCode, Type: "provider_error", Code: "file_unavailable",
			Message: provider + " answered " + strconv.Itoa(res.StatusCode) + " for the content of file " + id + ", which guardrails have to check",
		}
	}
	return v.lines(ctx, id, provider, res.Body)
}

// filesTooSlow refuses files that take too long.
func filesTooSlow(id string) *exchange.Error {
	return unreadCall("", "Guardrails could not check file "+id+" within "+filesTime.String()+": send fewer calls in a file")
}

// lines judges the lines of a file that a provider sends.
func (v *lineGuard) lines(ctx context.Context, id, provider string, content io.Reader) *exchange.Error {
	r := bufio.NewReaderSize(content, 64<<10)
	for n := 1; ; n++ {
		line, err := v.line(r)
		over := errors.Is(err, io.EOF)
		refusal := new(exchange.Error)
		switch {
		case errors.As(err, &refusal):
			return refusal
		case ctx.Err() != nil:
			return filesTooSlow(id)
		case err != nil && !over:
			return misbehaved(provider+" did not send all of file "+id+", which guardrails have to check", err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if refusal := v.judge(ctx, line, "line "+strconv.Itoa(n)+" of file "+id); refusal != nil {
				return refusal
			}
			if ctx.Err() != nil { // a check may have passed because of that
				return filesTooSlow(id)
			}
		}
		if over {
			return nil
		}
	}
}

// line returns the next line of a file, which nothing else shares: a check that waits for others may
// be left behind with it. At the end of the file the error is io.EOF.
func (v *lineGuard) line(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		piece, err := r.ReadSlice('\n')
		v.read += int64(len(piece))
		size := len(line) + len(piece)
		switch {
		case size > maxFileLine:
			return nil, unreadCall("", "Guardrails cannot check a file with lines of more than "+strconv.Itoa(maxFileLine>>20)+" MiB")
		case v.read > maxFilesBytes:
			return nil, unreadCall("", "Guardrails cannot check files of more than "+strconv.Itoa(maxFilesBytes>>20)+" MiB")
		}
		if need := lineCopies * size; need > v.reserved {
			need = max(need, 2*v.reserved)
			if err := v.x.Memory.Reserve(need - v.reserved); err != nil {
				return nil, exchange.Overloaded(err)
			}
			v.reserved = need
		}
		if line = append(line, piece...); !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// judge has the hooks judge a line.
func (v *lineGuard) judge(ctx context.Context, line []byte, where string) *exchange.Error {
	endpoint, body, why := judgedLine(v.x.Endpoint.Name, line)
	switch {
	case why != "":
		return unreadCall("", "Guardrails cannot check "+where+": "+why)
	case !hooks.Judged(endpoint, guardrails.Input):
		return nil
	}
	s := v.subject(v.c.Chosen(), guardrails.Input)
	s.Type, s.Request = endpoint, body
	if model := gjson.GetBytes(body, "model").Str; model != "" {
		s.Model = model
	}
	out := hooks.Run(ctx, v.before, s, false, v.x.Gateway.Now)
	if out.Unread != "" {
		return unreadCall("", "Guardrails cannot check "+where+": "+out.Unread)
	}
	for i := range out.Results { // nothing is replaced in a file
		out.Results[i].Deny = out.Results[i].Deny || out.Results[i].Transformed
	}
	v.judgment.before = hooks.Worse(v.judgment.before, out.Results)
	switch {
	case out.Denied != nil:
		return exchange.Denied(hooks.Why(out.Denied, guardrails.Input)+", in "+where, nil)
	case out.Body != nil:
		return exchange.Denied("A guardrail replaces texts in "+where+", which is not changed: upload it without them", nil)
	}
	return nil
}

// judgedLine returns what is judged of a line of a file from which a call of an endpoint makes
// something: the body of the call that a line of a batch is, in the dialect of an endpoint, or all of
// it. If it cannot be read, why says so.
func judgedLine(of string, line []byte) (endpoint string, body []byte, why string) {
	var to string
	urls, bodies, records := 0, 0, 0
	err := jsonscan.Members(line, func(m jsonscan.Member) error {
		switch value := line[m.Start:m.End]; strings.ToLower(m.Key.String()) {
		case "url":
			urls++
			to = gjson.ParseBytes(value).Str
		case "body":
			bodies++
			body = value
		case "modelinput": // a record of a job of Bedrock, which an upload through the gateway becomes
			records++
		}
		return nil
	})
	switch {
	case err != nil:
		return "", nil, "it is not a JSON object"
	case of != exchange.CreateBatch, records > 0 && urls == 0 && bodies == 0:
		return of, line, ""
	case records > 0 || urls != 1 || bodies != 1:
		return "", nil, "it must have 'url' and 'body' once"
	case jsonscan.Members(body, nil) != nil:
		return "", nil, "its 'body' is not a JSON object"
	}
	if !strings.HasPrefix(to, "/v1/") { // as with Azure
		to = "/v1" + to
	}
	e, _ := exchange.EndpointOf(http.MethodPost, to)
	if e == nil || e.Passes || e.Path != to {
		return "", nil, "its 'url' is not the path of a known endpoint"
	}
	return e.Name, body, ""
}

// Interface guards
var (
	_ Visit       = (*lineGuard)(nil)
	_ CountedHook = (*lineGuard)(nil)
)
