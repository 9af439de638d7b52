// Package images has requests for images in OpenAI's form, and its answers, independent of providers: for those that
// have an API of their own for images, and nothing else.
package images

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Generate is the name of the endpoint POST /v1/images/generations.
const Generate = "imageGenerate"

// A Request is a request for images.
type Request struct {
	Prompt        string
	N             int64 // how many; 0: it does not say
	Width, Height int64 // in pixels; 0: it does not say
	Style         string
	Others        []Member // that are not OpenAI's, in order
}

// A Member is a member of a request, with its value in JSON.
type Member struct {
	Name  string
	Value gjson.Result
}

// maxImages is how many images OpenAI makes at most.
const maxImages = 10

// maxOthers is how many members a request may have that are not OpenAI's.
const maxOthers = 100

// openAIs are the members of OpenAI's that others do not have and that change no content.
var openAIs = map[string]bool{"model": true, "user": true, "quality": true, "background": true, "moderation": true, "output_compression": true, "partial_images": true}

// modelName is what a model is called whose name is part of a path.
var modelName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$`)

// Parse reads the request of a call, whose model is a name that may be part of a path.
func Parse(c *providers.Call) (r *Request, err error) {
	if !modelName.MatchString(c.Model) {
		return nil, refuse("model", "missing_required_parameter", "expected the name of a model")
	}
	if !gjson.ValidBytes(c.Body) {
		return nil, &providers.RequestError{Code: "invalid_json", Message: "Invalid request body: expected a JSON object"}
	}
	r = new(Request)
	gjson.ParseBytes(c.Body).ForEach(func(key, v gjson.Result) bool {
		switch name := key.Str; {
		case v.Type == gjson.Null, openAIs[name]:
		case name == "prompt":
			r.Prompt = v.Str
		case name == "n":
			if r.N = v.Int(); v.Type != gjson.Number || r.N < 1 || r.N > maxImages || float64(r.N) != v.Num {
				err = refuse("n", "invalid_value", "expected a number from 1 to "+strconv.Itoa(maxImages))
			}
		case name == "size":
			err = r.size(v.Str)
		case name == "style":
			r.Style = v.Str
		case name == "response_format" && v.Str != "b64_json":
			err = refuse(name, "unsupported_parameter", "provider "+c.Provider.Name+" returns images as b64_json only")
		case name == "response_format":
		case name == "stream" && v.Bool():
			err = refuse(name, "unsupported_parameter", "provider "+c.Provider.Name+" does not stream images")
		case name == "stream":
		case len(r.Others) == maxOthers:
			err = refuse(name, "invalid_value", "expected at most "+strconv.Itoa(maxOthers)+" members that are not OpenAI's")
		default:
			r.Others = append(r.Others, Member{name, v})
		}
		return err == nil
	})
	if err == nil && r.Prompt == "" {
		err = refuse("prompt", "missing_required_parameter", "expected a text")
	}
	return r, err
}

func refuse(param, code, message string) error {
	return &providers.RequestError{Param: param, Code: code, Message: "Invalid '" + param + "': " + message}
}

// size reads a size such as 1024x1024; auto is none.
func (r *Request) size(text string) (err error) {
	if text == "auto" {
		return nil
	}
	width, height, _ := strings.Cut(strings.ToLower(text), "x")
	var wrong error
	r.Width, err = strconv.ParseInt(width, 10, 32)
	r.Height, wrong = strconv.ParseInt(height, 10, 32)
	if err != nil || wrong != nil || r.Width < 1 || r.Height < 1 {
		return refuse("size", "invalid_value", "expected a width and a height such as 1024x1024")
	}
	return nil
}

// List returns the elements of an array, one that is none as the only one, as far as an answer has so many images, and one more.
func List(v gjson.Result) (list []gjson.Result) {
	if !v.IsArray() {
		return v.Array()
	}
	v.ForEach(func(_, v gjson.Result) bool {
		list = append(list, v)
		return len(list) <= maxImages
	})
	return list
}

// Answer returns the translation of an answer, whose images are in base64. Its error may be a [providers.Failure].
func Answer(c *providers.Call, images func(answer gjson.Result) ([]string, error)) *providers.Answer {
	created, name := c.Now.Unix(), c.DisplayName()
	return &providers.Answer{Body: func(dst, body []byte, _ http.Header) ([]byte, error) {
		list, err := images(gjson.ParseBytes(body))
		if err == nil && len(list) > maxImages {
			err = &providers.Failure{Message: "The provider's answer has more than " + strconv.Itoa(maxImages) + " images", Type: "server_error"}
		}
		if err == nil && len(list) == 0 {
			err = &providers.Failure{Message: "The provider's answer has no images", Type: "server_error"}
		}
		if err != nil {
			return dst, err
		}
		b := strconv.AppendInt(append(dst, `{"created":`...), created, 10)
		b = append(b, `,"data":[`...)
		for i, image := range list {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"b64_json":`...)
			b = append(jsonscan.AppendQuoted(b, image), '}')
		}
		b = append(b, `],"provider":`...)
		return append(jsonscan.AppendQuoted(b, name), '}'), nil
	}}
}
