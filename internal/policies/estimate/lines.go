package estimate

import (
	"strings"

	"github.com/caddy-gw/gateway/internal/prices"
)

// Lines are the calls that a batch makes of the lines of its file, or the examples of a fine-tuning job.
type Lines struct {
	LinesOf // all of them, without a model

	// Models are those of each model, at most MaxModels. Unnamed is why they are not the calls of all models; "": they are.
	Models  []LinesOf
	Unnamed string
	// Others: a line may be answered by another model than the one that it names.
	Others bool

	// Charge is what the price is not known of, if it is not that of a model.
	Charge string

	// Trains: they are the examples of a fine-tuning job, of a model that only the call names.
	Trains bool
}

// LinesOf are calls of a batch, together.
type LinesOf struct {
	Model string
	Calls int64
	Most  prices.Usage // that they may use
	Cost  prices.Amount
	// Unpriced: the price of some of their models, or of what else these do, is not known. What that costs is not in Cost.
	Unpriced bool
}

// MaxModels bounds the models of a batch that are told apart.
const MaxModels = 16

const maxModelName = 512 // bytes

// Add adds a call, which asks for d. unnamed is why it may be answered by another model; "": it is not.
func (l *Lines) Add(e *Estimator, d *Demand, unnamed string) {
	most := e.mostOfLine(d)
	cost, priced := d.Cost(&most)
	if d.Unpriced != "" {
		priced, l.Charge = false, d.Unpriced
	}
	l.add(&most, cost, priced)
	switch {
	case unnamed != "":
		l.Unnamed, l.Others = unnamed, true
	case d.Model.Name == "":
		l.Unnamed = "a line names no model"
	case len(d.Model.Name) > maxModelName:
		l.Unnamed = "a line names a model of more than 512 bytes"
	default:
		if of := l.of(d.Model.Name); of != nil {
			of.add(&most, cost, priced)
		} else {
			l.Unnamed = "the lines name too many models"
		}
	}
}

// of returns the calls of a model; nil: there are too many models.
func (l *Lines) of(model string) *LinesOf {
	for i := range l.Models {
		if l.Models[i].Model == model {
			return &l.Models[i]
		}
	}
	if len(l.Models) == MaxModels {
		return nil
	}
	l.Models = append(l.Models, LinesOf{Model: strings.Clone(model)})
	return &l.Models[len(l.Models)-1]
}

func (l *LinesOf) add(most *prices.Usage, cost prices.Amount, priced bool) {
	l.Calls++
	l.Cost = l.Cost.Plus(cost)
	l.Unpriced = l.Unpriced || !priced
	l.Most.Add(most)
	l.Most.Prompt, l.Most.Completion = min(l.Most.Prompt, MaxTokens), min(l.Most.Completion, MaxTokens)
	l.Most.Trained = min(l.Most.Trained, l.Most.Prompt)
}
