package inference

import (
	"reflect"
	"testing"

	"github.com/caddy-gw/gateway/providers/chat"
)

func TestEachCountOfATranslatedAnswerIsPriced(t *testing.T) {
	t.Parallel()
	var of chat.Usage
	from := reflect.ValueOf(&of).Elem()
	for i := range from.NumField() {
		from.Field(i).SetInt(int64(i + 1))
	}
	to := reflect.ValueOf(tokensOf(&of))
	for i := range from.NumField() {
		name := from.Type().Field(i).Name
		if name == "Total" { // the sum of the others
			continue
		}
		if got := to.FieldByName(name); !got.IsValid() || got.Int() != int64(i+1) {
			t.Errorf("%s is not what is priced", name)
		}
	}
}
