package inference

import (
	"context"
	"net/http"
	"path"
	"strings"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/routing"
)

// batches is the stage that has batches and fine-tuning jobs metered. What a batch may use is read from the lines of its file when it
// is made; what it did use, from those of its output when that is read through the gateway, whole and for the first time. If
// the provider says that it ended with nothing, it used nothing. Of a job, the file is read likewise, and the provider says in
// the end how many tokens it trained on.
type batches struct{ f *Forwarder }

// Before has the file read if a limit of tokens or costs counts the call that makes the batch.
func (h *batches) Before(ctx context.Context, c *Candidate) (Visit, *Reply, *exchange.Error) {
	if c.Gateway.Batches == nil {
		return nil, nil, nil
	}
	target := *c // the candidate's room is used for other targets
	switch c.Endpoint.Name {
	case exchange.CreateBatch:
		c.Chosen().ReadsLines(func(each func(*exchange.Line) string) *exchange.Error {
			return h.read(ctx, &target, filesOf[exchange.CreateBatch], func(body []byte) (lineReader, string) { return h.calls(&target, body, each) })
		})
	case exchange.CreateFinetune:
		c.Chosen().ReadsLines(func(each func(*exchange.Line) string) *exchange.Error {
			return h.read(ctx, &target, trainingFile, func(body []byte) (lineReader, string) { return examples(body, each) })
		})
	}
	return nil, nil, nil
}

// A lineReader reads a line of a file, which has an id. If it is not known what it uses, why says so.
type lineReader func(id string, line []byte) (why string)

// read reads the lines of the file that a call makes a batch or a fine-tuning job of, whose id is in one of the members of the
// call's body. prepare reads that, and returns what reads the lines, or why it is not known what they use.
func (h *batches) read(ctx context.Context, c *Candidate, members []string, prepare func(body []byte) (lineReader, string)) *exchange.Error {
	target := c.Chosen()
	body, _, err := target.Payload().JSON(false)
	if err != nil {
		return exchange.AsError(err)
	}
	if body == nil {
		return exchange.UnmeteredFile("its body is not read")
	}
	defer body.Release()
	if refusal := target.Ownership().CheckBody(body.Bytes(), false); refusal != nil {
		return refusal
	}
	files, refusal := namedFiles(body.Bytes(), members)
	if refusal != nil {
		return exchange.UnmeteredFile("the call does not name its file")
	}
	each, why := prepare(body.Bytes())
	if why != "" {
		return exchange.UnmeteredFile(why)
	}
	ctx, cancel := context.WithTimeout(ctx, filesTime)
	defer cancel()
	r := &fileReader{f: h.f, c: c, reader: "limits", does: "count", unread: exchange.UnmeteredFile}
	defer r.close()
	for _, id := range files {
		refusal := r.file(ctx, id, func(line []byte, where string) *exchange.Error {
			if why := each(id, line); why != "" {
				return exchange.UnmeteredFile(where + ": " + why)
			}
			return nil
		})
		if refusal != nil {
			return refusal
		}
	}
	return nil
}

// calls reads the lines of the file of a batch.
func (h *batches) calls(c *Candidate, body []byte, each func(*exchange.Line) string) (lineReader, string) {
	creation, why := creationOf(body)
	if why != "" {
		return nil, why
	}
	target := c.Chosen()
	return func(id string, line []byte) string {
		l, why := callOf(line)
		if why == "" {
			why = creation.differs(l)
		}
		if why != "" {
			return why
		}
		l.Model = target.Model
		if of := dialect(target.Route).FileModel; of != nil && l.Model == "" {
			l.Model = of(id)
		}
		return each(l)
	}, ""
}

