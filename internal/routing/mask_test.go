package routing

import (
	"strings"
	"testing"
)

func TestMaskHidesCredentialsAndKeepsEveryOtherByte(t *testing.T) {
	text := `{ "api_key" : "sk-0123456789abcdef", "targets":[{"provider":"a","api_key":"sk-fedcba9876543210"},` + "\n" +
		`{"aws_secret_access_key":"wJalrXUtnFEMI/K7MDENG","override_params":{"n": 1.50}}] }`
	masked := `{ "api_key" : "sk*****def", "targets":[{"provider":"a","api_key":"sk*****210"},` + "\n" +
		`{"aws_secret_access_key":"wJ*****ENG","override_params":{"n": 1.50}}] }`
	if got := Mask(text); got != masked {
		t.Errorf("got %s", got)
	}
	if got, err := Unmask(masked, text); got != text || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err := Unmask(`{"api_key":"sk-new"}`, text); got != `{"api_key":"sk-new"}` || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
}

// hook is a config with a check that sends calls to a URL.
func hook(url, authorization string) string {
	return `{"before_request_hooks":[{"checks":[{"id":"default.webhook","parameters":{"webhookURL":"` + url + `","headers":{"authorization":"` + authorization + `"}}}]}]}`
}

func TestTheQueryOfAURLIsMasked(t *testing.T) {
	text := hook("https://a.net/h?k=CANARY&l=", "Bearer 0123456789")
	if got, want := Mask(text), hook("https://a.net/h?k=*****&l=", "Be*****789"); got != want {
		t.Errorf("got %s", got)
	}
}

// URLs are found whatever their names are, and however deep.
func TestTheQueryOfAURLIsMaskedWhateverItsName(t *testing.T) {
	t.Parallel()
	for _, url := range []struct{ text, shown string }{
		{"https://a.net/h?k=CANARY", "https://a.net/h?k=*****"}, {"http://u:CANARY@a.net/h", "http://*****@a.net/h"}, {"https://a.net/#CANARY", "https://a.net/#*****"},
	} {
		for _, form := range []string{
			`"URL"`, `{"x":"URL"}`, `["URL"]`, `{"urls":["URL"]}`, `{"endpoint":"URL"}`, `{"link":"URL"}`, `{"webhook":"URL"}`, `{"image_url":{"u":"URL"}}`,
			`[[{"":["x","URL"]}]]`, `{"tools":[{"a":{"b":[{"c":"URL"}]}}]}`,
		} {
			for _, in := range []string{`{"provider":"a","override_params":{"p":FORM}}`, `{"targets":[{"provider":"a","default_params":{"p":FORM}}]}`, `{"before_request_hooks":[{"checks":[{"id":"x","parameters":{"p":FORM}}]}]}`, `{"provider":"a","unknown":FORM}`} {
				text := strings.Replace(strings.Replace(in, "FORM", form, 1), "URL", url.text, 1)
				want := strings.Replace(text, url.text, url.shown, 1)
				masked := Mask(text)
				if masked != want || strings.Contains(masked, "CANARY") {
					t.Errorf("%s is shown as %s", text, masked)
					continue
				}
				if back, err := Unmask(masked, text); back != text || err != nil {
					t.Errorf("%s comes back as %s, %v", masked, back, err)
				}
				// It is nobody else's, and leads nowhere else.
				for _, other := range []string{strings.Replace(masked, "a.net", "b.net", 1), strings.Replace(masked, `"p":`, `"q":`, 1), strings.Replace(masked, `"unknown":`, `"other":`, 1)} {
					if back, err := Unmask(other, text); other != masked && err == nil {
						t.Errorf("%s comes back as %s", other, back)
					}
				}
			}
		}
	}
	const plain = `{"provider":"a","override_params":{"a":"https://a.net/h","b":"what is https://a.net?","c":["mailto:a@b.net?subject=c"]}}`
	if got := Mask(plain); got != plain {
		t.Errorf("got %s", got)
	}
}

