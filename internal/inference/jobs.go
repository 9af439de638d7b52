package inference

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// tunes reports whether an endpoint is one of fine-tuning jobs.
func tunes(e *exchange.Endpoint) bool {
	switch e.Name {
	case exchange.CreateFinetune, "retrieveFinetune", "cancelFinetune", "listFinetunes":
		return true
	}
	return false
}

// trainingFile is the member with the file that a model is trained on. That to validate it costs nothing.
var trainingFile = []string{"training_file"}

// Members of the call that makes a fine-tuning job, and of its hyperparameters, of which it is known what they add to what
// the job uses: nothing, but for the file and the epochs.
var (
	membersOfJobs   = []string{"model", "training_file", "validation_file", "hyperparameters", "method", "suffix", "seed", "integrations", "metadata", "user"}
	hyperparameters = []string{"n_epochs", "batch_size", "learning_rate_multiplier", "beta"}
)

// maxEpochs bounds the epochs of a job, so that products stay numbers.
const maxEpochs = 1 << 20

// methods are those whose jobs train on what is in their file, with how often they read an example in an epoch: of a preference,
// the prompt is read with each of two answers.
var methods = map[string]int64{"supervised": 1, "dpo": 2}

// examples reads the lines of the file of a fine-tuning job.
func examples(body []byte, each func(*exchange.Line) string) (lineReader, string) {
	epochs, why := epochsOf(body)
	if why != "" {
		return nil, why
	}
	return func(_ string, line []byte) string {
		if jsonscan.Members(line, nil) != nil {
			return "it is not a JSON object"
		}
		return each(&exchange.Line{Body: line, Epochs: epochs})
	}, ""
}

// epochsOf returns how often a job reads each token of its file, as the call says that makes it. If that is not known, why says
// so.
func epochsOf(body []byte) (epochs int64, why string) {
	times, in := int64(1), "hyperparameters"
	var found map[string]gjson.Result
	if found, why = only(body, "", membersOfJobs); why != "" {
		return 0, why
	}
	params := found["hyperparameters"]
	if method := found["method"]; method.Type != gjson.Null {
		kind := method.Get("type").Str
		if times = methods[kind]; times == 0 {
			return 0, "it is not known what a job uses whose 'method.type' is not supervised or dpo"
		}
		if params.Type != gjson.Null {
			return 0, "it has both 'hyperparameters' and 'method', of which providers read one"
		}
		of, why := only([]byte(method.Raw), "method.", []string{"type", kind})
		if why != "" {
			return 0, why
		}
		if params = of[kind]; params.Type != gjson.Null {
			if of, why = only([]byte(params.Raw), "method."+kind+".", []string{"hyperparameters"}); why != "" {
				return 0, why
			}
			params = of["hyperparameters"]
		}
		in = "method." + kind + ".hyperparameters"
	}
	n := gjson.Result{}
	if params.Type != gjson.Null {
		of, why := only([]byte(params.Raw), in+".", hyperparameters)
		if why != "" {
			return 0, why
		}
		n = of["n_epochs"]
	}
	if n.Type != gjson.Number || n.Num != math.Trunc(n.Num) || n.Num < 1 || n.Num > maxEpochs {
		return 0, "how often it reads its file is chosen by the provider, unless '" + in + ".n_epochs' is a whole number from 1"
	}
	return int64(n.Num) * times, ""
}

// only returns the members of an object that are named in allowed, by name. If it has others that are not null, or a name twice,
// why says so.
func only(object []byte, prefix string, allowed []string) (found map[string]gjson.Result, why string) {
	found = make(map[string]gjson.Result, len(allowed))
	err := jsonscan.Members(object, func(m jsonscan.Member) error {
		name, value := m.Key.String(), gjson.ParseBytes(object[m.Start:m.End])
		_, twice := found[name]
		switch known := slices.Contains(allowed, name); {
		case twice:
			why = "it has '" + prefix + credentials.Clip(name) + "' twice"
		case known:
			found[name] = value
		case value.Type != gjson.Null:
			why = "it is not known what '" + prefix + credentials.Clip(name) + "' adds to what the job uses"
		}
		return nil
	})
	if err != nil {
		return nil, "'" + strings.TrimSuffix(prefix, ".") + "' is not an object"
	}
	return found, why
}

// A jobSum is what fine-tuning jobs used that have ended.
type jobSum struct {
	settled bool
	usage   prices.Usage
	cost    prices.Amount
	priced  bool // some have a price
}

// note notes it for the record of the call that read the jobs.
func (s *jobSum) note(a *exchange.Attempt) {
	if s.settled {
		a.BatchUsed(&s.usage, s.cost, s.priced)
	}
}

// seeJob books what a fine-tuning job used, once the provider says that it has ended.
func (s *seenBatches) seeJob(ctx context.Context, job gjson.Result) {
	x, a := s.rt.x, s.rt.attempt
	name := batchName(x, a, s.target, job.Get("id").Str)
	row := x.Gateway.Batches.AwaitedBatch(&name)
	if row == nil {
		return
	}
	u, known, ended := trainedBy(job)
	if !ended {
		return
	}
	var asked string
	if len(row.Models) == 1 {
		asked = row.Models[0]
	}
	cost, priced := prices.Amount(0), true
	if u.Trained > 0 {
		cost, priced = a.CostOf(&u, asked, job.Get("model").Str)
	}
	settled, err := x.Gateway.Batches.SettleBatch(ctx, &name, policies.Used{Tokens: u.Trained, Cost: cost, Unknown: !known, CostUnknown: !priced})
	if err != nil {
		s.h.f.logger.Error("booking what a fine-tuning job used", zap.String("job", name.ID), zap.String("trace_id", x.Trace.ID), zap.Error(err))
	}
	if settled {
		s.jobs.settled = true
		s.jobs.usage.Add(&u)
		s.jobs.cost, s.jobs.priced = s.jobs.cost.Plus(cost), s.jobs.priced || priced
	}
}

// trainedBy returns what a job used that has ended; known: the provider says how much. A job that failed without saying so used
// nothing. One that was cancelled may have used something: it is as one that goes on, until it is said how much.
func trainedBy(job gjson.Result) (u prices.Usage, known, ended bool) {
	n := job.Get("trained_tokens")
	known = n.Type == gjson.Number && n.Num >= 0
	if known {
		u.Trained = int64(min(n.Num, estimate.MaxTokens))
		u.Prompt = u.Trained
	}
	switch job.Get("status").Str {
	case "succeeded":
		return u, known, true
	case "failed":
		return u, known || n.Type == gjson.Null, true
	case "cancelled":
		return u, known, known
	}
	return u, known, false
}
