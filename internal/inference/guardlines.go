package inference

import (
	"context"
	"slices"
	"strconv"
	"strings"

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
}

// Counted judges the files as they are at the provider, once the limits have counted the call:
// that costs a request for each, and time.
func (v *lineGuard) Counted(ctx context.Context) (*Reply, *exchange.Error) {
	ctx, cancel := context.WithTimeout(ctx, filesTime)
	defer cancel()
	r := v.reader()
	defer r.close()
	var refusal *exchange.Error
	for i := 0; i < len(v.files) && refusal == nil; i++ {
		refusal = r.file(ctx, v.files[i], func(line []byte, where string) *exchange.Error { return v.judge(ctx, line, where) })
	}
	v.judgment.failed = failed(v.judgment.before)
	v.count("input", v.judgment.before)
	if refusal != nil && refusal.Status == exchange.StatusHooksDenied {
		refusal.Hooks = v.judgment.JSON()
	}
	return nil, refusal
}

// reader reads the files.
func (v *lineGuard) reader() *fileReader {
	return &fileReader{f: v.f, c: v.c, reader: "Guardrails", does: "check", unread: func(message string) *exchange.Error { return unreadCall("", message) }}
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
	if of != exchange.CreateBatch {
		if jsonscan.Members(line, nil) != nil {
			return "", nil, "it is not a JSON object"
		}
		return of, line, ""
	}
	l, why := callOf(line)
	switch {
	case why != "":
		return "", nil, why
	case l.Record:
		return of, line, ""
	}
	return l.Endpoint.Name, l.Body, ""
}

// Interface guards
var (
	_ Visit       = (*lineGuard)(nil)
	_ CountedHook = (*lineGuard)(nil)
)
