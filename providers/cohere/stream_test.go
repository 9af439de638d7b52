package cohere_test

import (
	"testing"

	"github.com/caddy-gw/gateway/internal/dialecttest"
)

var dialect = dialecttest.Dialect{
	Provider: "cohere", Model: "command-a-03-2025",
	TextStream: func(text []byte) string {
		return begin + `data: {"type":"content-delta","index":0,"delta":{"message":{"content":{"text":` + string(text) + "}}}}\n\n" +
			`data: {"type":"message-end","delta":{"finish_reason":"COMPLETE"}}` + "\n\n"
	},
}

func TestAStreamIsTheSameWhereverItIsCut(t *testing.T) { dialect.CheckCuts(t) }

func TestWhatIsNoAnswerIsAnError(t *testing.T) { dialect.CheckNoAnswers(t) }

func FuzzStream(f *testing.F) { dialect.FuzzStream(f) }

func FuzzRequest(f *testing.F) { dialect.FuzzRequest(f) }

const (
	begin = "event: message-start\n" + `data: {"id":"c1","type":"message-start","delta":{"message":{"role":"assistant"}}}` + "\n\n"
	piece = "event: content-delta\n" + `data: {"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"some words of an answer"}}}}` + "\n\n"
)

func TestAPieceOfAStreamAllocatesLittle(t *testing.T) { dialect.CheckAllocations(t, begin, piece, 5) }

func BenchmarkPiece(b *testing.B) { dialect.BenchmarkPiece(b, begin, piece) }

func BenchmarkRequest(b *testing.B) { dialect.BenchmarkRequest(b) }
