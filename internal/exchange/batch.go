package exchange

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/internal/validation"
)

// Batches are the batches and fine-tuning jobs that providers have accepted, see [policies.Limits].
type Batches interface {
	Park(ctx context.Context, v *policies.Verdict, b *policies.Batch) (parked bool, err error)
	SeeBatch(ctx context.Context, name *policies.BatchName, output string, nothing bool) error
	SettleBatch(ctx context.Context, name *policies.BatchName, used policies.Used) (settled bool, err error)
	AwaitedBatch(name *policies.BatchName) *policies.Batch
	AwaitsBatches(workspace string) bool
	BatchOfOutput(workspace, account, file string) *policies.Batch
}

// A Line is a call that a batch makes of a line of its file, or an example that a fine-tuning job trains a model on.
type Line struct {
	Endpoint *Endpoint // of a call
	Body     []byte    // a JSON object
	// Epochs is how often a model is trained on the example; 0: it is a call.
	Epochs int64
	// Record: the body is a record of a job of Bedrock, and the model is that of the job.
	Record bool
	Model  string // of a record
}

// batchFile is the file of which a call makes a batch or a fine-tuning job, which is read once if a limit asks for it.
type batchFile struct {
	read    func(each func(*Line) (why string)) *Error
	was     bool // read
	calls   estimate.Lines
	refusal *Error
	parked  bool // what the call has reserved is the batch's
}

// ReadsLines has what the call may use be that of the calls which its batch makes of the lines of a file, or of the examples of
// its fine-tuning job. read calls each with them, which returns why it is not known what a line uses, or "". An [UnmeteredFile] says that in its message; any
// other one is why the file cannot be had now.
func (a *Attempt) ReadsLines(read func(each func(*Line) (why string)) *Error) {
	a.batch = &batchFile{read: read}
}

// ReadsFile reports whether a file is read to know what the call may use.
func (a *Attempt) ReadsFile() bool { return a.batch != nil }

// addLines adds what the calls of the batch may use.
func (a *Attempt) addLines(d *estimate.Demand, learned *estimate.Estimator) {
	f := a.batch
	switch {
	case f == nil:
		d.Unmetered = inBackground
		return
	case !f.was:
		f.was, f.calls.Trains = true, a.call.Endpoint.Name == CreateFinetune
		f.refusal = f.read(func(l *Line) string {
			one := a.lineDemand(l)
			if one.Unmetered == "" {
				f.calls.Add(learned, &one, a.unnamed(l))
			}
			return one.Unmetered
		})
	}
	switch d.Lines = &f.calls; {
	case f.refusal == nil:
	case f.refusal.Code == codeUnmetered:
		d.Unmetered = f.refusal.Message
	default:
		d.Failed = f.refusal
	}
}

// unnamed is why a call of the batch may be answered by another model than the one that it names; "": it is not.
func (a *Attempt) unnamed(l *Line) string {
	if l.Epochs > 0 {
		return ""
	}
	member := a.Payload().modelsSet()
	if member == "" && !l.Record {
		gjson.ParseBytes(l.Body).ForEach(func(name, value gjson.Result) bool {
			switch {
			case value.Type == gjson.Null, name.Str == "model":
				return true
			case strings.EqualFold(name.Str, "model"), strings.EqualFold(name.Str, "models"), validation.NamesModels(name.Str),
				slices.Contains(l.Endpoint.Models, strings.ToLower(name.Str)) && hasModel(strings.ToLower(name.Str), value):
				member = name.Str
			}
			return member == ""
		})
	}
	if member == "" {
		return ""
	}
	return "a line may name other models in " + credentials.Clip(member)
}