// A stored credential stays where it was saved for: what leads it elsewhere is named.
func TestAMaskedCredentialStaysWithItsDestination(t *testing.T) {
	const (
		one = `"api_key":"sk-0123456789abcdef"`
		was = `"api_key":"sk*****def"`
		two = `"aws_secret_access_key":"fedcba9876543210"`
		had = `"aws_secret_access_key":"fe*****210"`
	)
	for _, c := range []struct{ name, old, sent, want, wrong string }{
		{name: "other settings", old: `{"provider":"a",` + one + `}`, sent: `{"provider":"a","request_timeout":5,` + was + `}`, want: `{"provider":"a","request_timeout":5,` + one + `}`},
		{name: "its own host", old: `{"provider":"a",` + one + `}`, sent: `{"provider":"a","custom_host":"https://h.net",` + was + `}`, wrong: "custom_host: send api_key along"},
		{name: "without its host", old: `{"provider":"a","custom_host":"https://h.net",` + one + `}`, sent: `{"provider":"a",` + was + `}`, wrong: "custom_host: send api_key along"},
		{name: "its provider", old: `{"provider":"a",` + one + `}`, sent: `{"provider":"b",` + was + `}`, wrong: "provider: send api_key along"},
		{name: "a virtual key", old: `{"provider":"a",` + one + `}`, sent: `{"provider":"a","virtual_key":"v",` + was + `}`, wrong: "virtual_key: send api_key along"},
		{name: "a region", old: `{"provider":"a","aws_region":"eu",` + two + `}`, sent: `{"provider":"a","aws_region":"us",` + had + `}`, wrong: "aws_region: send aws_secret_access_key along"},
		{name: "a resource", old: `{"provider":"a","azure_resource_name":"r",` + one + `}`, sent: `{"provider":"a","azure_resource_name":"s",` + was + `}`, wrong: "azure_resource_name: send api_key along"},
		{name: "an address", old: `{"provider":"a",` + one + `}`, sent: `{"provider":"a","huggingface_base_url":"https://h.net",` + was + `}`, wrong: "huggingface_base_url: send api_key along"},
		{name: "one of two sent", old: `{"provider":"a",` + one + `,` + two + `}`, sent: `{"provider":"a","custom_host":"https://h.net","api_key":"sk-new",` + had + `}`, wrong: "custom_host: send aws_secret_access_key along"},
		{name: "all sent", old: `{"provider":"a",` + one + `}`, sent: `{"provider":"b","api_key":"sk-new"}`, want: `{"provider":"b","api_key":"sk-new"}`},
		{name: "the parent's host", old: `{"targets":[{"provider":"a",` + one + `}]}`, sent: `{"custom_host":"https://h.net","targets":[{"provider":"a",` + was + `}]}`, wrong: "custom_host: send targets[0].api_key along"},
		{name: "a grandparent's host", old: `{"targets":[{"targets":[{"provider":"a",` + one + `}]}]}`, sent: `{"custom_host":"https://h.net","targets":[{"targets":[{"provider":"a",` + was + `}]}]}`, wrong: "custom_host: send targets[0].targets[0].api_key along"},
		{name: "the host, said by the parent now", old: `{"targets":[{"provider":"a","custom_host":"https://h.net",` + one + `}]}`, sent: `{"custom_host":"https://h.net","targets":[{"provider":"a",` + was + `}]}`, want: `{"custom_host":"https://h.net","targets":[{"provider":"a",` + one + `}]}`},
		{name: "another order", old: `{"targets":[{"provider":"a",` + one + `},{"provider":"b","api_key":"sk-fedcba9876543210"}]}`, sent: `{"targets":[{"provider":"b","api_key":"sk*****210"},{"provider":"a",` + was + `}]}`, want: `{"targets":[{"provider":"b","api_key":"sk-fedcba9876543210"},{"provider":"a",` + one + `}]}`},
		{name: "one before it", old: `{"targets":[{"provider":"a",` + one + `}]}`, sent: `{"targets":[{"provider":"c"},{"provider":"a",` + was + `}]}`, want: `{"targets":[{"provider":"c"},{"provider":"a",` + one + `}]}`},
		{name: "two in each other's place", old: `{"targets":[{"provider":"a","api_key":"short1"},{"provider":"b","api_key":"short2"}]}`, sent: `{"targets":[{"provider":"b","api_key":"*****"},{"provider":"a","api_key":"*****"}]}`, want: `{"targets":[{"provider":"b","api_key":"short2"},{"provider":"a","api_key":"short1"}]}`},
		{name: "moved, and of two that look the same", old: `{"targets":[{"provider":"a","api_key":"short1"},{"provider":"a","api_key":"short2"}]}`, sent: `{"provider":"a","api_key":"*****"}`, wrong: "api_key: a masked value that stands for more than one"},
		{name: "moved below a host", old: `{"targets":[{"provider":"a",` + one + `},{"custom_host":"https://h.net","targets":[{"provider":"b"}]}]}`, sent: `{"targets":[{"custom_host":"https://h.net","targets":[{"provider":"a",` + was + `}]}]}`, wrong: "custom_host: send targets[0].targets[0].api_key along"},
		{name: "as another field", old: `{"provider":"a",` + one + `}`, sent: `{"provider":"a","azure_ad_token":"sk*****def"}`, wrong: "azure_ad_token: a masked value that stands for no stored credential"},
		{name: "of nothing", old: `{"provider":"a"}`, sent: `{"provider":"a",` + was + `}`, wrong: "api_key: a masked value that stands for no stored credential"},
		{name: "a service account", old: `{"provider":"a","vertex_service_account_json":{"private_key":"pem-of-the-account"}}`, sent: `{"provider":"a","vertex_service_account_json":"{\"*****t\"}"}`, want: `{"provider":"a","vertex_service_account_json":"{\"private_key\":\"pem-of-the-account\"}"}`},
		{name: "an empty host of its own, and its parent's", old: `{"targets":[{"provider":"a","custom_host":"",` + one + `}]}`, sent: `{"custom_host":"https://h.net","targets":[{"provider":"a","custom_host":"",` + was + `}]}`, wrong: "custom_host: send targets[0].api_key along"},
		{name: "in parameters, above another host", old: `{"override_params":{"token":"token-of-a-body"},"targets":[{"provider":"a"}]}`, sent: `{"override_params":{"token":"to*****ody"},"targets":[{"provider":"a","custom_host":"https://h.net"}]}`, wrong: "targets: send override_params.token along"},
		{name: "in parameters, above another target", old: `{"override_params":{"token":"token-of-a-body"},"targets":[{"provider":"a"}]}`, sent: `{"override_params":{"token":"to*****ody"},"targets":[{"provider":"a"},{"provider":"b"}]}`, wrong: "targets: send override_params.token along"},
		{name: "in parameters, as shown", old: `{"override_params":{"token":"token-of-a-body"},"targets":[{"provider":"a"}]}`, sent: `{"override_params":{"token":"to*****ody"},"targets":[{"provider":"a","weight":2}]}`, want: `{"override_params":{"token":"token-of-a-body"},"targets":[{"provider":"a","weight":2}]}`},
		{name: "in a body's parameters", old: `{"provider":"a","override_params":{"tools":[{"server_url":"https://a.net","authorization":"token-of-a-tool"}]}}`, sent: `{"provider":"a","override_params":{"tools":[{"server_url":"https://evil.net","authorization":"to*****ool"}]}}`, wrong: "override_params: send override_params.tools[0].authorization along"},
		{name: "the query of a URL, as shown", old: hook("https://a.net/h?k=secret&l=", "Bearer 0123456789"), sent: hook("https://a.net/h?k=*****&l=", "Be*****789"), want: hook("https://a.net/h?k=secret&l=", "Bearer 0123456789")},
		{name: "the query of a URL, at another host", old: hook("https://a.net/h?k=secret", "Bearer 0123456789"), sent: hook("https://evil.net/h?k=*****", "Bearer new"), wrong: "before_request_hooks[0].checks[0].parameters.webhookURL: a masked value that stands for no stored credential"},
		{name: "a header, at another host with a query", old: hook("https://a.net/h?k=secret", "Bearer 0123456789"), sent: hook("https://evil.net/h?k=new", "Be*****789"), wrong: "before_request_hooks: send before_request_hooks[0].checks[0].parameters.headers.authorization along"},
		{name: "a URL of a list, moved to another name", old: `{"provider":"a","override_params":{"x":["https://a.net/?k=s"]}}`, sent: `{"provider":"a","override_params":{"y":["https://a.net/?k=*****"]}}`, wrong: "override_params: send override_params.y[0] along"},
		{name: "a URL of a list, at another provider", old: `{"provider":"a","override_params":{"x":["https://a.net/?k=s"]}}`, sent: `{"provider":"b","override_params":{"x":["https://a.net/?k=*****"]}}`, wrong: "provider: send override_params.x[0] along"},
		{name: "two URLs that look the same", old: `{"provider":"a","override_params":{"x":["https://a.net/?k=s","https://a.net/?k=t"]}}`, sent: `{"provider":"a","override_params":{"x":["https://a.net/?k=*****","https://a.net/?k=*****"]}}`, want: `{"provider":"a","override_params":{"x":["https://a.net/?k=s","https://a.net/?k=t"]}}`},
		{name: "a URL in clear", old: hook("https://a.net/h?k=secret", "Bearer 0123456789"), sent: hook("https://b.net/h?k=new", "Bearer new"), want: hook("https://b.net/h?k=new", "Bearer new")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := Unmask(c.sent, c.old)
			switch {
			case c.wrong == "" && (err != nil || got != c.want):
				t.Errorf("got %s, %v", got, err)
			case c.wrong != "" && (err == nil || !strings.HasPrefix(err.Error(), c.wrong)):
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}

// Whether a vendor's key is masked follows from the table, so that each has to say it.
func TestEveryVendorKeySaysWhatItIsToACredential(t *testing.T) {
	for name, k := range vendorKeys {
		text := `{"` + name + `":"a-value-of-some-length"}`
		switch shown := Mask(text); {
		case k.use == 0:
			t.Errorf("%s is neither a secret nor a place nor an option", name)
		case (k.use == secret) == strings.Contains(shown, "value"):
			t.Errorf("%s is shown as %s", name, shown)
		case k.form == address && k.use != place:
			t.Errorf("%s is an address and no place", name)
		case k.use != secret && soundsSecret(name):
			t.Errorf("%s sounds like a secret", name)
		}
	}
}
