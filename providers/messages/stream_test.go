package messages_test

import (
	"testing"

	"github.com/caddy-gw/gateway/internal/dialecttest"
)

var dialect = dialecttest.Dialect{
	Provider: "openai", Model: "gpt-5",
	TextStream: func(text []byte) string {
		return begin + `data: {"choices":[{"index":0,"delta":{"content":` + string(text) + "},\"finish_reason\":null}]}\n\n" +
			`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	},
}

func TestAStreamIsTheSameWhereverItIsCut(t *testing.T) { dialect.CheckCuts(t) }

func TestWhatIsNoAnswerIsAnError(t *testing.T) { dialect.CheckNoAnswers(t) }

func FuzzStream(f *testing.F) { dialect.FuzzStream(f) }

func FuzzRequest(f *testing.F) { dialect.FuzzRequest(f) }

const (
	begin = `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	piece = `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"some words of an answer"},"finish_reason":null}]}` + "\n\n"
)

func TestAPieceOfAStreamAllocatesLittle(t *testing.T) { dialect.CheckAllocations(t, begin, piece, 3) }

func BenchmarkPiece(b *testing.B) { dialect.BenchmarkPiece(b, begin, piece) }

func BenchmarkRequest(b *testing.B) { dialect.BenchmarkRequest(b) }
