// Package bedrock provides Amazon Bedrock: conversations through Converse and
// ConverseStream, Anthropic's Messages API for Anthropic's models through InvokeModel (with
// the body unchanged), token counts, embeddings by Titan and Cohere, files in S3, and
// batches of conversations (model invocation jobs).
//
// Its settings are aws_region; aws_access_key_id, aws_secret_access_key and
// aws_session_token, or instead a Bedrock API key as the credential; and aws_bedrock_model,
// the model behind the ARN of an inference profile, since the ARN does not reveal it. Files
// need aws_s3_bucket and aws_s3_object_key, and batches aws_batch_role_arn: the role in
// which Amazon Bedrock reads and writes the files. It is not aws_role_arn, which is the role
// that the access keys assume for each call, with aws_external_id if its owner wants one.
//
// Converse does not support n, seed, penalties, logit_bias, logprobs, user, metadata,
// parallel_tool_calls, or JSON without a schema; these are dropped. What would change the
// meaning of a call is refused instead: URLs other than s3://, file ids, and other types of
// tools.
//
// Sources: the reference of the Bedrock runtime API, the operation models in the AWS SDK
// (service/bedrockruntime), and the references of Bedrock's control plane and S3.
package bedrock

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/caddy-gw/gateway/internal/sigv4"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
)

func init() { providers.Register(provider()) }

func provider() providers.Provider {
	return providers.Provider{
		Name:    "bedrock",
		Limits:  &chat.Limits{ToolName: 64, NeedsUser: true, UserFirst: true},
		BaseURL: "https://bedrock-runtime.{aws_region}.amazonaws.com",
		Sign:    sign,
		Login:   sigv4.Login,
		Forward: []string{"Anthropic-Beta"},
		Serves:  []string{},
		Dialect: &providers.Dialect{
			Request:  request,
			Decoder:  func(*providers.Call) chat.Decoder { return new(Decoder) },
			Framer:   func() chat.Framer { return new(Framer) },
			Failure:  readFailure,
			IDHeader: "X-Amzn-Requestid",
		},
		FileModel: modelOfFile,
		Endpoints: map[string]providers.Endpoint{
			providers.Messages:    invoke,
			providers.CountTokens: countTokens,
			providers.Embed:       embed,
			providers.ListModels:  listModels,

			"createBatch":    createBatch,
			"listBatches":    listBatches,
			"retrieveBatch":  retrieveBatch,
			"cancelBatch":    cancelBatch,
			"getBatchOutput": fileContent, // the gateway has fetched the batch before

			"uploadFile":          uploadFile,
			"listFiles":           listFiles,
			"retrieveFile":        retrieveFile,
			"retrieveFileContent": fileContent,
			"deleteFile":          deleteFile,
		},
	}
}

const (
	mediaJSON   = "application/json"
	mediaStream = "application/vnd.amazon.eventstream"
)

// call returns the upstream request for an operation on a model.
func call(c *providers.Call, model, operation, accept string, body []byte) (*providers.Request, error) {
	u, err := modelURL(c.Base, model, operation)
	return &providers.Request{
		URL: u, Body: body,
		// The client's own Accept header would be for Bedrock's answer. Beta flags go into
		// the body.
		Header: http.Header{"Accept": {accept}, "Anthropic-Beta": nil},
	}, err
}

// modelURL returns the URL of an operation on a model. The model, which may be an ARN, is a
// single path segment, escaped once.
func modelURL(base *url.URL, model, operation string) (*url.URL, error) {
	if plain, err := url.PathUnescape(model); err == nil { // some clients escape ARNs themselves
		model = plain
	}
	if strings.Trim(model, ".") == "" {
		return nil, &providers.RequestError{Param: "model", Code: "invalid_model", Message: "Invalid model: expected the id or the ARN of a model or an inference profile"}
	}
	return providers.URL(base, "/model/"+escape(model)+"/"+operation, ""), nil
}

// escape escapes all but the unreserved characters of RFC 3986. [url.PathEscape] does not
// escape colons.
func escape(s string) string {
	const hex = "0123456789ABCDEF"
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case letterOrDigit(c), c == '-', c == '.', c == '_', c == '~':
			out.WriteByte(c)
		default:
			out.Write([]byte{'%', hex[c>>4], hex[c&0xf]})
		}
	}
	return out.String()
}

func letterOrDigit(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// foundation returns the model that answers: the requested one, or the one that the
// settings name, because the ARN of an application inference profile does not reveal it.
func foundation(c *providers.Call) string {
	if m := c.Setting("aws_bedrock_model"); m != "" {
		return m
	}
	return c.Model
}

// isAnthropic reports whether a model is Anthropic's: anthropic.claude-…, the one of a
// regional profile such as eu.anthropic.claude-…, or the ARN of such a model.
func isAnthropic(model string) bool { return strings.Contains(model, "anthropic.") }

// betas returns Anthropic's beta features that the client's header and the setting ask for.
func betas(c *providers.Call) (names []string) {
	for _, list := range []string{c.Header("Anthropic-Beta"), c.Setting("anthropic_beta")} {
		for name := range strings.SplitSeq(list, ",") {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}
