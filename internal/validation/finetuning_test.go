package validation

import "testing"

func TestFineTuningJobRows(t *testing.T) {
	testRules(t, FineTuningJob, `{"training_file":"f"}END`, []rule{
		metadataRule,
		{"model", []string{`"m"`}, notText, nil},
		{"validation_file", []string{`"f"`}, notText, nil},
		{"hyperparameters", []string{`{}`, `{"n_epochs":"auto"}`, `{"n_epochs":3,"batch_size":"auto"}`}, notObject, map[string]string{`{"n_epochs":1.5}`: InvalidType + " hyperparameters.n_epochs", `{"n_epochs":true}`: InvalidType + " hyperparameters.n_epochs"}},
		{"seed", []string{`0`, `-1`, `42`}, notInteger, nil},
		{"integrations", []string{`[]`, `[{"type":"wandb","wandb":{"project":"p"}}]`, `[{"tracker":{"project":"p","name":null,"entity":"e","tags":["a"]}},{"tracker":{"tags":[]}}]`, list(5, `{}`)}, []string{`"x"`, `1`, `true`, `{}`}, map[string]string{
			list(6, `{}`): ArrayAboveMax, `[1]`: InvalidType + " integrations[0]", `[{"tracker":{"project":1}}]`: InvalidType + " integrations[0].tracker.project", `[{"tracker":{"name":[]}}]`: InvalidType + " integrations[0].tracker.name",
			`[{"tracker":{"entity":{}}}]`: InvalidType + " integrations[0].tracker.entity", `[{"tracker":1}]`: InvalidType + " integrations[0].tracker", `[{},{"tracker":{"tags":["a",1]}}]`: InvalidType + " integrations[1].tracker.tags[1]",
		}},
	})
	mustRefuse(t, FineTuningJob, `{"model":"m"}`, "training_file", MissingParameter)
	mustRefuse(t, FineTuningJob, `{"training_file":null}`, "training_file", MissingParameter)
	mustRefuse(t, FineTuningJob, `{"training_file":7}`, "training_file", InvalidType)
}
