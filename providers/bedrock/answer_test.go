package bedrock_test

import (
	"testing"

	"github.com/caddy-gw/gateway/internal/dialecttest"
)

func TestWhatIsNoAnswerIsAnError(t *testing.T) {
	dialecttest.Dialect{
		Provider: "bedrock", Model: "amazon.nova-lite-v1:0", Settings: map[string]string{"aws_region": "eu-west-1", "aws_access_key_id": "AKID", "aws_secret_access_key": "SECRET"},
	}.CheckNoAnswers(t)
}
