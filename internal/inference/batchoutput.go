package inference

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/exchange"
)

// batchOutput is the stage that finds the output of a batch: the file that the batch names, so
// that a call for the output becomes one for the file's content.
type batchOutput struct{ f *Forwarder }

// Before takes part in calls for the output of a batch.
func (h *batchOutput) Before(_ context.Context, c *Candidate) (Visit, *Reply, *exchange.Error) {
	if c.Endpoint.Name != exchange.BatchOutput {
		return nil, nil, nil
	}
	return &outputFile{f: h.f, c: c}, nil, nil
}

// outputFile is the visit of a call for the output of a batch. It holds nothing.
type outputFile struct {
	f *Forwarder
	c *Candidate
}

// Path asks the provider for the batch, and returns the path of the file with its output, or of
// the one with its errors if it has no output.
func (v *outputFile) Path(ctx context.Context) (string, *exchange.Error) {
	x, target := v.c.Exchange, v.c.Chosen()
	status, body, err := v.f.fetch(ctx, x, target, v.c.Target, operation{"retrieveBatch", http.MethodGet, strings.TrimSuffix(x.Path, "/output"), ""})
	switch {
	case err != nil:
		return "", (&request{call: x.Call, target: target}).failure(err)
	case status != http.StatusOK:
		return "", &exchange.Error{
			Status: status, Type: "provider_error", Code: "batch_unavailable",
			Message: "Provider " + target.Route.Provider + " answered " + strconv.Itoa(status) + " for the batch",
		}
	}
	(&batches{v.f}).see(ctx, x, target, v.c.Target, gjson.ParseBytes(body))
	for _, field := range []string{"output_file_id", "error_file_id"} {
		if id := gjson.GetBytes(body, field).Str; id != "" && !strings.ContainsAny(id, "/?#%\\") {
			return "/files/" + id + "/content", nil
		}
	}
	return "", &exchange.Error{
		Status: http.StatusBadRequest, Type: "invalid_request_error", Param: "batch_id", Code: "batch_not_completed",
		Message: "The batch has no output yet; its status is " + gjson.GetBytes(body, "status").Str,
	}
}

// Header returns nil: no header is about the output's file.
func (*outputFile) Header() []exchange.HeaderField { return nil }

// Settle does nothing.
func (*outputFile) Settle([]*exchange.Attempt) {}

// Release does nothing.
func (*outputFile) Release() {}

// Interface guards
var (
	_ Hook     = (*batchOutput)(nil)
	_ Visit    = (*outputFile)(nil)
	_ PathHook = (*outputFile)(nil)
)
