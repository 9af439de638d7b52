package handlers_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

var update = flag.Bool("update", false, "update the golden files")

const separator = "----------\n"

// Each golden file is a Caddyfile, a line of hyphens, and the JSON that it becomes.
func TestCaddyfilesAdaptToTheirGoldenJSON(t *testing.T) {
	files, err := filepath.Glob("testdata/adapt/*.caddyfiletest")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source, want, _ := strings.Cut(string(content), separator)
			adapted, err := gatewaytest.Adapt(source)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := json.Indent(&got, adapted, "", "\t"); err != nil {
				t.Fatal(err)
			}
			got.WriteByte('\n')
			if *update {
				if err := os.WriteFile(file, []byte(source+separator+got.String()), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got.String() != want {
				t.Errorf("got:\n%s\nwant:\n%s", got.String(), want)
			}
		})
	}
}

func TestCaddyfileErrorsNameTheLineAndWhatWasExpected(t *testing.T) {
	for source, want := range map[string]string{
		"{\n gw {\n  alias a\n }\n}":                                                                        `wrong argument count or unexpected line ending after 'a', at Caddyfile:3`,
		"{\n gw {\n  alias a @b/c\n  alias a @b/d\n }\n}":                                                   `alias a is given twice, at Caddyfile:4`,
		"{\n gw {\n  logs {\n   retention soon\n  }\n }\n}":                                                 `retention: expected a duration such as 30d, got "soon", at Caddyfile:4`,
		"{\n gw {\n  logs {\n   size big\n  }\n }\n}":                                                       `size: expected a size such as 256MiB, got "big", at Caddyfile:4`,
		"{\n gw {\n  logs {\n   bodies maybe\n  }\n }\n}":                                                   `bodies: expected on or off, got "maybe", at Caddyfile:4`,
		"{\n gw {\n  logs {\n   bodies on\n   bodies off\n  }\n }\n}":                                       "bodies is given twice, at Caddyfile:5",
		"{\n gw {\n  logs {\n   nope\n  }\n }\n}":                                                           `unrecognized subdirective "nope", at Caddyfile:4`,
		"{\n gw {\n  logs {\n  }\n  logs {\n  }\n }\n}":                                                     "logs is given twice, at Caddyfile:5",
		"{\n gw {\n  audit_log {\n   nope\n  }\n }\n}":                                                      `unrecognized subdirective "nope", at Caddyfile:4`,
		"{\n gw {\n  audit_log {\n  }\n  audit_log {\n  }\n }\n}":                                           "audit_log is given twice, at Caddyfile:5",
		"{\n gw {\n  audit_log {\n   key a\n   key file b\n  }\n }\n}":                                      "key is given twice, at Caddyfile:5",
		"{\n gw {\n  audit_log {\n   retention soon\n  }\n }\n}":                                            `retention: expected a duration such as 30d, got "soon"`,
		"{\n gw {\n  audit_log {\n   output nope\n  }\n }\n}":                                               "caddy.logging.writers.nope",
		"{\n gw {\n  audit_log {\n   output\n  }\n }\n}":                                                    "wrong argument count",
		"{\n gw {\n  jwt {\n   nope\n  }\n }\n}":                                                            `unrecognized subdirective "nope", at Caddyfile:4`,
		"{\n gw {\n  jwt {\n   issuer a\n   issuer b\n  }\n }\n}":                                           "issuer is given twice, at Caddyfile:5",
		"{\n gw {\n  jwt x {\n  }\n }\n}":                                                                   "wrong argument count",
		"{\n gw {\n  smtp {\n   nope\n  }\n }\n}":                                                           `unrecognized subdirective "nope", at Caddyfile:4`,
		"{\n gw {\n }\n}\n:0 {\n gw_ratelimit {\n  on_store_failure maybe\n }\n}":                           `on_store_failure: expected refuse or allow, got "maybe", at Caddyfile:7`,
		"{\n gw {\n }\n}\n:0 {\n gw_ratelimit {\n  on_store_failure\n }\n}":                                 "wrong argument count",
		"{\n gw {\n }\n}\n:0 {\n gw_ratelimit {\n  on_store_failure allow\n  on_store_failure allow\n }\n}": "on_store_failure is given twice, at Caddyfile:8",
		"{\n gw {\n }\n}\n:0 {\n gw_ratelimit {\n  nope\n }\n}":                                             `unrecognized subdirective "nope", at Caddyfile:7`,
		"{\n gw {\n  alerts {\n  }\n  alerts {\n  }\n }\n}":                                                 "alerts is given twice, at Caddyfile:5",
		"{\n gw {\n  alerts {\n   mail\n  }\n }\n}":                                                         `unrecognized subdirective "mail", at Caddyfile:4`,
		"{\n gw {\n  alerts x {\n  }\n }\n}":                                                                "wrong argument count",
		"{\n gw {\n  alerts {\n   webhook\n  }\n }\n}":                                                      "webhook: expected a URL, and a block with secret, at Caddyfile:4",
		"{\n gw {\n  alerts {\n   webhook http://a http://b\n  }\n }\n}":                                    "webhook: expected a URL, and a block with secret, at Caddyfile:4",
		"{\n gw {\n  alerts {\n   webhook http://a\n   webhook http://b\n  }\n }\n}":                        "webhook is given twice, at Caddyfile:5",
		"{\n gw {\n  alerts {\n   webhook http://a {\n    token x\n   }\n  }\n }\n}":                        `unrecognized subdirective "token", at Caddyfile:5`,
		"{\n gw {\n  alerts {\n   webhook http://a {\n    secret x\n    secret y\n   }\n  }\n }\n}":         "secret is given twice, at Caddyfile:6",
		"{\n gw {\n  smtp {\n  }\n  smtp {\n  }\n }\n}":                                                     "smtp is given twice, at Caddyfile:5",
		"{\n gw {\n  nope\n }\n}":                                                                           `unrecognized subdirective "nope", at Caddyfile:3`,
		"{\n gw extra {\n }\n}":                                                                             "wrong argument count or unexpected line ending after 'extra', at Caddyfile:2",
		"{\n gw {\n }\n gw {\n }\n}":                                                                        "the global option is given twice",
		"{\n gw {\n  storage\n }\n}":                                                                        "wrong argument count",
		"{\n gw {\n  storage nope\n }\n}":                                                                   "gw.storage.nope",
		"{\n gw {\n  storage badger a b\n }\n}":                                                             "wrong argument count or unexpected line ending after 'b', at Caddyfile:3",
		"{\n gw {\n  storage badger {\n   x\n  }\n }\n}":                                                    `unrecognized subdirective "x"`,
		"{\n gw {\n  storage badger\n  storage badger\n }\n}":                                               "storage is given twice, at Caddyfile:4",
		"{\n gw {\n  admin_key\n }\n}":                                                                      "wrong argument count",
		"{\n gw {\n  admin_key a b\n }\n}":                                                                  "wrong argument count",
		"{\n gw {\n  admin_key a\n  admin_key b\n }\n}":                                                     "admin_key is given twice, at Caddyfile:4",
		"{\n gw {\n  admin_key \"\"\n }\n}":                                                                 "admin_key: the value is empty",
		"{\n gw {\n  admin_key a {\n   b\n  }\n }\n}":                                                       "admin_key takes no block",
		"{\n gw {\n  encryption_key\n }\n}":                                                                 "wrong argument count",
		"{\n gw {\n  encryption_key file\n }\n}":                                                            "wrong argument count",
		"{\n gw {\n  encryption_key file a b\n }\n}":                                                        "wrong argument count",
		"{\n gw {\n  encryption_key a\n  encryption_key file b\n }\n}":                                      "encryption_key is given twice",
		"{\n gw {\n  azure_identity\n }\n}":                                                                 "wrong argument count",
		"{\n gw {\n  provider_identity aws\n }\n}":                                                          "wrong argument count",
		"{\n gw {\n  provider_identity aws instance\n  provider_identity aws container\n }\n}":              "provider_identity aws is given twice",
		"{\n gw {\n  trusted_custom_hosts\n }\n}":                                                           "wrong argument count",
		"{\n gw {\n  header_prefix\n }\n}":                                                                  "wrong argument count",
		"{\n gw {\n  block_inline_config yes\n }\n}":                                                        `expected on or off, got "yes"`,
		"{\n gw {\n  block_inline_config\n }\n}":                                                            "wrong argument count",
		"{\n gw {\n  provider\n }\n}":                                                                       "wrong argument count",
		"{\n gw {\n  provider a b {\n   type openai\n  }\n }\n}":                                            "wrong argument count",
		"{\n gw {\n  provider a/b {\n   type openai\n  }\n }\n}":                                            "a slug is letters, digits, _ and - only",
		"{\n gw {\n  provider a\n }\n}":                                                                     "provider a: type is required",
		"{\n gw {\n  provider a {\n   type openai\n  }\n  provider a {\n   type openai\n  }\n }\n}":         "provider a is given twice",
		"{\n gw {\n  provider a {\n   nope\n  }\n }\n}":                                                     `unrecognized subdirective "nope", at Caddyfile:4`,
		"{\n gw {\n  provider a {\n   type\n  }\n }\n}":                                                     "wrong argument count",
		"{\n gw {\n  provider a {\n   header X\n  }\n }\n}":                                                 "wrong argument count",
		"{\n gw {\n  provider a {\n   workspaces\n  }\n }\n}":                                               "wrong argument count",
		"{\n gw {\n  provider a {\n   aws_region\n  }\n }\n}":                                               "wrong argument count",
		"{\n gw {\n  provider a {\n   aws_region a\n   setting aws_region b\n  }\n }\n}":                    "setting aws_region is given twice, at Caddyfile:5",
		"{\n gw {\n  price openai\n }\n}":                                                                   "wrong argument count",
		"{\n gw {\n  price openai m\n }\n}":                                                                 "expected a block with at least one price, such as input_mtok 0.15",
		"{\n gw {\n  price openai m {\n   input 1\n  }\n }\n}":                                              "input: expected one of input_mtok, cache_read_mtok",
		"{\n gw {\n  price openai m {\n   input_mtok -1\n  }\n }\n}":                                        `input_mtok: expected US dollars from 0 to 1000000, such as 0.15, got "-1"`,
		"{\n gw {\n  price openai m {\n   input_mtok 1\n   input_mtok 1\n  }\n }\n}":                        "input_mtok is given twice, at Caddyfile:5",
		"{\n gw {\n  price a m {\n   input_mtok 1\n  }\n  price a m {\n   input_mtok 1\n  }\n }\n}":         "price a m is given twice, at Caddyfile:6",
		"{\n gw {\n  prices_file\n }\n}":                                                                    "wrong argument count",
		":80 {\n gw_admin x\n}":                                                                             "wrong argument count or unexpected line ending after 'x', at Caddyfile:2",
		":80 {\n gw_admin {\n  x\n }\n}":                                                                    `unrecognized subdirective "x"`,
		":80 {\n gw_ratelimit x\n}":                                                                         "wrong argument count",
		":80 {\n gw_ratelimit {\n  x\n }\n}":                                                                `unrecognized subdirective "x"`,
		":80 {\n gw_inference x\n}":                                                                         "wrong argument count",
		":80 {\n gw_inference {\n  x\n }\n}":                                                                `unrecognized subdirective "x", at Caddyfile:3`,
		":80 {\n gw_inference {\n  max_body\n }\n}":                                                         "wrong argument count",
		":80 {\n gw_inference {\n  max_body lots\n }\n}":                                                    `expected a size such as 32MiB, got "lots"`,
		":80 {\n gw_inference {\n  max_body 1MB\n  max_body 2MB\n }\n}":                                     "max_body is given twice",
		":80 {\n gw_inference {\n  stream_close_delay x\n }\n}":                                             "expected a duration",
		":80 {\n gw_inference {\n  body_timeout x\n }\n}":                                                   "body_timeout: expected a duration",
		":80 {\n gw_inference {\n  provider_header_timeout 0s\n }\n}":                                       "provider_header_timeout: expected a duration",
		":80 {\n gw_inference {\n  transport {\n   nope\n  }\n }\n}":                                        "nope",
		":80 {\n gw_echo {\n  delay\n }\n}":                                                                 "wrong argument count",
		"{\n gw {\n  cache_size lots\n }\n}\n:80 {\n gw_admin\n}":                                           `expected a size such as 256MiB, got "lots"`,
		"{\n gw {\n  gc_headroom lots\n }\n}\n:80 {\n gw_admin\n}":                                          `gc_headroom: expected a size such as 40MiB, or off, got "lots"`,
		"{\n gw {\n  gc_headroom off\n  gc_headroom off\n }\n}\n:80 {\n gw_admin\n}":                        "gc_headroom is given twice",
		"{\n gw {\n  max_inflight_calls 1GiB\n }\n}\n:80 {\n gw_admin\n}":                                   `max_inflight_calls: expected a number of calls, got "1GiB"`,
		"{\n gw {\n  max_inflight_bytes lots\n }\n}\n:80 {\n gw_admin\n}":                                   `expected a size such as 256MiB, got "lots"`,
		"{\n gw {\n  max_inflight_bytes 1GiB\n  max_inflight_bytes 1GiB\n }\n}\n:80 {\n gw_admin\n}":        "max_inflight_bytes is given twice",
		":80 {\n gw_echo {\n  nope\n }\n}":                                                                  `unrecognized subdirective "nope"`,
	} {
		_, err := gatewaytest.Adapt(source)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\n got %v\nwant %s", source, err, want)
		}
	}
}

