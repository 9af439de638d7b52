package bedrock

import (
	"encoding/xml"
	"net/http"
	"net/url"
	"strings"

	"github.com/caddy-gw/gateway/internal/sigv4"
	"github.com/caddy-gw/gateway/providers"
)

// s3 returns a request for an object of the folder, or for the bucket if key is empty. The
// bucket is part of the path, so that its name cannot choose a host.
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
		Method: method, URL: providers.URL(sibling(c.Base, sigv4.S3), path, query.Encode()), Body: body, Sign: signS3,
		Header: http.Header{"Accept": nil, "Anthropic-Beta": nil},
		Answer: &providers.Answer{Begin: withoutAmazons, Failure: readS3Failure},
	}
}

// withoutAmazons removes the headers that are meant for the owner of the object, such as
// the id of its encryption key.
func withoutAmazons(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, "X-Amz-") && name != "X-Amz-Request-Id" {
			delete(h, name)
		}
	}
}

// s3Types maps S3's errors to the types that OpenAI's clients know.
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

// readS3Failure reads an error of S3's, which is XML, or only a status in answer to HEAD.
func readS3Failure(status int, h http.Header, body []byte) *providers.Failure {
	var fault struct{ Code, Message string }
	if xml.Unmarshal(body, &fault) != nil || fault.Code == "" {
		f := providers.ReadFailure(status, h, body)
		switch status {
		case http.StatusNotFound:
			f.Type, f.Code, f.Message = "not_found_error", "NoSuchKey", "There is no such file"
		case http.StatusForbidden:
			f.Type, f.Code, f.Message = "permission_error", "AccessDenied", "S3 denies access to the file, or there is none: it says which only to who may list the bucket"
		}
		return f
	}
	f := &providers.Failure{Message: fault.Message, Type: s3Types[fault.Code], Code: fault.Code}
	if f.Message == "" {
		f.Message = providers.Answered(status)
	}
	if f.Type == "" && status < http.StatusInternalServerError {
		f.Type = "invalid_request_error"
	}
	return f
}
