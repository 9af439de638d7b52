package command

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// maxDepth bounds how deep documents are nested.
const maxDepth = 1000

// toYAML writes a JSON text as YAML. Members keep their order, and texts of several lines are
// blocks.
func toYAML(w io.Writer, text []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	node, err := nodeOf(d)
	if err != nil {
		return err
	}
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(node); err != nil {
		return err
	}
	return e.Close()
}

// nodeOf reads a value.
func nodeOf(d *jsontext.Decoder) (*yaml.Node, error) {
	token, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch kind := token.Kind(); kind {
	case '{', '[':
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		if kind == '[' {
			n = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		}
		for d.PeekKind() != '}' && d.PeekKind() != ']' {
			element, err := nodeOf(d)
			if err != nil {
				return nil, err
			}
			if n.Kind == yaml.MappingNode && len(n.Content)%2 == 0 && element.Style == yaml.LiteralStyle {
				element.Style = yaml.DoubleQuotedStyle // names are no blocks
			}
			n.Content = append(n.Content, element)
		}
		if _, err := d.ReadToken(); err != nil {
			return nil, err
		}
		if len(n.Content) == 0 {
			n.Style = yaml.FlowStyle
		}
		return n, nil
	case '"':
		n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: token.String()}
		if block(n.Value) {
			n.Style = yaml.LiteralStyle
		} else if n.Value == "<<" || strings.Contains(n.Value, "\n") {
			n.Style = yaml.DoubleQuotedStyle // else it would merge mappings, or be a block all the same
		}
		return n, nil
	case '0':
		n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: token.String()}
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = "!!float"
		}
		return n, nil
	case 'n':
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: token.String()}, nil
	}
}

// block reports whether a text can be a block of lines that is read as it is.
func block(s string) bool {
	if !strings.Contains(s, "\n") {
		return false
	}
	for line := range strings.SplitSeq(s, "\n") {
		if strings.TrimRight(line, " \t") != line {
			return false
		}
	}
	first, _, _ := strings.Cut(s, "\n")
	return first != "" && first[0] != ' ' && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '\n' && (r < ' ' || r > '~') && (r < 0xa1 || r > 0xd7ff)
	})
}

// fromYAML returns a YAML text, or a JSON text, as JSON. It takes one document without aliases,
// merged mappings and tags of its own. Errors have the line.
func fromYAML(text []byte) ([]byte, error) {
	var fault error // of a text that is meant to be JSON
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		if fault = checkJSON(text); fault == nil {
			return text, nil
		}
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	var document yaml.Node
	switch err := d.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("it is empty")
	case err != nil:
		return nil, cmp.Or(fault, err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, cmp.Or(fault, errors.New("expected one YAML document"))
	}
	if document.Kind != yaml.DocumentNode || len(document.Content) != 1 {
		return nil, errors.New("expected a mapping")
	}
	var out bytes.Buffer
	err := writeNode(&out, document.Content[0], 0)
	return out.Bytes(), err
}

// checkJSON returns what is wrong with a JSON text, with the line. YAML that is written like JSON has faults, too.
func checkJSON(text []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		_, err := d.ReadToken()
		at := d.InputOffset()
		var syntactic *jsontext.SyntacticError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &syntactic):
			at, err = syntactic.ByteOffset, syntactic.Err
		case err == nil && d.StackDepth() > maxDepth:
			err = errors.New("nested too deeply")
		case err == nil && d.StackDepth() == 0 && len(bytes.TrimSpace(text[at:])) > 0:
			err = errors.New("expected one JSON object, and nothing behind it")
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", 1+bytes.Count(text[:at], []byte("\n")), err)
		}
	}
}

func writeNode(out *bytes.Buffer, n *yaml.Node, depth int) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("line %d: "+format, append([]any{n.Line}, args...)...)
	}
	if depth > maxDepth {
		return wrong("nested too deeply")
	}
	switch n.Kind {
	case yaml.MappingNode:
		out.WriteByte('{')
		seen := make(map[string]bool, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
				return wrong("expected names of members that are texts")
			}
			if seen[key.Value] {
				return wrong("the member %s is there twice", key.Value)
			}
			seen[key.Value] = true
			if i > 0 {
				out.WriteByte(',')
			}
			name, err := json.Marshal(key.Value)
			if err != nil {
				return err
			}
			out.Write(append(name, ':'))
			if err := writeNode(out, n.Content[i+1], depth+1); err != nil {
				return err
			}
		}
		out.WriteByte('}')
		return nil
	case yaml.SequenceNode:
		out.WriteByte('[')
		for i, element := range n.Content {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := writeNode(out, element, depth+1); err != nil {
				return err
			}
		}
		out.WriteByte(']')
		return nil
	case yaml.ScalarNode:
		raw, err := scalar(n)
		if err != nil {
			return wrong("%v", err)
		}
		out.Write(raw)
		return nil
	}
	return wrong("aliases are not supported")
}

// scalar returns a scalar as JSON.
func scalar(n *yaml.Node) ([]byte, error) {
	switch n.ShortTag() {
	case "!!null":
		return []byte("null"), nil
	case "!!str", "!!timestamp":
		return json.Marshal(n.Value)
	case "!!bool", "!!int", "!!float":
		if v := []byte(n.Value); n.ShortTag() != "!!bool" && json.Valid(v) {
			return v, nil // whatever its precision
		}
		var value any
		if err := n.Decode(&value); err != nil {
			return nil, err
		}
		return json.Marshal(value)
	}
	return nil, fmt.Errorf("the tag %s is not supported", n.ShortTag())
}
