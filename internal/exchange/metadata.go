package exchange

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"go.opentelemetry.io/otel/baggage"

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

// Metadata are the entries that a call has for its record, its limits and its conditions.
type Metadata struct {
	// sources are JSON objects: the workspace's defaults, the key's, the request's own, and what
	// its baggage has. The first one that has an entry counts; "": there is none.
	sources [4]string
	user    string // of the caller's key; "": it is nobody's
}

const ownMetadata = 2 // of the sources, the request's own

// readMetadata reads x-gw-metadata, and baggage (W3C Baggage), whose entries are added.
func (p *preparation) readMetadata(h http.Header) *Error {
	m := &p.Metadata
	m.user = p.Caller.UserID
	if of := p.Gateway.WorkspaceMetadata; of != nil {
		m.sources[0] = string(of(p.Caller.WorkspaceID))
	}
	m.sources[1] = string(p.Caller.Metadata)
	if lines := h["Baggage"]; lines != nil {
		m.sources[3] = baggageJSON(lines)
	}
	raw, ok := p.Gateway.Headers.Get(h, HeaderMetadata)
	if raw == "" {
		return nil
	}
	why := "x-gw-metadata must be one JSON object"
	if ok {
		err := checkMetadata(raw)
		if err == nil {
			m.sources[ownMetadata] = raw
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

// maxBaggage bounds baggage, in bytes, as W3C Baggage, 3.3.2, has it.
const maxBaggage = 8 << 10

// baggageJSON returns the readable entries of the header's lines as a JSON object; "" if there are
// none. Entries that are malformed or out of bounds are left out: proxies between the caller and
// the gateway may have added them, and they must not make a call fail.
func baggageJSON(lines []string) string {
	joined := ""
	for _, line := range lines {
		if len(joined)+len(line) >= maxBaggage {
			break
		}
		joined += line + ","
	}
	parsed, _ := baggage.Parse(joined) // the error is about what was left out
	entries := make(map[string]string)
	for _, m := range parsed.Members() {
		key, value := m.Key(), m.Value()
		if printable(key) && len(key) <= maxMetadataText && utf8.RuneCountInString(value) <= maxMetadataText &&
			!strings.ContainsRune(value, utf8.RuneError) { // which stands for what is not UTF-8
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

// Header is the header x-gw-metadata, or nil.
func (m *Metadata) Header() []byte {
	if m.sources[ownMetadata] == "" {
		return nil
	}
	return []byte(m.sources[ownMetadata])
}

// JSON returns a value of the call's metadata, or nil if there is none.
func (m *Metadata) JSON(key string) json.RawMessage {
	if v := m.value(key); v.Exists() {
		return json.RawMessage(v.Raw)
	}
	return nil
}

// Get returns a value of the call's metadata as text. Null is absent.
func (m *Metadata) Get(key string) (string, bool) {
	value := m.value(key).String()
	return value, value != ""
}

func (m *Metadata) value(key string) gjson.Result {
	if key == userKey && m.user != "" {
		return gjson.ParseBytes(jsonscan.AppendQuoted(nil, m.user))
	}
	for _, source := range m.sources {
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

// All returns the call's metadata as one JSON object, or nil if there is none.
func (m *Metadata) All() json.RawMessage {
	if m.user == "" && m.sources == [4]string{} {
		return nil
	}
	all := make(map[string]json.RawMessage)
	for _, source := range slices.Backward(m.sources[:]) {
		gjson.Parse(source).ForEach(func(k, v gjson.Result) bool {
			if v.Type != gjson.Null {
				all[k.Str] = json.RawMessage(v.Raw)
			}
			return true
		})
	}
	if m.user != "" {
		all[userKey] = jsonscan.AppendQuoted(nil, m.user)
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