func TestConfigurationsThatCouldNotWorkAreRefused(t *testing.T) {
	key := strings.Repeat("k", 32)
	t.Setenv("GW_SHORT", "short")
	for source, want := range map[string]string{
		":0 {\n gw_ratelimit\n}": "its server has no gw_inference",
		"{\n gw {\n  audit_log {\n   key short\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                                                                        "audit_log: key: expected at least 32 characters, got 5",
		"{\n gw {\n  audit_log {\n   country_header \"a b\"\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                                                           `audit_log: country_header: expected the name of a header, got "a b"`,
		"{\n gw {\n  jwt {\n   issuer a\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                                                                               "jwt: audience is required",
		"{\n gw {\n  jwt {\n   audience a\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                                                                             "jwt: issuer: the value is empty",
		"{\n gw {\n  jwt {\n   issuer a\n   audience a\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                                                                "jwt: expected jwks_url or jwks_file",
		"{\n gw {\n  jwt {\n   issuer a\n   audience a\n   jwks_url x.y\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                                               "expected the URL of a JSON Web Key Set",
		"{\n gw {\n  jwt {\n   issuer a\n   audience a\n   jwks_file /nowhere\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                                         "jwks_file: open /nowhere",
		"{\n gw {\n  smtp {\n   address mail\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                                                                          `smtp: from: expected an address, got ""`,
		"{\n gw {\n  alerts {\n   webhook ftp://a {\n    secret 0123456789abcdef\n   }\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                                "alerts: webhook: expected an http or https URL without a user and a fragment, such as https://alerts.example.com/gw",
		"{\n gw {\n  alerts {\n   webhook https://u:p@a {\n    secret 0123456789abcdef\n   }\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                          "alerts: webhook: expected an http or https URL without a user",
		"{\n gw {\n  alerts {\n   webhook https://a\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                                                                   "alerts: webhook: secret is required, so that the receiver can tell alerts from forgeries; make one with: openssl rand -hex 32",
		"{\n gw {\n  alerts {\n   webhook https://a {\n    secret short\n   }\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                                         "alerts: webhook: secret: expected at least 16 characters, got 5",
		"{\n gw {\n  smtp {\n   from a@b.c\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                                                                            `smtp: address: expected a host, or host:port, got ""`,
		"{\n gw {\n  smtp {\n   address mail\n   from a@b.c\n   username u\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                                            "smtp: expected a username and a password, or neither",
		"{\n gw {\n  smtp {\n   address mail\n   from a@b.c\n   username u\n   password p\n   tls off\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                 "the password would be sent in clear",
		"{\n gw {\n  gc_headroom 1KiB\n }\n}\n:0 {\n gw_admin\n}":                                                                                                                      "gc_headroom: expected at least 4 MiB, or 0 for Go's own setting, got 1024 bytes",
		"{\n gw {\n  max_inflight_calls 15\n }\n}\n:0 {\n gw_admin\n}":                                                                                                                 "max_inflight_calls: expected at least 16, got 15",
		"{\n gw {\n  max_inflight_bytes 1KiB\n }\n}\n:0 {\n gw_admin\n}":                                                                                                               "max_inflight_bytes: expected at least 1 MiB, got 1024 bytes",
		"{\n gw {\n  price nobody m {\n   input_mtok 1\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                                                                `price nobody m: there is no provider "nobody"`,
		"{\n gw {\n  prices_file /nowhere\n }\n}\n:0 {\n gw_admin\n}":                                                                                                                  "prices_file: open /nowhere",
		"{\n gw {\n  prices_file /dev/zero\n }\n}\n:0 {\n gw_admin\n}":                                                                                                                 "prices_file: /dev/zero has more than 16777216 bytes",
		"{\n gw {\n  prices_file testdata\n }\n}\n:0 {\n gw_admin\n}":                                                                                                                  "prices_file: read testdata",
		":0 {\n route {\n  gw_ratelimit\n }\n}\n:1 {\n respond ok\n}":                                                                                                                  "its server has no gw_inference",
		"{\n gw {\n  data_service_token short\n }\n}\n:0 {\n gw_admin\n}":                                                                                                              "data_service_token: expected at least 32 characters, got 5",
		"{\n gw {\n  admin_key " + key + "\n  data_service_token " + key + "\n }\n}\n:0 {\n gw_admin\n}":                                                                               "data_service_token: it is the admin_key",
		"{\n gw {\n  admin_key short\n }\n}\n:0 {\n gw_admin\n}":                                                                                                                       "admin_key: expected at least 32 characters, got 5",
		"{\n gw {\n  admin_key {env.GW_SHORT}\n }\n}\n:0 {\n gw_admin\n}":                                                                                                              "admin_key: expected at least 32 characters, got 5",
		"{\n gw {\n  admin_key {env.GW_NOT_SET}\n }\n}\n:0 {\n gw_admin\n}":                                                                                                            "admin_key",
		"{\n gw {\n  encryption_key short\n }\n}\n:0 {\n gw_admin\n}":                                                                                                                  "encryption_key: expected at least 32 characters, got 5",
		"{\n gw {\n  trusted_custom_hosts 169.254.169.254\n }\n}\n:0 {\n gw_admin\n}":                                                                                                  "can never be trusted",
		"{\n gw {\n  azure_identity nope\n }\n}\n:0 {\n gw_admin\n}":                                                                                                                   "azure_identity: expected instance, app_service or workload",
		"{\n gw {\n  provider_identity oracle instance\n }\n}\n:0 {\n gw_admin\n}":                                                                                                     `provider_identity: expected aws or azure, got "oracle"`,
		"{\n gw {\n  provider_identity aws nope\n }\n}\n:0 {\n gw_admin\n}":                                                                                                            "provider_identity aws: identity: expected instance, container or web_identity",
		"{\n gw {\n  provider_identity azure app_service\n }\n}\n:0 {\n gw_admin\n}":                                                                                                   "provider_identity azure: identity app_service: the environment variable IDENTITY_ENDPOINT is not set",
		"{\n gw {\n  provider a {\n   type bedrock\n   aws_region eu-west-1\n   aws_auth_type serviceRole\n  }\n }\n}\n:0 {\n gw_admin\n}":                                             "provider a: aws_auth_type: serviceRole is what the gateway's machine is, which the operator's configuration does not give to providers (provider_identity aws)",
		"{\n gw {\n  provider_identity aws instance\n  provider a {\n   type bedrock\n   base_url https://a.example.com\n   aws_auth_type serviceRole\n  }\n }\n}\n:0 {\n gw_admin\n}": "goes to the provider's own hosts only",
		"{\n gw {\n  trusted_custom_hosts http://a\n }\n}\n:0 {\n gw_admin\n}":                                                                                                         "is not a host",
		"{\n gw {\n  header_prefix acme\n }\n}\n:0 {\n gw_admin\n}":                                                                                                                    `header prefix "acme"`,
		"{\n gw {\n  provider a {\n   type nope\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                                                                       `provider a: type: there is no provider "nope"`,
		"{\n gw {\n  provider a {\n   type openai\n   base_url nope\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                                                   "provider a: base_url",
		"{\n gw {\n  provider a {\n   type openai\n   api_key {env.GW_NOT_SET}\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                                        "provider a: api_key",
		"{\n gw {\n  cache_scope planet\n }\n}\n:0 {\n gw_admin\n}":                                                                                                                    `cache_scope: expected workspace or organisation, got "planet"`,
		"{\n gw {\n  semantic_cache {\n   model m\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                                                                     "semantic_cache: provider: required",
		"{\n gw {\n  semantic_cache {\n   provider nope\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                                                               `there is no provider "nope"`,
		"{\n gw {\n  provider a {\n   type bedrock-of-nobody\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                                                          "there is no provider",
		"{\n gw {\n  provider a {\n   type openai\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                                                                     "provider a: api_key: required",
		"{\n gw {\n  provider a {\n   type bedrock\n   api_key k\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                                                      "provider a: aws_region: required",
		"{\n gw {\n  provider a {\n   type bedrock\n   aws_region us-east-1\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                                           "provider a: api_key: required",
		"{\n gw {\n  provider a {\n   type openai\n   setting nope x\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                                                  "provider a: setting nope: unknown key",
		"{\n gw {\n  provider a {\n   type azure-openai\n   setting azure_resource_name a/b\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                           "provider a: setting azure_resource_name: expected letters",
		"{\n gw {\n  provider a {\n   type azure-ai\n   setting azure_foundry_url https://x.example\n  }\n }\n}\n:0 {\n gw_admin\n}":                                                   "write the provider's address as base_url",
		":0 {\n gw_inference {\n  transport {\n   proxy_protocol v2\n  }\n }\n}":                                                                                                       "proxy_protocol",
		":0 {\n gw_inference {\n  transport {\n   versions 3\n  }\n }\n}":                                                                                                              "HTTP/3 is not supported",
	} {
		config, err := gatewaytest.Adapt(source)
		if err != nil {
			t.Errorf("%q: %v", source, err)
			continue
		}
		err = validate(config)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\n got %v\nwant %s", source, err, want)
		}
	}
	for _, source := range []string{
		":0 {\n gw_ratelimit\n gw_inference\n}",
		":0 {\n handle /v1/* {\n  route {\n   gw_ratelimit\n   gw_inference\n  }\n }\n}",
		"&(models) {\n gw_inference\n}\n:0 {\n gw_ratelimit\n invoke models\n}",
		"{\n gw {\n  admin_key " + key + "\n }\n}\n:0 {\n gw_admin\n gw_ratelimit\n gw_inference\n}",
		"{\n gw {\n  provider a {\n   type azure-openai\n   azure_resource_name r\n   setting azure_api_version 2024-10-21\n   api_key k\n  }\n }\n}\n:0 {\n gw_admin\n}",
	} {
		config, err := gatewaytest.Adapt(source)
		if err == nil {
			err = validate(config)
		}
		if err != nil {
			t.Errorf("%q: %v", source, err)
		}
	}
}

func validate(config []byte) error {
	var c caddy.Config
	if err := json.Unmarshal(config, &c); err != nil {
		return err
	}
	return caddy.Validate(&c)
}

// Placeholders are replaced when a configuration is provisioned, never when it is
// adapted: what GET /config/ and the autosave show is the placeholder.
func TestAdaptedConfigurationsHoldPlaceholdersNotSecrets(t *testing.T) {
	t.Setenv("GW_ADMIN_KEY", "secret-of-the-environment-0123456789")
	config, err := gatewaytest.Adapt("{\n gw {\n  admin_key {env.GW_ADMIN_KEY}\n  encryption_key {env.GW_ADMIN_KEY}\n" +
		"  provider a {\n   type openai\n   api_key {env.GW_ADMIN_KEY}\n   header X {env.GW_ADMIN_KEY}\n  }\n }\n}\n:0 {\n gw_admin\n}")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(config, []byte("secret-of")) || bytes.Count(config, []byte("{env.GW_ADMIN_KEY}")) != 4 {
		t.Errorf("%s", config)
	}
}
