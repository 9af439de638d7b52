package validation

// FineTuningJob is the request that creates a fine-tuning job (Fine-tuning job, the
// fields that a request sets; Limits).
var FineTuningJob = newTable(
	"fine-tuning job",
	Field{Name: "model", Need: AfterMerge, Value: text},
	Field{Name: "training_file", Need: Required, Value: text},
	Field{Name: "validation_file", Value: text},
	Field{Name: "hyperparameters", Value: objectWith(
		Field{Name: "n_epochs", Value: integer.or(String)}, // "one shown value is the string auto"
	)},
	Field{Name: "seed", Value: integer},
	Field{Name: "integrations", Value: arrayOf(integration, 0, 5)},
	Field{Name: "metadata", Value: metadata},
	Field{Name: "user", Value: anything}, // not of the table, but the gateway reads it
	Field{Name: "method", Value: anything},
)

var integration = objectWith(Field{Name: "tracker", Value: objectWith(
	Field{Name: "project", Value: text},
	Field{Name: "name", Value: text},
	Field{Name: "entity", Value: text},
	Field{Name: "tags", Value: arrayOf(text, 0, 0)},
)})
