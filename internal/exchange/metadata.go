package exchange

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Bounds of a request's metadata, which may be any JSON object. It is bounded so that metadata
// can be logged, grouped by and compared.
const (
	maxMetadata        = 16 << 10 // bytes
	maxMetadataMembers = 64       // of the object itself
	maxMetadataDepth   = 8        // objects and arrays, the object itself included
	maxMetadataText    = 128      // characters of a key, and of a text
)

// userKey is the entry that holds the user of the caller's key.
const userKey = "_user"

// readMetadata reads x-gw-metadata, and baggage (W3C Baggage), whose entries are added.
func (c *Call) readMetadata(h http.Header) *Error {
	if lines := h["Baggage"]; lines != nil {
		c.baggage = baggage(lines)
	}
	raw, ok := c.Gateway.Headers.Get(h, HeaderMetadata)
	if raw == "" {
		return nil
	}
	why := "x-gw-metadata must be one JSON object"
	if ok {
		err := checkMetadata(raw)
		if err == nil {
			c.metadata = raw
			return nil
		}
		var syntax *jsonscan.SyntaxError
		if !errors.As(err, &syntax) {
			why = "x-gw-metadata has " + err.Error()
		}
	}
	return badRequest("x-gw-metadata", "invalid_metadata", "Invalid metadata passed: "+why)
}

var (
	errMetadataSize    = fmt.Errorf("more than %d bytes", maxMetadata)
	errMetadataMembers = fmt.Errorf("more than %d members", maxMetadataMembers)
	errMetadataDepth   = fmt.Errorf("more than %d objects and arrays within each other", maxMetadataDepth)
	errMetadataKey     = fmt.Errorf("a key of more than %d characters", maxMetadataText)
	errMetadataText    = fmt.Errorf("a text of more than %d characters", maxMetadataText)
	errMetadataUTF8    = errors.New("bytes that are not UTF-8")
)

// checkMetadata checks the bounds of metadata in one pass with its syntax.
func checkMetadata(raw string) error {
	switch {
	case len(raw) > maxMetadata:
		return errMetadataSize
	case !utf8.ValidString(raw):
		return errMetadataUTF8
	}
	s := jsonscan.Scanner(raw)
	var value func(at, depth int) (int, error)
	member := func(depth int) func(jsonscan.Key, int) (int, error) {
		return func(key jsonscan.Key, at int) (int, error) {
			if utf8.RuneCount(key.Bytes()) > maxMetadataText {
				return 0, errMetadataKey
			}
			return value(at, depth)
		}
	}
	value = func(at, depth int) (int, error) {
		kind := s.Kind(at)
		if (kind == jsonscan.Object || kind == jsonscan.Array) && depth == maxMetadataDepth {
			return 0, errMetadataDepth
		}
		switch kind {
		case jsonscan.Object:
			return s.Object(at, depth, member(depth+1))
		case jsonscan.Array:
			return s.Array(at, depth, func(_, at int) (int, error) { return value(at, depth+1) })
		case jsonscan.String:
			end, _, err := s.String(at)
			if err == nil && jsonscan.Len(s[at:end]) > maxMetadataText {
				err = errMetadataText
			}
			return end, err
		}
		return s.Value(at, depth)
	}
	members, top := 0, member(1)
	return s.Document(func(key jsonscan.Key, at int) (int, error) {
		if members++; members > maxMetadataMembers {
			return 0, errMetadataMembers
		}
		return top(key, at)
	})
}

// Bounds of baggage, which are those of W3C Baggage, 3.3.2.
const (
	maxBaggage        = 8 << 10 // bytes
	maxBaggageEntries = 64
)

// baggage returns the readable entries of the header's lines as a JSON object; "" if there are
// none. Entries that are malformed or out of bounds are left out: proxies between the caller and
// the gateway may have added them, and they must not make a call fail.
func baggage(lines []string) string {
	entries, size := make(map[string]string), 0
	for _, line := range lines {
		if size += len(line); size > maxBaggage {
			break
		}
		for _, entry := range strings.Split(line, ",") {
			entry, _, _ = strings.Cut(entry, ";") // properties
			key, value, ok := strings.Cut(entry, "=")
			key = strings.TrimSpace(key)
			value, err := url.PathUnescape(strings.TrimSpace(value))
			if !ok || err != nil || key == "" || !printable(key) || len(key) > maxMetadataText ||
				!utf8.ValidString(value) || utf8.RuneCountInString(value) > maxMetadataText || len(entries) == maxBaggageEntries {
				continue
			}
			entries[key] = value
		}
	}
	if len(entries) == 0 {
		return ""
	}
	b, err := json.Marshal(entries)
	if err != nil {
		panic(err) // texts always encode
	}
	return string(b)
}

// sources are the JSON objects that the call's metadata comes from: the workspace's defaults, the
// key's, the request's own, and baggage. The first one that has an entry counts.
func (c *Call) sources() [4]string {
	var workspace json.RawMessage
	if of := c.Gateway.WorkspaceMetadata; of != nil {
		workspace = of(c.Caller.WorkspaceID)
	}
	return [...]string{string(workspace), string(c.Caller.Metadata), c.metadata, c.baggage}
}

// MetadataJSON returns a value of the call's metadata, or nil if there is none.
func (c *Call) MetadataJSON(key string) json.RawMessage {
	if v := c.metadataValue(key); v.Exists() {
		return json.RawMessage(v.Raw)
	}
	return nil
}

// Metadata returns a value of the call's metadata as text. Null is absent.
func (c *Call) Metadata(key string) (string, bool) {
	value := c.metadataValue(key).String()
	return value, value != ""
}

func (c *Call) metadataValue(key string) gjson.Result {
	if key == userKey && c.Caller.UserID != "" {
		return gjson.ParseBytes(jsonscan.AppendQuoted(nil, c.Caller.UserID))
	}
	for _, source := range c.sources() {
		if source == "" {
			continue
		}
		var found gjson.Result
		gjson.Parse(source).ForEach(func(k, v gjson.Result) bool {
			if k.Str == key {
				found = v
			}
			return true
		})
		if found.Exists() && found.Type != gjson.Null {
			return found
		}
	}
	return gjson.Result{}
}

// AllMetadata returns the call's metadata as one JSON object, or nil if there is none.
func (c *Call) AllMetadata() json.RawMessage {
	sources := c.sources()
	if c.Caller.UserID == "" && sources == [4]string{} {
		return nil
	}
	all := make(map[string]json.RawMessage)
	for _, source := range slices.Backward(sources[:]) {
		gjson.Parse(source).ForEach(func(k, v gjson.Result) bool {
			if v.Type != gjson.Null {
				all[k.Str] = json.RawMessage(v.Raw)
			}
			return true
		})
	}
	if c.Caller.UserID != "" {
		all[userKey] = jsonscan.AppendQuoted(nil, c.Caller.UserID)
	}
	if len(all) == 0 {
		return nil
	}
	b, err := json.Marshal(all)
	if err != nil {
		panic(err) // texts, and values that were checked
	}
	return b
}
