package routing

import "testing"

func TestMaskHidesCredentialsAndKeepsEveryOtherByte(t *testing.T) {
	text := `{ "api_key" : "sk-0123456789abcdef", "targets":[{"provider":"a","api_key":"sk-fedcba9876543210"},` + "\n" +
		`{"aws_secret_access_key":"wJalrXUtnFEMI/K7MDENG","override_params":{"n": 1.50}}] }`
	masked := `{ "api_key" : "sk*****def", "targets":[{"provider":"a","api_key":"sk*****210"},` + "\n" +
		`{"aws_secret_access_key":"wJ*****ENG","override_params":{"n": 1.50}}] }`
	if got := Mask(text); got != masked {
		t.Errorf("got %s", got)
	}
	if got := Unmask(masked, text); got != text {
		t.Errorf("got %s", got)
	}
	if got := Unmask(`{"api_key":"sk-new"}`, text); got != `{"api_key":"sk-new"}` {
		t.Errorf("got %s", got)
	}
}
