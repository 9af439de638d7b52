package anthropic_test

import (
	"testing"

	"github.com/caddy-gw/gateway/internal/dialecttest"
)

var dialect = dialecttest.Dialect{
	Provider: "anthropic", Model: "claude-sonnet-4-5",
	TextStream: func(text []byte) string {
		return begin + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":` + string(text) + "}}\n\n" +
			`data: {"type":"message_stop"}` + "\n\n"
	},
}

func TestAStreamIsTheSameWhereverItIsCut(t *testing.T) { dialect.CheckCuts(t) }

func TestWhatIsNoAnswerIsAnError(t *testing.T) { dialect.CheckNoAnswers(t) }

func FuzzStream(f *testing.F) { dialect.FuzzStream(f) }

func FuzzRequest(f *testing.F) { dialect.FuzzRequest(f) }

const (
	begin = "event: message_start\n" + `data: {"type":"message_start","message":{"id":"msg_1","model":"claude-sonnet-4-5","usage":{"input_tokens":5}}}` + "\n\n"
	piece = "event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"some words of an answer"}}` + "\n\n"
)

func TestAPieceOfAStreamAllocatesLittle(t *testing.T) { dialect.CheckAllocations(t, begin, piece, 4) }

func BenchmarkPiece(b *testing.B) { dialect.BenchmarkPiece(b, begin, piece) }

func BenchmarkRequest(b *testing.B) { dialect.BenchmarkRequest(b) }
