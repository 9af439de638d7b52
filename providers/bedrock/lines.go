package bedrock

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

const (
	maxLine    = 8 << 20
	maxID      = 512 // bytes of a custom_id
	batchedURL = "/v1/chat/completions"
)

// lines turns the input of a batch, line by line, into that of a job whose records are
// calls of Converse: {custom_id, method, url, body} into {recordId, modelInput}.
type lines struct {
	c     providers.Call
	r     *bufio.Reader
	line  []byte
	at    int    // number of the line
	model string // named by all lines

	records int
}

func newLines(c *providers.Call, r io.Reader) *lines {
	l := &lines{c: *c, r: bufio.NewReaderSize(r, 64<<10)}
	beta := c.Header("Anthropic-Beta") // the header may be reused by the time the later lines are read
	l.c.Header = func(name string) string {
		if name == "Anthropic-Beta" {
			return beta
		}
		return ""
	}
	return l
}

func (l *lines) chunk() (out []byte, last bool, err error) {
	for len(out) < partSize {
		line, err := l.read()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, false, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			var wrong error
			if out, wrong = l.record(out, line); wrong != nil {
				return nil, false, wrong
			}
		}
		if err != nil {
			if l.records == 0 {
				return nil, false, l.refuse("", "empty_file", "there is no call in the file")
			}
			return out, true, nil
		}
	}
	return out, false, nil
}

// read returns the next line, or io.EOF at the end of the file.
func (l *lines) read() ([]byte, error) {
	l.at++
	l.line = l.line[:0]
	for {
		piece, err := l.r.ReadSlice('\n')
		if l.line = append(l.line, piece...); len(l.line) > maxLine {
			return nil, l.refuse("", "line_too_long", "it has more than "+strconv.Itoa(maxLine)+" bytes")
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return l.line, err
		}
	}
}

// refuse returns an error that names the invalid line.
func (l *lines) refuse(param, code, why string) error {
	at := "line " + strconv.Itoa(l.at)
	if param != "" {
		at += ", " + param
	}
	return &providers.RequestError{Param: "file", Code: code, Message: "Invalid batch input in " + at + ": " + why}
}

func (l *lines) record(dst, line []byte) ([]byte, error) {
	var id, method, to chat.Literal
	var body chat.Raw
	r := jsonscan.NewReader(line)
	ok := r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "custom_id":
			id = r.String()
		case "method":
			method = r.String()
		case "url":
			to = r.String()
		case "body":
			body = r.Value()
		}
	})
	switch {
	case !ok || r.Err() != nil:
		return nil, l.refuse("", "invalid_json_line", "it is not a JSON object")
	case id.Empty() || len(id) > maxID:
		return nil, l.refuse("custom_id", "invalid_custom_id", fmt.Sprintf("expected a string of 1 to %d bytes", maxID-2))
	case !method.Is("POST"):
		return nil, l.refuse("method", "invalid_method", "expected POST")
	case !to.Is(batchedURL):
		return nil, l.refuse("url", "invalid_url", "batches of this provider are for "+batchedURL+" only")
	}
	model := gjson.GetBytes(body, "model").Str
	if strings.HasPrefix(model, "@") { // the form in which calls name a provider
		_, model, _ = strings.Cut(model, "/")
	}
	if l.records++; l.records == 1 {
		l.model = model
	}
	if model != l.model {
		return nil, l.refuse("body.model", "mismatched_model", "all lines of a batch must name the same model")
	}
	l.c.Model, l.c.Body = model, body
	asked, err := chat.Parse(body)
	if err == nil {
		asked.Model, asked.Stream = chat.Quote(model), false
		body, err = converse(&l.c, asked)
	}
	if unsupported := new(chat.Unsupported); errors.As(err, &unsupported) {
		code := unsupported.Code
		if code == "" {
			code = "unsupported_parameter"
		}
		return nil, l.refuse("body."+unsupported.Param, code, unsupported.Message)
	}
	if err != nil {
		return nil, l.refuse("body", "invalid_body", err.Error())
	}
	b := jsonscan.Builder(dst)
	b.Open('{')
	b.Key("recordId").Text(recordID(id.Text()))
	b.Key("modelInput").Raw(body)
	b.Close('}')
	return append(b, '\n'), nil
}

// hexID is the prefix of record ids that encode ids with other characters.
const hexID = "gwx"

// recordID converts an id to a record id, which consists of letters and digits.
func recordID(custom string) string {
	if strings.HasPrefix(custom, hexID) || strings.ContainsFunc(custom, func(r rune) bool { return r >= 0x80 || !letterOrDigit(byte(r)) }) {
		return hexID + hex.EncodeToString([]byte(custom))
	}
	return custom
}

// customID returns the caller's id of a record.
func customID(record string) string {
	if encoded, ok := strings.CutPrefix(record, hexID); ok {
		if custom, err := hex.DecodeString(encoded); err == nil {
			return string(custom)
		}
	}
	return record
}
