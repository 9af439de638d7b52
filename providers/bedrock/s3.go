package bedrock

import (
	"encoding/xml"
	"net/http"
	"net/url"
	"strings"

	"github.com/caddy-gw/gateway/providers"
)

// s3 is a request for an object of the folder, or with no key for the bucket. The bucket
// stands in the path, so that its name decides no host.
func (f folder) s3(c *providers.Call, method, key string, query url.Values, body []byte) *providers.Request {
	path := "/" + f.bucket
	for segment := range strings.SplitSeq(key, "/") {
		if key != "" {
			path += "/" + escape(segment)
		}
	}
	if body == nil {
		body = []byte{}
	}
	return &providers.Request{
		Method: method, URL: providers.URL(sibling(c.Base, s3Service), path, query.Encode()), Body: body, Sign: signS3,
		Header: http.Header{"Accept": nil, "Anthropic-Beta": nil},
		Answer: &providers.Answer{Begin: withoutAmazons, Failure: readS3Failure},
	}
}

// withoutAmazons takes out what S3 says of the object to its owner, such as the key it is
// sealed with.
func withoutAmazons(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, "X-Amz-") && name != "X-Amz-Request-Id" {
			delete(h, name)
		}
	}
}

// s3Types says what S3's errors are in the words that clients of OpenAI know.
var s3Types = map[string]string{
	"NoSuchKey":             "not_found_error",
	"NoSuchBucket":          "not_found_error",
	"NoSuchUpload":          "not_found_error",
	"AccessDenied":          "permission_error",
	"InvalidAccessKeyId":    "authentication_error",
	"SignatureDoesNotMatch": "authentication_error",
	"ExpiredToken":          "authentication_error",
	"SlowDown":              "rate_limit_error",
	"InternalError":         "api_error",
	"ServiceUnavailable":    "overloaded_error",
}

// readS3Failure reads an error of S3's, which is XML, or only a status where the object's
// head was asked for.
func readS3Failure(status int, h http.Header, body []byte) *providers.Failure {
	var said struct{ Code, Message string }
	if xml.Unmarshal(body, &said) != nil || said.Code == "" {
		f := providers.ReadFailure(status, h, body)
		switch status {
		case http.StatusNotFound:
			f.Type, f.Code, f.Message = "not_found_error", "NoSuchKey", "There is no such file"
		case http.StatusForbidden:
			f.Type, f.Code, f.Message = "permission_error", "AccessDenied", "S3 denies access to the file, or there is none: it says which only to who may list the bucket"
		}
		return f
	}
	f := &providers.Failure{Message: said.Message, Type: s3Types[said.Code], Code: said.Code}
	if f.Message == "" {
		f.Message = providers.Answered(status)
	}
	if f.Type == "" && status < http.StatusInternalServerError {
		f.Type = "invalid_request_error"
	}
	return f
}
