package gemini_test

import (
	"fmt"
	"testing"

	"github.com/caddy-gw/gateway/internal/dialecttest"
)

var dialect = dialecttest.Dialect{
	Provider: "google", Model: "gemini-2.5-flash",
	TextStream: func(text []byte) string {
		return fmt.Sprintf("data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":%s}]},\"finishReason\":\"STOP\"}]}\r\n\r\n", text)
	},
}

func TestAStreamIsTheSameWhereverItIsCut(t *testing.T) { dialect.CheckCuts(t) }

func TestWhatIsNoAnswerIsAnError(t *testing.T) { dialect.CheckNoAnswers(t) }

func FuzzStream(f *testing.F) { dialect.FuzzStream(f) }

func FuzzRequest(f *testing.F) { dialect.FuzzRequest(f) }

const piece = "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"some words of an answer\"}],\"role\": \"model\"},\"index\": 0}]," +
	"\"usageMetadata\": {\"promptTokenCount\": 5,\"candidatesTokenCount\": 4,\"totalTokenCount\": 9},\"modelVersion\": \"gemini-2.5-flash\",\"responseId\": \"r1\"}\r\n\r\n"

func TestAPieceOfAStreamAllocatesLittle(t *testing.T) { dialect.CheckAllocations(t, "", piece, 4) }

func BenchmarkPiece(b *testing.B) { dialect.BenchmarkPiece(b, "", piece) }

func BenchmarkRequest(b *testing.B) { dialect.BenchmarkRequest(b) }
