// Package bedrock is the provider Amazon Bedrock: conversations through Converse and
// ConverseStream, those of Anthropic's Messages API with Anthropic's models as they
// stand through InvokeModel, token counts, embeddings of Titan and Cohere, files in S3, and
// batches of conversations (model invocation jobs).
//
// Its settings are aws_region; aws_access_key_id, aws_secret_access_key and
// aws_session_token, or a Bedrock API key as the credential and none of these; and
// aws_bedrock_model, the model behind an inference profile's ARN, which does not tell. Those
// of files are aws_s3_bucket and aws_s3_object_key, and of batches aws_batch_role_arn: the
// role in which Amazon Bedrock reads and writes them. That is another one than aws_role_arn,
// in which the caller would ask, and which is refused.
//
// Converse has no words for n, seed, penalties, logit_bias, logprobs, user, metadata,
// parallel_tool_calls and JSON without a schema: they are left out. What a call cannot do
// without is refused: URLs other than s3://, ids of files, tools of other types.
//
// Facts: the reference of the Bedrock runtime API, and the models of its operations in
// the AWS SDK (service/bedrockruntime); the references of Bedrock's control plane and S3.
package bedrock

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
)

func init() { providers.Register(provider()) }

func provider() providers.Provider {
	p := providers.Provider{
		Name:    "bedrock",
		Limits:  &chat.Limits{ToolName: 64, NeedsUser: true},
		BaseURL: "https://bedrock-runtime.{aws_region}.amazonaws.com",
		Sign:    sign,
		Forward: []string{"Anthropic-Beta"},
		Serves:  []string{},
		Dialect: &providers.Dialect{
			Request:  request,
			Decoder:  func(*providers.Call) chat.Decoder { return new(Decoder) },
			Framer:   func() chat.Framer { return new(Framer) },
			Failure:  readFailure,
			IDHeader: "X-Amzn-Requestid",
		},
		Endpoints: map[string]providers.Endpoint{
			providers.Messages:    invoke,
			providers.CountTokens: countTokens,
			providers.Embed:       embed,
			providers.ListModels:  listModels,

			"createBatch":    createBatch,
			"listBatches":    listBatches,
			"retrieveBatch":  retrieveBatch,
			"cancelBatch":    cancelBatch,
			"getBatchOutput": fileContent, // the gateway has asked for the batch before

			"uploadFile":          uploadFile,
			"listFiles":           listFiles,
			"retrieveFile":        retrieveFile,
			"retrieveFileContent": fileContent,
			"deleteFile":          deleteFile,
		},
	}
	for _, name := range unserved {
		p.Endpoints[name] = refuse
	}
	return p
}

// unserved are the endpoints that have no like in the Bedrock runtime, and whose paths
// lead nowhere there. What is at no endpoint's path goes on as it is: a client may speak
// Bedrock's own API.
var unserved = []string{
	"createFinetune", "listFinetunes", "retrieveFinetune", "cancelFinetune", "listFinetuneEvents", "listFinetuneCheckpoints",
	"listChatCompletions", "countResponseInputTokens", "compactResponse", "getModelResponse", "deleteModelResponse",
	"cancelModelResponse", "listResponseInputItems",
	"imageGenerate", "imageEdit", "createSpeech", "createTranscription", "createTranslation", "realtime",
}

func refuse(c *providers.Call) (*providers.Request, error) {
	return nil, &providers.Refusal{
		Param: "x-gw-provider", Code: "endpoint_not_supported",
		Message: "Provider " + c.Provider.Name + " does not serve " + c.Method + " /v1" + c.Path,
	}
}

const (
	mediaJSON   = "application/json"
	mediaStream = "application/vnd.amazon.eventstream"
)

// call is the upstream request of an operation on a model.
func call(c *providers.Call, model, operation, accept string, body []byte) (*providers.Request, error) {
	u, err := modelURL(c.Base, model, operation)
	return &providers.Request{
		URL: u, Body: body,
		// The client's own would mean Bedrock's answer. What is in a beta header goes in
		// the body.
		Header: http.Header{"Accept": {accept}, "Anthropic-Beta": nil},
	}, err
}

// modelURL is where an operation on a model is. The model, which may be an ARN, is one
// segment, escaped once.
func modelURL(base *url.URL, model, operation string) (*url.URL, error) {
	if plain, err := url.PathUnescape(model); err == nil { // some escape ARNs themselves
		model = plain
	}
	if strings.Trim(model, ".") == "" {
		return nil, &providers.Refusal{Param: "model", Code: "invalid_model", Message: "Invalid model: expected the id or the ARN of a model or an inference profile"}
	}
	return providers.URL(base, "/model/"+escape(model)+"/"+operation, ""), nil
}

// escape is RFC 3986's: all but the unreserved characters. [url.PathEscape] lets a colon
// stand.
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

// foundation is the model that answers: the one that is asked for, or what the settings say
// is behind it. The ARN of an application's inference profile does not tell.
func foundation(c *providers.Call) string {
	if m := c.Setting("aws_bedrock_model"); m != "" {
		return m
	}
	return c.Model
}

// isAnthropic reports whether a model is one of Anthropic's: anthropic.claude-…, that of a
// region's profile such as eu.anthropic.claude-…, or an ARN of such a one.
func isAnthropic(model string) bool { return strings.Contains(model, "anthropic.") }

// betas are what of Anthropic's API is asked for before it is for everybody: as the
// client's header and the setting say.
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
