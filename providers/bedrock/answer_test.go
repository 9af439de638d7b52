package bedrock_test

import (
	"testing"

	"github.com/caddy-gw/gateway/internal/dialecttest"
	"github.com/caddy-gw/gateway/providers"
)

func TestWhatIsNoAnswerIsAnError(t *testing.T) {
	dialecttest.Dialect{
		Provider: "bedrock", Model: "amazon.nova-lite-v1:0", Settings: map[string]string{"aws_region": "eu-west-1", "aws_access_key_id": "AKID", "aws_secret_access_key": "SECRET"},
	}.CheckNoAnswers(t)
	// Messages as they are, of which the answer passes if it is one.
	for body, ok := range map[string]bool{
		`{"message":"hidden"}`: false, `{}`: false, `null`: false, `{"type":"error","error":{"message":"hidden"}}`: false,
		`{ "type":"message", "content":[], "stop_reason":"end_turn" }`: true, `{"content":[{"type":"text","text":"x"}]}`: true,
	} {
		out, err := dialecttest.Dialect{
			Provider: "bedrock", Model: "anthropic.claude-sonnet-4-5-v1:0",
			Settings: map[string]string{"aws_region": "eu-west-1", "aws_access_key_id": "AKID", "aws_secret_access_key": "SECRET"},
		}.Answer(t, providers.Messages).Body(nil, []byte(body), nil)
		if (err == nil) != ok || ok && string(out) != body {
			t.Errorf("%s: got %s, %v", body, out, err)
		}
	}
}
