package admin

import (
	"errors"
	"net/http"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/policies"
)

type updateBatch struct {
	OutputFile string `json:"internal_output_file_id" minLength:"1" maxLength:"2048" doc:"The provider's id of the file with the batch's output. What the batch used is booked when that file is read through the gateway, if the provider confirms that it is the batch's output."`
}

// Batch is what the audit trail shows of a batch.
type Batch struct {
	ID         string  `json:"id"`
	Provider   string  `json:"provider"`
	OutputFile *string `json:"internal_output_file_id"`
}

func (a *API) batches() {
	batches := &resource[policies.Batch]{
		path: "/batches", param: "batch_id", noun: "batch", kind: audit.Batches, onlyV2: true,
		scopes:    func(string) []string { return []string{credentials.ScopeCompletions} },
		find:      (*call).findBatch,
		name:      func(b *policies.Batch) string { return b.ID },
		workspace: func(b *policies.Batch) string { return b.WorkspaceID },
	}
	batches.shownBy(a, func(_ *call, b *policies.Batch) (any, error) {
		return Batch{ID: b.ID, Provider: b.Provider, OutputFile: text(b.OutputFile)}, nil
	})
	act(a, batches, http.MethodPut, "", "write", "Tell which file has the output of a batch", func(c *call, b *policies.Batch, in *updateBatch) (*empty, error) {
		if b.Settled {
			return nil, failure(http.StatusConflict, "What the batch used is booked already, or given back")
		}
		err := c.api.Batches.NameOutput(c.tx, b, in.OutputFile)
		if wrong := (*policies.FieldError)(nil); errors.As(err, &wrong) {
			return nil, invalid(wrong.Field, "%s", wrong.Message)
		}
		return &empty{}, err
	})
}

// findBatch finds a batch by the provider's id, among those that the caller may see.
func (c *call) findBatch(id string) (*policies.Batch, error) {
	var latest *policies.Batch
	for _, b := range c.api.Batches.Named(id) {
		if c.maySee(b.WorkspaceID) && (latest == nil || b.CreatedAt.After(latest.CreatedAt)) {
			latest = b
		}
	}
	return found(latest, latest != nil)
}
