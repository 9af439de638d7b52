package inference

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/exchange"
)

// How often a job reads its file is what the call says, wherever it may stand, or not known.
func TestEpochsOfAJob(t *testing.T) {
	t.Parallel()
	for more, want := range map[string]struct {
		epochs int64
		why    string
	}{
		`"hyperparameters":{"n_epochs":3}`: {3, ""},
		`"hyperparameters":{"n_epochs":3.0,"batch_size":"auto","learning_rate_multiplier":2},"seed":1`:  {3, ""},
		`"method":{"type":"supervised","supervised":{"hyperparameters":{"n_epochs":4}}},"suffix":"s"`:   {4, ""},
		`"method":{"type":"dpo","dpo":{"hyperparameters":{"n_epochs":4,"beta":0.1}}},"integrations":[]`: {8, ""},
		`"method":null,"hyperparameters":{"n_epochs":1},"validation_file":"v","metadata":{},"user":"u"`: {1, ""},
		`"unknown":null,"hyperparameters":{"n_epochs":1}`:                                               {1, ""},
		`"suffix":"s"`:                                        {0, "'hyperparameters.n_epochs' is a whole number"},
		`"hyperparameters":{}`:                                {0, "'hyperparameters.n_epochs'"},
		`"hyperparameters":{"n_epochs":"auto"}`:               {0, "'hyperparameters.n_epochs'"},
		`"hyperparameters":{"n_epochs":"3"}`:                  {0, "'hyperparameters.n_epochs'"},
		`"hyperparameters":{"n_epochs":0}`:                    {0, "'hyperparameters.n_epochs'"},
		`"hyperparameters":{"n_epochs":1.5}`:                  {0, "'hyperparameters.n_epochs'"},
		`"hyperparameters":{"n_epochs":1e9}`:                  {0, "'hyperparameters.n_epochs'"},
		`"hyperparameters":{"N_epochs":3}`:                    {0, "'hyperparameters.N_epochs'"},
		`"hyperparameters":{"n_epochs":3,"n_\u0065pochs":90}`: {0, "twice"},
		`"hyperparameters":{"n_epochs":3,"epochs":90}`:        {0, "'hyperparameters.epochs'"},
		`"hyperparameters":3`:                                 {0, "'hyperparameters' is not an object"},
		`"method":{"type":"supervised"}`:                      {0, "'method.supervised.hyperparameters.n_epochs'"},
		`"method":{"type":"supervised","supervised":{"hyperparameters":{"n_epochs":1}},"dpo":{}}`:     {0, "'method.dpo'"},
		`"method":{"type":"supervised","supervised":{"n_epochs":9,"hyperparameters":{"n_epochs":1}}}`: {0, "'method.supervised.n_epochs'"},
		`"method":{"type":"reinforcement","reinforcement":{"hyperparameters":{"n_epochs":1}}}`:        {0, "'method.type'"},
		`"method":{"supervised":{"hyperparameters":{"n_epochs":1}}}`:                                  {0, "'method.type'"},
		`"method":{"type":"supervised"},"hyperparameters":{"n_epochs":1}`:                             {0, "both"},
		`"training_files":["f"],"hyperparameters":{"n_epochs":1}`:                                     {0, "'training_files'"},
		`"n_epochs":90,"hyperparameters":{"n_epochs":1}`:                                              {0, "'n_epochs'"},
	} {
		epochs, why := epochsOf([]byte(`{"model":"m","training_file":"f",` + more + `}`))
		if epochs != want.epochs || (why == "") != (want.why == "") || !strings.Contains(why, want.why) {
			t.Errorf("%s: %d, %q; want %d, %q", more, epochs, why, want.epochs, want.why)
		}
	}
}

// Every line of the file is an example.
func TestExamplesOfAJob(t *testing.T) {
	t.Parallel()
	var all []exchange.Line
	read, why := examples([]byte(`{"model":"m","training_file":"f","hyperparameters":{"n_epochs":3}}`), func(l *exchange.Line) string {
		all = append(all, *l)
		return ""
	})
	if why != "" {
		t.Fatal(why)
	}
	if why := read("f", []byte(`{"prompt":"a","completion":"b"}`)); why != "" || len(all) != 1 || all[0].Epochs != 3 || len(all[0].Body) != 31 {
		t.Errorf("%q, %+v", why, all)
	}
	for _, line := range []string{`[]`, `text`, `{"a":1`} {
		if why := read("f", []byte(line)); why == "" || len(all) != 1 {
			t.Errorf("%s is read", line)
		}
	}
}

// A job that has ended used what its provider says. One that was cancelled is not settled before that is said.
func TestWhatAJobUsed(t *testing.T) {
	t.Parallel()
	for job, want := range map[string]struct {
		tokens       int64
		known, ended bool
	}{
		`{"status":"succeeded","trained_tokens":5}`:     {5, true, true},
		`{"status":"succeeded","trained_tokens":1e300}`: {1 << 53, true, true},
		`{"status":"succeeded","trained_tokens":null}`:  {0, false, true},
		`{"status":"succeeded","trained_tokens":"5"}`:   {0, false, true},
		`{"status":"succeeded","trained_tokens":-5}`:    {0, false, true},
		`{"status":"failed","trained_tokens":5}`:        {5, true, true},
		`{"status":"failed","trained_tokens":null}`:     {0, true, true},
		`{"status":"failed"}`:                           {0, true, true},
		`{"status":"failed","trained_tokens":"5"}`:      {0, false, true},
		`{"status":"cancelled","trained_tokens":5}`:     {5, true, true},
		`{"status":"cancelled","trained_tokens":0}`:     {0, true, true},
		`{"status":"cancelled","trained_tokens":null}`:  {0, false, false},
		`{"status":"cancelled"}`:                        {0, false, false},
		`{"status":"running","trained_tokens":5}`:       {5, true, false},
		`{"status":"paused"}`:                           {0, false, false},
		`{"error":{"message":"no"}}`:                    {0, false, false},
	} {
		u, known, ended := trainedBy(gjson.Parse(job))
		if u.Trained != want.tokens || u.Prompt != want.tokens || known != want.known || ended != want.ended {
			t.Errorf("%s: %+v, %v, %v", job, u, known, ended)
		}
	}
}
