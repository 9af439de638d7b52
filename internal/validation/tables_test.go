package validation

// tables are all of them, and minimal is the least body that each accepts.
var (
	tables  = []*Table{Chat, Completion, Moderation, OCR, Response, Batch, FineTuningJob, Embedding, Unlisted}
	minimal = map[*Table]string{
		Chat:          `{"messages":[{"role":"user"}]}`,
		Completion:    `{}`,
		Moderation:    `{"input":""}`,
		OCR:           `{"document":{"type":"file"}}`,
		Response:      `{}`,
		Batch:         `{"input_file_id":"f","endpoint":"/v1/chat/completions","completion_window":"24h"}`,
		FineTuningJob: `{"training_file":"f"}`,
		Embedding:     `{"input":"x"}`,
		Unlisted:      `{}`,
	}
)
