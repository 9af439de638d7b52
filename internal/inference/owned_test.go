package inference

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestObjectsOfOthersAreRefusedBeforeACallIsCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shared(t)
	w, _ := b.request(t, http.MethodGet, "/files/file-1", "", &recordingLimiter{b, ""}, "X-Gw-Provider", "one")
	if w.Code != 404 || !strings.Contains(w.Body.String(), "object_not_found") || len(b.events) > 0 {
		t.Errorf("%d, events %q: %s", w.Code, b.events, w.Body)
	}
}

func TestObjectsThatABodyNamesAreRefusedBeforeItIsSent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shared(t)
	body := `{"input_file_id":"file-1","endpoint":"/v1/chat/completions","completion_window":"24h"}`
	w, _ := b.request(t, http.MethodPost, "/batches", body, &recordingLimiter{b, ""}, "X-Gw-Provider", "one")
	if want := []string{"admit one", "release one"}; w.Code != 404 || !slices.Equal(b.events, want) {
		t.Errorf("%d, events %q: %s", w.Code, b.events, w.Body)
	}
}

func TestWhatACallCreatesIsItsWorkspaces(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shared(t)
	b.answers["/v1/vector_stores"] = func() *http.Response {
		return answering(200, "application/json", `{"id":"vs_1","object":"vector_store"}`)
	}
	b.answers["/v1/vector_stores/vs_1"] = b.answers["/v1/vector_stores"]
	for _, c := range []struct{ method, path, body string }{
		{http.MethodPost, "/vector_stores", `{"name":"n"}`},
		{http.MethodGet, "/vector_stores/vs_1", ""},
	} {
		if w, _ := b.request(t, c.method, c.path, c.body, nil, "X-Gw-Provider", "one"); w.Code != 200 || !strings.Contains(w.Body.String(), "vs_1") {
			t.Errorf("%s %s: %d: %s", c.method, c.path, w.Code, w.Body)
		}
	}
	owns, err := b.gateway.Owners.Owns(t.Context(), "another", "one", []string{"vs_1"})
	if err != nil || owns[0] {
		t.Errorf("another workspace owns it: %v, %v", owns, err)
	}
}

func TestABatchIsAskedForItsOutputOnceTheCallIsCounted(t *testing.T) {
	t.Parallel()
	batch := func(body string) func() *http.Response {
		return func() *http.Response { return answering(200, "application/json", body) }
	}
	for name, c := range map[string]struct {
		batch, refuse string
		status        int
		body          string
		events        []string
	}{
		"a batch with an output": {
			batch: `{"status":"completed","output_file_id":"file-1"}`, status: 200, body: "the output",
			events: []string{"admit one", "sent to one", "/v1/batches/b1", "sent to one", "/v1/files/file-1/content", "settle one"},
		},
		"a batch that is not done": {
			batch: `{"status":"in_progress"}`, status: 400, body: "batch_not_completed",
			events: []string{"admit one", "sent to one", "/v1/batches/b1", "release one"},
		},
		"a limit": {
			refuse: "one", status: 429, events: []string{"refuse one"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.hooks = []Hook{&batchOutput{b.Forwarder}}
			b.answers["/v1/batches/b1"] = batch(c.batch)
			b.answers["/v1/files/file-1/content"] = func() *http.Response { return answering(200, "application/octet-stream", "the output") }
			w, _ := b.request(t, http.MethodGet, "/batches/b1/output", "", &recordingLimiter{b, c.refuse}, "X-Gw-Provider", "one")
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) || !slices.Equal(b.events, c.events) {
				t.Errorf("%d, events %q: %s", w.Code, b.events, w.Body)
			}
		})
	}
}

// Workspaces that share a credential do not share the keys by which a provider tells a call that is repeated, in either header.
func TestKeysOfIdempotencyAreThoseOfAWorkspace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shared(t)
	got := make(map[string]string)
	b.serve = func(r *http.Request) *http.Response {
		for name, values := range r.Header {
			got[http.CanonicalHeaderKey(name)] = values[0]
		}
		return answering(200, "application/json", answerOf("one"))
	}
	b.call(t, plainChat, nil, "X-Gw-Provider", "@one", "X-Gw-Forward-Headers", "X-Idempotency-Key", "Idempotency-Key", "k", "X-Idempotency-Key", "k")
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if got[name] == "" || got[name] == "k" {
			t.Errorf("%s: %q", name, got[name])
		}
	}
}