// lineDemand is what a call of the batch may use, as if it were made by itself.
func (a *Attempt) lineDemand(l *Line) estimate.Demand {
	if l.Epochs > 0 {
		m := a.call.Endpoint.metering
		d := a.demandOf(&m, a.call.Endpoint.Name, a.Model)
		a.addJSON(&d, &m, l.Body)
		d.Unmetered, d.Epochs = "", l.Epochs // what members of an example say bounds nothing
		d.WebSearches, d.FileSearches, d.Searches, d.Unpriced = 0, 0, false, ""
		return d
	}
	m := l.Endpoint.metering
	model := l.Model
	if !l.Record {
		model = gjson.GetBytes(l.Body, "model").Str
	}
	if strings.HasPrefix(model, "@") { // the form in which calls name a provider
		_, model, _ = strings.Cut(model, "/")
	}
	if model == "" {
		model = a.Model
	}
	d := a.demandOf(&m, l.Endpoint.Name, model)
	if d.Free || d.Unmetered != "" {
		return d
	}
	a.addJSON(&d, &m, l.Body)
	if d.Searches && d.Unpriced == "" { // which the output does not say
		d.Unpriced = "searches of the web in a batch"
	}
	if l.Record && d.Named > 0 { // Converse has its own name for it
		d.Most = d.Named
	}
	return d
}

// BatchName is what a batch or a fine-tuning job of the attempt's provider is found by, whose base URL is destination: a virtual key may be
// made to lead elsewhere, where nobody knows what the batch used.
func (a *Attempt) BatchName(destination, id string, job bool) policies.BatchName {
	r := a.Route
	account := "account " + r.Account
	switch {
	case r.Account != "":
	case r.KeyID != "":
		account = "key " + r.KeyID
	default:
		account = "provider " + r.Provider
	}
	if len(destination) > maxDestination {
		destination = fmt.Sprintf("%x", sha256.Sum256([]byte(destination)))
	}
	return policies.BatchName{WorkspaceID: a.call.Caller.WorkspaceID, Account: account + " " + destination, ID: id, Job: job}
}

// maxDestination bounds what a batch keeps of a base URL, in bytes.
const maxDestination = 256

// Reserved has what a verdict reserved kept for the batch that the attempts at the target make.
func (a *Attempt) Reserved(v *policies.Verdict) { a.verdict = v }

// Accepted notes the batch or the fine-tuning job that the provider has made of the call, and keeps what is reserved for it. It is called before the
// caller gets the batch's id. If there is an error, all that was reserved counts as used.
func (a *Attempt) Accepted(ctx context.Context, name policies.BatchName) error {
	b := &policies.Batch{BatchName: name, Provider: a.Route.Provider}
	if a.batch != nil && a.batch.was && a.batch.calls.Unnamed == "" {
		for i := range a.batch.calls.Models {
			b.Models = append(b.Models, a.batch.calls.Models[i].Model)
		}
	}
	parked, err := a.call.Gateway.Batches.Park(ctx, a.verdict, b)
	if a.batch != nil {
		a.batch.parked = parked
	}
	return err
}

// bookBatch is what an attempt is booked with that makes a batch: nothing if the batch holds what was reserved, or if there is
// none, and otherwise all of it.
func (a *Attempt) bookBatch() (b booked) {
	b.priced = true
	accepted := a.ProviderStatus >= 200 && a.ProviderStatus < 300
	if a.batch.parked || a.meter == nil || a.meter.demand.Lines == nil || !accepted && !a.Abandoned {
		return b
	}
	b.usage, b.estimated, b.cost = a.meter.most, true, a.meter.demand.Lines.Cost
	b.tokens = estimate.Sum(b.usage.Prompt, b.usage.Completion)
	return b
}

// BatchUsed notes what a batch used whose output the attempt has fetched, or fine-tuning jobs that have ended, so that the record of the call has it.
func (a *Attempt) BatchUsed(u *prices.Usage, cost prices.Amount, priced bool) {
	a.Usage = Usage{Known: true, Usage: *u}
	a.booked = &booked{tokens: estimate.Sum(u.Prompt, u.Completion), cost: cost, priced: priced, usage: *u}
}

// CostOf is what a call of a batch or a fine-tuning job cost, by the first of its models that has a price.
func (a *Attempt) CostOf(u *prices.Usage, models ...string) (cost prices.Amount, known bool) {
	for _, model := range models {
		if p := a.price(model); model != "" && p != nil {
			return p.Cost(u)
		}
	}
	return 0, false
}

// BatchLine returns the call that a line of a batch is, by its url; nil: that is not the path of an endpoint.
func BatchLine(url string) *Endpoint {
	if !strings.HasPrefix(url, "/v1/") { // as with Azure
		url = "/v1" + url
	}
	e, _ := EndpointOf(http.MethodPost, url)
	if e == nil || e.Passes || e.Path != url {
		return nil
	}
	return e
}
