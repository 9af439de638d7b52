package providers

import "testing"

func TestAnErrorInAStreamHasAStatus(t *testing.T) {
	for event, want := range map[string]Failure{
		`{"error":{"message":"m","type":"server_error"}}`:                    {502, "m", "server_error", "", ""},
		`{"error":{"message":"m","code":429}}`:                               {429, "m", "", "", "429"},
		`{"error":{"message":"m","type":"BadRequestError","code":400}}`:      {400, "m", "BadRequestError", "", "400"},
		`{"error":{"message":"m","code":"rate_limit_exceeded","param":"p"}}`: {429, "m", "", "p", "rate_limit_exceeded"},
		`{"error":{"message":"m","code":200}}`:                               {502, "m", "", "", "200"},
		`{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}`:        {503, "m", "UNAVAILABLE", "", "503"},
		`{"error":{"message":"m","status":"RESOURCE_EXHAUSTED"}}`:            {429, "m", "RESOURCE_EXHAUSTED", "", ""},
		`{"error":"overloaded"}`:                                             {502, "overloaded", "", "", ""},
		`{"error":"overloaded","status_code":503}`:                           {503, "overloaded", "", "", ""},
		`{"error":{}}`: {502, "The provider answered 502 Bad Gateway", "", "", ""},
		`{"type":"error","error":{"type":"overloaded_error","message":"m"}}`:                                     {529, "m", "overloaded_error", "", ""},
		`{"type":"error","error":{"type":"api_error","message":"m"}}`:                                            {502, "m", "api_error", "", ""},
		`{"type":"error","code":"insufficient_quota","message":"m","param":null}`:                                {429, "m", "", "", "insufficient_quota"},
		`{"type":"error","code":"server_error","message":"m"}`:                                                   {502, "m", "", "", "server_error"},
		`{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"m"}}}`:           {429, "m", "", "", "rate_limit_exceeded"},
		`{"type":"response.failed","response":{"id":"r","error":{"code":"server_is_overloaded","message":"m"}}}`: {503, "m", "", "", "server_is_overloaded"},
		`{"choices":[],"error":{"message":"m","code":504}}`:                                                      {504, "m", "", "", "504"},
	} {
		if got := ReadEvent([]byte(event)); *got != want {
			t.Errorf("%s: got %+v", event, *got)
		}
	}
}
