package exchange

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddy-gw/gateway/internal/forms"
)

// readLines sends a file through in portions, and reports whether its lines were read and name only
// what begins with "own".
func readLines(file, header string, portions func(io.Reader) io.Reader) bool {
	const disposition = "Content-Disposition: form-data; name=\"file\"; filename=\"f.jsonl\""
	form := "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--b\r\n" + disposition + header + "\r\n\r\n" + file + "\r\n--b--\r\n"
	f := &formNames{lines: new(fileLines)}
	f.must(func(ids, params []string) *Error {
		for i, id := range ids {
			if params[i] != "model" && !strings.HasPrefix(id, "own") || params[i] == "model" && fineTuned(id) {
				return badRequest("", "", "")
			}
		}
		return nil
	})
	passed, err := io.ReadAll(forms.NewReader(portions(strings.NewReader(form)), "b", -1, f))
	return err == nil && string(passed) == form && f.linesRead()
}

func TestLinesOfAFileNameOnlyWhatTheyMay(t *testing.T) {
	t.Parallel()
	call := func(body string) string {
		return `{"custom_id":"1","method":"POST","url":"/v1/responses","body":` + body + `}`
	}
	for _, c := range []struct {
		name, file, header string
		want               bool
	}{
		{"calls that name nothing", call(`{"model":"m","input":"hi"}`) + "\n" + call(`{"model":"m"}`) + "\n\n", "", true},
		{"its own objects", call(`{"previous_response_id":"own-1"}`), "", true},
		{"another's", call(`{"model":"m"}`) + "\r\n" + call(`{"previous_response_id":"other"}`), "", false},
		{"another's, at the end of a line", call(`{"file_id":"other"}`) + "\n", "", false},
		{"an item of another's", call(`{"input":[{"type":"reasoning","id":"other"}]}`), "", false},
		{"a model of another's", call(`{"model":"ft:m"}`), "", false},
		{"text", "what: it is\nno JSON", "", true},
		{"a line that others take for two", "x\v" + call(`{"previous_response_id":"other"}`), "", false},
		{"a line that others take for two, too", "x\f" + call(`{"previous_response_id":"other"}`), "", false},
		{"an empty file", "", "", true},
		{"what is not JSON to all", call(`{"x":NaN,"file_id":"other"}`), "", false},
		{"several values in a line", `{"a":1} {"file_id":"own"}`, "", false},
		{"a mark of the byte order", "\xef\xbb\xbf" + call(`{}`), "", false},
		{"UTF-16", "\x00{\x00}\x00\n", "", false},
		{"UTF-16, little endian", "{\x00}\x00\n\x00", "", false},
		{"a part in UTF-7", "+AHs-", "\r\nContent-Type: application/jsonl; charset=utf-7", false},
		{"an encoded part", "e30=", "\r\nContent-Transfer-Encoding: base64", false},
		{"a long line", call(`{"x":"` + strings.Repeat("a", maxLine/2) + `","file_id":"other"}`), "", false},
		{"a long line of its own", call(`{"x":"` + strings.Repeat("a", maxLine/2) + `","file_id":"own"}`), "", true},
		{"a line that is too long", `"` + strings.Repeat("a", maxLine) + `"`, "", false},
	} {
		for _, portions := range []func(io.Reader) io.Reader{
			func(r io.Reader) io.Reader { return r }, iotest.HalfReader,
			func(r io.Reader) io.Reader {
				if len(c.file) > 1000 {
					return r
				}
				return iotest.OneByteReader(r)
			},
		} {
			if got := readLines(c.file, c.header, portions); got != c.want {
				t.Errorf("%s: read %v, want %v", c.name, got, c.want)
			}
		}
	}
}

// What breaks off, or has no readable parts, is no form, whether its lines are read or not.
func TestAFormWhoseLinesAreNotReadIsRefused(t *testing.T) {
	t.Parallel()
	for _, form := range []string{
		"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n{}\n", "--b\r\nno header\r\n\r\n{}\r\n--b--\r\n", "nothing",
	} {
		f := &formNames{lines: new(fileLines)}
		if passed, err := io.ReadAll(forms.NewReader(strings.NewReader(form), "b", int64(len(form)), f)); err == nil || len(passed) > 0 || f.linesRead() {
			t.Errorf("%q: %q, %v, read %v", form, passed, err, f.linesRead())
		}
	}
}

// However a file comes in portions, the result for its lines is the same.
func FuzzLinesOfAFile(f *testing.F) {
	for _, seed := range []string{"{}\n{\"file_id\":\"own\"}", "{\"file_id\":\"x\"}\n", "a\r\n\r\n--", "\r\n--b", "\x00", "[1,\n2]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		if bytes.Contains(file, []byte("--b")) {
			return
		}
		whole := readLines(string(file), "", func(r io.Reader) io.Reader { return r })
		if got := readLines(string(file), "", iotest.OneByteReader); got != whole {
			t.Errorf("%q: read %v at once, %v byte by byte", file, whole, got)
		}
	})
}
