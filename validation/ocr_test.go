package validation

import (
	"strings"
	"testing"
)

func TestOCRRows(t *testing.T) {
	testRules(t, OCR, `{"document":{"type":"file","file_id":"f"}}END`, []rule{
		{"model", []string{`"mistral-ocr-latest"`}, notText, nil},
		{"include_image_base64", []string{`true`, `false`}, notBoolean, nil},
		{"image_limit", []string{`1`, `1.0`, `1e6`}, notInteger, map[string]string{`0`: IntegerBelowMin}},
		{"image_min_size", []string{`1`, `100`}, notInteger, map[string]string{`0`: IntegerBelowMin, `-5`: IntegerBelowMin}},
		{"pages", []string{`[]`, `[0,1]`, `"0,2-4"`, `"3"`}, []string{`1`, `true`, `{}`}, map[string]string{
			`["0"]`: InvalidType + " pages[0]", `[0,1.5]`: InvalidType + " pages[1]", `[-1]`: IntegerBelowMin + " pages[0]", `"all"`: InvalidValue, `""`: InvalidValue, `"0,x,1"`: InvalidValue,
		}},
	})
	for _, document := range []string{
		`{"type":"document_url","document_url":"https://example.com/a.pdf"}`, `{"type":"document_url","document_url":"data:application/pdf;base64,AA=="}`,
		`{"type":"image_url","image_url":"https://example.com/a.png"}`, `{"image_url":{"url":"https://example.com/a.png","detail":"low"},"type":"image_url"}`,
		`{"type":"file","file_id":"f"}`, `{"type":"document_url","document_url":"u","document_name":"a","image_url":null}`,
	} {
		mustAccept(t, OCR, `{"document":`+document+`}`)
	}
	for document, want := range map[string]string{
		`null`:           MissingParameter + " document",
		`"u"`:            InvalidType + " document",
		`[]`:             InvalidType + " document",
		`{}`:             MissingParameter + " document.type",
		`{"type":null}`:  MissingParameter + " document.type",
		`{"type":1}`:     InvalidType + " document.type",
		`{"type":"pdf"}`: InvalidValue + " document.type",
		`{"type":"document_url","document_url":1}`:                         InvalidType + " document.document_url",
		`{"type":"document_url","document_url":{}}`:                        InvalidType + " document.document_url",
		`{"type":"image_url","image_url":1}`:                               InvalidType + " document.image_url",
		`{"type":"image_url","image_url":{}}`:                              MissingParameter + " document.image_url.url",
		`{"type":"image_url","image_url":{"url":1}}`:                       InvalidType + " document.image_url.url",
		`{"type":"file","type":"image_url"}`:                               DuplicateField + " document.type",
		`{"type":"document_url","document_url":"a","Document_URL":"b"}`:    DuplicateField + " document.Document_URL",
		`{"type":"document_url","document_url":"a","document_\u0075rl":1}`: DuplicateField + " document.document_url",
	} {
		code, param, _ := strings.Cut(want, " ")
		mustRefuse(t, OCR, `{"document":`+document+`}`, param, code)
	}
	mustRefuse(t, OCR, `{"model":"m"}`, "document", MissingParameter)
}
