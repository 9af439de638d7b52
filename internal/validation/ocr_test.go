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
		`{"type":"file","file_id":"f"}`, `{"type":"document_url","document_url":"https://e.example/","document_name":"a","image_url":null}`,
		`{"type":"image_url","image_url":"data:image/png;base64,AA=="}`, `{"type":"image_url","image_url":"http://example.com/a.png"}`,
		`{"type":"document_url","document_url":"HTTPS://example.com/a.pdf?x=1#2"}`, `{"type":"document_url","document_url":"https:\/\/example.com\/a.pdf"}`,
		`{"type":"document_url","document_url":"https://[2001:db8::1]/a"}`, `{"type":"document_url","document_url":"data:;base64,AA"}`,
		`{"type":"document_url","document_url":"Data:application/pdf;name=a.pdf;BASE64,` + strings.Repeat("A", 4000) + `"}`,
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
		`{"type":"document_url","document_url":1}`:                                  InvalidType + " document.document_url",
		`{"type":"document_url","document_url":{}}`:                                 InvalidType + " document.document_url",
		`{"type":"image_url","image_url":1}`:                                        InvalidType + " document.image_url",
		`{"type":"image_url","image_url":{}}`:                                       MissingParameter + " document.image_url.url",
		`{"type":"image_url","image_url":{"url":1}}`:                                InvalidType + " document.image_url.url",
		`{"type":"document_url"}`:                                                   MissingParameter + " document.document_url",
		`{"type":"document_url","document_url":null,"image_url":"u"}`:               MissingParameter + " document.document_url",
		`{"type":"image_url"}`:                                                      MissingParameter + " document.image_url",
		`{"type":"image_url","image_url":"u","document_url":"u"}`:                   InvalidValue + " document.document_url",
		`{"type":"file","type":"image_url","image_url":"u"}`:                        DuplicateField + " document.type",
		`{"type":"document_url","document_url":"https://a","Document_URL":"b"}`:     DuplicateField + " document.Document_URL",
		`{"type":"document_url","document_url":"https://a","document_\u0075rl":""}`: DuplicateField + " document.document_url",
	} {
		code, param, _ := strings.Cut(want, " ")
		mustRefuse(t, OCR, `{"document":`+document+`}`, param, code)
	}
	for _, bad := range []string{
		"", "u", "http://example.com/a.pdf", "ftp://example.com/a.pdf", "file:///etc/passwd", "//example.com/a.pdf", " https://example.com/a.pdf", "https:/example.com",
		"https://", "https:///a.pdf", "https://:443/", "https:a", "data:application/pdf,AA", "data:application/pdf;base64", "data:,;base64,", "data:" + strings.Repeat("x", 4000) + ";base64,AA",
		`ht\\tps://a`, `https:\\\\a`,
	} {
		mustRefuse(t, OCR, `{"document":{"type":"document_url","document_url":"`+bad+`"}}`, "document.document_url", InvalidValue)
	}
	mustRefuse(t, OCR, `{"model":"m"}`, "document", MissingParameter)
}
