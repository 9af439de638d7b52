package messages_test

import (
	"testing"
)

func TestGolden(t *testing.T) { dialect.Run(t) }
