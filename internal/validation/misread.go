package validation

import (
	"encoding"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Misread says in plain words why a body was not decoded into Go's types: the field, such as workspaces[1].id, or "" for the
// whole body, and what was expected of it.
func Misread(err error) (field, message string) {
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	var within *stdjson.UnmarshalTypeError
	switch {
	case errors.As(err, &semantic):
		field = fieldAt(semantic.JSONPointer)
		switch {
		case errors.Is(err, json.ErrUnknownName):
			return field, "unknown member"
		case errors.As(err, &within): // of a type that reads itself
			return joined(field, within.Field), "expected " + wanted(within.Type)
		case semantic.Err != nil && strings.HasPrefix(semantic.Err.Error(), "expected "):
			return field, semantic.Err.Error()
		case semantic.GoType != nil:
			return field, "expected " + wanted(semantic.GoType)
		}
		return field, "expected another value"
	case errors.As(err, &syntactic):
		field = fieldAt(syntactic.JSONPointer)
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return field, "it is given twice"
		}
		cause := "it ends too early"
		if !errors.Is(err, io.ErrUnexpectedEOF) && syntactic.Err != nil {
			cause = strings.TrimPrefix(syntactic.Err.Error(), "jsontext: ")
		}
		return "", fmt.Sprintf("expected JSON: %s, at byte %d", cause, syntactic.ByteOffset)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "", "expected JSON: it ends too early"
	}
	return "", "expected JSON"
}

// fieldAt returns a JSON Pointer as the path of a field.
func fieldAt(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		if _, err := strconv.Atoi(token); err == nil {
			fmt.Fprintf(&b, "[%s]", token)
		} else {
			dot(&b, clip(token))
		}
	}
	return b.String()
}

// joined returns the path of a field within another one.
func joined(field, within string) string {
	if field == "" || within == "" {
		return field + within
	}
	return field + "." + within
}

// wanted returns what a value of a type is in JSON.
func wanted(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "a time such as 2026-01-31T12:00:00Z"
	case t.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return "a text"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "an array"
	}
	return "an object"
}