// Request returns what looks at the answer, if that is about a batch or may be the output of one.
func (h *batches) Request(ctx context.Context, r *Request) (any, *exchange.Error) {
	x, known := r.rt.x, r.rt.x.Gateway.Batches
	if known == nil {
		return nil, nil
	}
	switch x.Endpoint.Name {
	case exchange.CreateBatch, exchange.CreateFinetune:
		return &acceptedBatch{h, r.rt, r.Target}, nil
	case "retrieveBatch", "cancelBatch", "retrieveFinetune", "cancelFinetune":
		id := strings.TrimPrefix(strings.TrimPrefix(x.Path, "/batches/"), "/fine_tuning/jobs/")
		id, _, _ = strings.Cut(id, "/")
		if name := batchName(x, r.Attempt, r.Target, id); known.AwaitedBatch(&name) != nil {
			return &seenBatches{h: h, rt: r.rt, target: r.Target}, nil
		}
	case "listBatches", "listFinetunes":
		if known.AwaitsBatches(x.Caller.WorkspaceID) {
			return &seenBatches{h: h, rt: r.rt, target: r.Target}, nil
		}
	case "retrieveFileContent", exchange.BatchOutput:
		file := path.Base(strings.TrimSuffix(r.Path, "/content"))
		name := batchName(x, r.Attempt, r.Target, "")
		if b := known.BatchOfOutput(name.WorkspaceID, name.Account, file); b != nil && (b.Confirmed || h.confirmed(ctx, r, b)) {
			return &batchUse{h, r.rt, b}, nil
		}
	}
	return nil, nil
}

// confirmed reports whether the provider says, too, that a file is the output of a batch. Otherwise a client
// could name any file that it has uploaded.
func (h *batches) confirmed(ctx context.Context, r *Request, b *policies.Batch) bool {
	if !plainID(b.ID) {
		return false
	}
	status, body, err := h.f.fetch(ctx, r.rt.x, r.Attempt, r.Target, operation{"retrieveBatch", http.MethodGet, "/batches/" + b.ID, ""})
	if err != nil || status != http.StatusOK {
		return false
	}
	batch := gjson.ParseBytes(body)
	if batch.Get("id").Str != b.ID {
		return false
	}
	h.see(ctx, r.rt.x, r.Attempt, r.Target, batch)
	output, _ := outcomeOf(batch)
	return output == b.OutputFile
}

// answerOf returns an answer in one piece, which stays to be read; nil: it is none in JSON.
func (h *batches) answerOf(rt *roundTrip, res *http.Response) ([]byte, error) {
	if res.StatusCode < 200 || res.StatusCode >= 300 || res.Header.Get("Content-Encoding") != "" {
		return nil, nil
	}
	body, err := readAtMost(rt.call, res.Body, maxWhole)
	switch {
	case inflight.Refused(err):
		res.Body.Close()
		return nil, err
	case err != nil:
		rt.x.Memory.Free(cap(body))
		return nil, rt.unreadable(res, "the provider's answer cannot be read: "+err.Error())
	}
	res.Body.Close()
	res.Body, res.ContentLength = &peeked{call: rt.call, seen: body, src: http.NoBody}, int64(len(body))
	return body, nil
}

// failed logs that something about a batch could not be noted.
func (h *batches) failed(rt *roundTrip, id string, err error) {
	h.f.logger.Error("what is reserved for a batch or a fine-tuning job counts as used until it is settled",
		zap.String("batch", id), zap.String("provider", rt.attempt.Route.Provider), zap.String("trace_id", rt.x.Trace.ID), zap.Error(err))
}

// acceptedBatch looks at the answer to a call that makes a batch or a fine-tuning job.
type acceptedBatch struct {
	h      *batches
	rt     *roundTrip
	target *routing.Target
}

// Response notes the batch, before the client gets its id.
func (a *acceptedBatch) Response(ctx context.Context, res *http.Response) error {
	body, err := a.h.answerOf(a.rt, res)
	if err != nil || body == nil {
		return err
	}
	id := gjson.GetBytes(body, "id").Str
	if id == "" {
		return nil
	}
	if err := a.rt.attempt.Accepted(context.WithoutCancel(ctx), batchName(a.rt.x, a.rt.attempt, a.target, id)); err != nil {
		a.h.failed(a.rt, id, err)
	}
	return nil
}

// seenBatches looks at answers that describe batches or fine-tuning jobs.
type seenBatches struct {
	h      *batches
	rt     *roundTrip
	target *routing.Target
	jobs   jobSum // of the jobs that the answer settled
}

