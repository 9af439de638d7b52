package bedrock

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
	"github.com/caddy-gw/gateway/providers/messages"
)

const maxRecord = 32 << 20 // a record repeats its input

// results converts the output of a job, record by record, to the output of a batch:
// {recordId, modelInput, modelOutput or error} becomes {id, custom_id, response, error}.
type results struct {
	file
	provider string
	strict   bool
	created  time.Time
	line     []byte
	at       int
}

// Translate appends the records that are complete.
func (s *results) Translate(dst, src []byte) ([]byte, error) {
	for {
		line, rest, whole := bytes.Cut(src, []byte{'\n'})
		if len(s.line)+len(line) > maxRecord {
			return dst, errors.New("a record of more than " + strconv.Itoa(maxRecord) + " bytes")
		}
		s.line = append(s.line, line...)
		if !whole {
			return dst, nil
		}
		dst, src = s.take(dst), rest
	}
}

// End appends the last record, which need not end with a newline.
func (s *results) End(dst []byte) ([]byte, error) { return s.take(dst), nil }

func (s *results) take(dst []byte) []byte {
	line := bytes.TrimSpace(s.line)
	s.line = s.line[:0]
	if len(line) == 0 {
		return dst
	}
	s.at++
	var id chat.Literal
	var output, failure chat.Raw
	r := jsonscan.NewReader(line)
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "recordId":
			id = r.String()
		case "modelOutput":
			output = r.Value()
		case "error":
			failure = r.Value()
		}
	})
	name := s.unique + "-" + strconv.Itoa(s.at)
	b := jsonscan.Builder(dst)
	b.Open('{')
	b.Key("id").Text("batch_req_" + name)
	b.Key("custom_id").Text(customID(id.Text()))
	status, body := s.body(name, output, failure)
	if r.Err() != nil || body == nil {
		b.Key("response").Raw([]byte("null"))
		b.Key("error").Open('{')
		b.Key("code").Text("unreadable_output")
		b.Key("message").Text("The record of the model's output cannot be read")
		b.Close('}')
	} else {
		b.Key("response").Open('{')
		b.Key("status_code").Int(int64(status))
		b.Key("request_id").Text(name)
		b.Key("body").Raw(body)
		b.Close('}')
		b.Key("error").Raw([]byte("null"))
	}
	b.Close('}')
	return append(b, '\n')
}

// body returns the answer to a single call, or nil if it cannot be read.
func (s *results) body(name string, output, failure chat.Raw) (status int, body []byte) {
	if failure != nil {
		failed := jsonscan.NewReader(failure)
		f := providers.Failure{Status: http.StatusInternalServerError, Type: "api_error"}
		failed.Object(func(key jsonscan.Key) {
			switch string(key.Bytes()) {
			case "errorCode":
				if code := chat.Int(failed.Value()); code >= 400 && code < 600 {
					f.Status = int(code)
				}
			case "errorMessage":
				f.Message = chat.Literal(failed.String()).Text()
			}
		})
		if f.Status < http.StatusInternalServerError {
			f.Type = "invalid_request_error"
		}
		if f.Message == "" {
			f.Message = providers.Answered(f.Status)
		}
		return f.Status, f.Append(nil, providers.ChatComplete, s.provider)
	}
	var message bool
	r := jsonscan.NewReader(output)
	r.Object(func(key jsonscan.Key) { message = message || key.Is("content") })
	decoder := chat.Decoder(new(Decoder))
	if message { // the output of an InvokeModel job, which was created elsewhere
		decoder = new(messages.Decoder)
	}
	w := &chat.Completion{Style: chat.Style{
		ID: "chatcmpl-" + name, Created: max(0, s.created.Unix()), Model: s.model, Provider: s.provider, Strict: s.strict,
	}}
	if output == nil || decoder.Body(output, w) != nil || w.Failed() != nil {
		return 0, nil
	}
	return http.StatusOK, w.Append(nil)
}

// Interface guards
var _ providers.Stream = (*results)(nil)