// Response notes what became of the batches.
func (s *seenBatches) Response(ctx context.Context, res *http.Response) error {
	body, err := s.h.answerOf(s.rt, res)
	if err != nil || body == nil {
		return err
	}
	see := func(batch gjson.Result) { s.h.see(ctx, s.rt.x, s.rt.attempt, s.target, batch) }
	if tunes(s.rt.x.Endpoint) {
		see = func(job gjson.Result) { s.seeJob(context.WithoutCancel(ctx), job) }
	}
	answer := gjson.ParseBytes(body)
	if list := answer.Get("data"); list.IsArray() {
		list.ForEach(func(_, batch gjson.Result) bool {
			see(batch)
			return true
		})
	} else {
		see(answer)
	}
	s.jobs.note(s.rt.attempt)
	return nil
}

// batchName is what a batch, or a fine-tuning job where the call is about those, is found by, at the destination of an attempt.
func batchName(x *exchange.Exchange, a *exchange.Attempt, t *routing.Target, id string) policies.BatchName {
	base := a.Route.BaseURL
	if base == nil {
		base, _ = dialect(a.Route).Base(func(name string) string { return setting(x.Call, a.Route, t, name) }) // without one, nothing is sent
	}
	destination := ""
	if base != nil {
		destination = base.Scheme + "://" + base.Host + base.Path
	}
	return a.BatchName(destination, id, tunes(x.Endpoint))
}

// see notes what a provider says of a batch. If that fails, it is noted another time.
func (h *batches) see(ctx context.Context, x *exchange.Exchange, a *exchange.Attempt, t *routing.Target, batch gjson.Result) {
	if x.Gateway.Batches == nil {
		return
	}
	name := batchName(x, a, t, batch.Get("id").Str)
	output, nothing := outcomeOf(batch)
	if err := x.Gateway.Batches.SeeBatch(context.WithoutCancel(ctx), &name, output, nothing); err != nil {
		h.f.logger.Error("noting what became of a batch", zap.String("batch", name.ID), zap.String("trace_id", x.Trace.ID), zap.Error(err))
	}
}

// endedBatches are the statuses of batches whose output is whole, of OpenAI and of Mistral.
var endedBatches = map[string]bool{
	"completed": true, "expired": true, "cancelled": true, "failed": true, "success": true, "timeout_exceeded": true,
}

// outcomeOf returns the file with the output of a batch, or "", and whether it has ended and none of its calls was
// answered.
func outcomeOf(batch gjson.Result) (output string, nothing bool) {
	if output = batch.Get("output_file_id").Str; !endedBatches[strings.ToLower(batch.Get("status").Str)] {
		return "", false // more lines may come
	}
	completed := batch.Get("request_counts.completed")
	switch none := completed.Type == gjson.Number && completed.Int() == 0; batch.Get("status").Str {
	case "failed": // before any call was made
		nothing = none || !completed.Exists()
	case "completed", "expired", "cancelled":
		nothing = none
	}
	return output, nothing && output == ""
}

// batchUse meters the output of a batch.
type batchUse struct {
	h     *batches
	rt    *roundTrip
	batch *policies.Batch
}

// Response has the lines of the output read as they pass. Of a part of the file nothing is booked.
func (u *batchUse) Response(ctx context.Context, res *http.Response) error {
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Encoding") != "" || res.Header.Get("Content-Range") != "" {
		return nil
	}
	sum := &batchSum{costOf: u.rt.attempt.CostOf, models: u.batch.Models}
	res.Body = &outputLines{src: res.Body, call: u.rt.call, each: sum.add, done: func(unread bool) { u.settle(context.WithoutCancel(ctx), sum, unread) }}
	return nil
}

// settle books what the batch used, once all of its output has passed.
func (u *batchUse) settle(ctx context.Context, sum *batchSum, unread bool) {
	used := policies.Used{
		Tokens: sum.usage.Prompt + sum.usage.Completion, Cost: sum.cost,
		Unknown: unread || sum.unknown, CostUnknown: sum.unpriced, Of: sum.of,
	}
	settled, err := u.rt.x.Gateway.Batches.SettleBatch(ctx, &u.batch.BatchName, used)
	if err != nil {
		u.h.failed(u.rt, u.batch.ID, err)
	}
	if settled {
		u.rt.attempt.BatchUsed(&sum.usage, sum.cost, sum.priced || !sum.unpriced)
	}
}

// Interface guards
var (
	_ Hook         = (*batches)(nil)
	_ RequestHook  = (*batches)(nil)
	_ ResponseHook = (*acceptedBatch)(nil)
	_ ResponseHook = (*seenBatches)(nil)
	_ ResponseHook = (*batchUse)(nil)
)
