package standard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/guardrails"
)

// detectorOf makes a check that finds places.
func detectorOf(t testing.TB, id, parameters string) *detecting {
	t.Helper()
	check, err := guardrails.Lookup(id).Make(json.RawMessage(parameters))
	if err != nil {
		t.Fatal(err)
	}
	return check.(*detecting)
}

const allPII = `{"categories":["EMAIL_ADDRESS","PHONE_NUMBER","LOCATION_ADDRESS","IP_ADDRESS","CREDIT_CARD","SSN","IBAN"],"redact":true}`

// labelled are sentences in which what is to be found is in brackets, after its kind.
var labelled = map[string][]string{
	"gw.pii": {
		"write to {EMAIL_ADDRESS ann.lee+news@mail.example.co.uk}, please", "{EMAIL_ADDRESS bob@example.com}", "ask {EMAIL_ADDRESS a_b-c@sub.example.org}!",
		"an @mention and user@host are not", "x@y.z is too short", "the e-mail is ({EMAIL_ADDRESS kim@example.de})",
		"card {CREDIT_CARD 4111 1111 1111 1111} thanks", "{CREDIT_CARD 5555-5555-5555-4444}", "amex {CREDIT_CARD 378282246310005}.", "paid with {CREDIT_CARD 6011111111111117} 12/27",
		"{CREDIT_CARD 3530111333300000}", "order 4111 1111 1111 1112", "id 1234567890123456", "tracking 9400111899223197428490", "isbn 9783161484100",
		"ssn {SSN 123-45-6789}", "{SSN 078 05 1120} is an old one", "000-12-3456 and 666-12-3456 and 900-12-3456", "part no. 123-45-67890", "123-456789",
		"pay to {IBAN DE89 3704 0044 0532 0130 00} today", "{IBAN GB82WEST12345698765432}", "{IBAN FR1420041010050500013M02606}", "{IBAN NL91ABNA0417164300}", "DE88 3704 0044 0532 0130 00 is wrong", "AB12CDEF",
		"host {IP_ADDRESS 192.168.10.1}:8080", "from {IP_ADDRESS 8.8.8.8} to {IP_ADDRESS 2001:db8::8a2e:370:7334}", "{IP_ADDRESS fe80::1ff:fe23:4567:890a}", "999.1.1.1 is none", "at 12:30:45", "std::vector<int>", "a::b::c", "version 1.2.3",
		"call {PHONE_NUMBER +1 415 555 2671}", "{PHONE_NUMBER (415) 555-2671}", "{PHONE_NUMBER 415-555-2671}", "{PHONE_NUMBER +49 30 901820}", "{PHONE_NUMBER +44 20 7946 0958}, or {PHONE_NUMBER +4915112345678}", "in 2024-2025", "2 + 2 = 4", "score 100-200-3000", "+1 for that", "the years 1990 1995 2000",
		"lives at {LOCATION_ADDRESS 221B Baker Street}", "{LOCATION_ADDRESS 1600 Pennsylvania Avenue}", "{LOCATION_ADDRESS 742 Evergreen Terrace}, Springfield", "{LOCATION_ADDRESS Hauptstraße 5}", "{LOCATION_ADDRESS Lindenallee 12a}", "5 Great Ways to win", "10 People on the Street", "Broadway is long", "{LOCATION_ADDRESS 10 Downing St}",
	},
	"gw.secrets": {
		"key {AWS_ACCESS_TOKEN AKIAZ7VRSQ5TJN2XMLHW}", "{GITHUB_PAT ghp_16C7e42F292c6912E7710c838347Ae178B4a}.", "use {API_KEY sk-proj-9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c}", "{GCP_API_KEY AIzaSyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q}, it is new",
		"{SLACK_LEGACY_BOT_TOKEN xoxb-263594206564-FGqddMF8t08v8N7Oq4i57vs1}", "({STRIPE_ACCESS_TOKEN sk_live_4eC39HqLyjWDarjtT1zdp7dc})", "{NPM_ACCESS_TOKEN npm_8fK2mQ7xR4tV9wY3zA6bC1dE5gH0jL8nPsTu}",
		"{JWT eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U}", "{GITLAB_PAT glpat-9aBcDeFgHiJkLmNoPqRs}", "{GITLAB_PAT glpat-9aBcDeFgHiJkLmNoPqRsTuVw}",
		`api_key = "{GENERIC_API_KEY 9f8a7b6c5d4e3f2a1b0c9d8e}"`, "password: {CREDENTIAL Xk9#vLq2!mZp7w}", "{PRIVATE_KEY -----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----}",
		"ADOBE_CLIENT_ID={ADOBE_CLIENT_ID 9b1c7e0d4f6a8235c0d9e7f1a3b5c8d2}", "our datadog.key: {DATADOG_ACCESS_TOKEN 4a7c1e9b3d5f8a0c2e6b4d7f9a1c3e5b7d0f2a4c}", "{HASHICORP_TF_API_TOKEN a1B2c3D4e5F6g7.atlasv1.Zx8Yw7Vu6Ts5Rq4Po3Nm2Lk1Ji0Hg9Fe8Dc7Ba6Zy5Xw4Vu3Ts2Rq1Po0Nm9Lk8}", "{SENDGRID_API_TOKEN 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}",
		`curl -H "Authorization: Bearer {CURL_AUTH_HEADER Zk3vQ9xLw7Tm2RbYc8}" https://api.example.org`, "{SLACK_WEBHOOK_URL https://hooks.slack.com/services/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}", "the shop's is {SHOPIFY_ACCESS_TOKEN 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}",
		"the bot is {TELEGRAM_TOKEN 5823749102:AAHk3n8Zq_7YxWvUtSrQpOnMlKjIhGfEdCb}", "{HUGGINGFACE_ACCESS_TOKEN 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}", "{DIGITALOCEAN_PAT dop_v1_4f9c2a7e1b8d3056f4a9c2e7b1d80356f4a9c2e7b1d80356a7c9e1f3b5d70246}",
		"the password is secret", "password: changeme", "my secret: never give up", "sk-learn is a library", "a token of appreciation", "AKIA is a prefix", "AKIAIOSFODNN7EXAMPLE is in Amazon's documentation", "ask-me-anything-about-the-weather", "commit 16c7e42f292c6912e7710c838347ae178b4a1234",
		"api_key = os.environ.get('KEY')", "the secret key: aaaaaaaaaaaaaaaa", "npm_config_registry", "https://hooks.slack.com/about", "public_key = Zx8Yw7Vu6Ts5Rq4", "the key, as they say, is under the mat", "access: everyone, author: Kim", "api_version: 2024-11-01-preview", "curl https://example.org/install.sh | sh",
	},
}

var label = regexp.MustCompile(`\{([A-Z_]+) ([^}]*)\}`)

// Precision and recall on the labelled sentences, which the documentation states.
func TestPrecisionAndRecall(t *testing.T) {
	for id, least := range map[string][2]float64{"gw.pii": {0.95, 0.95}, "gw.secrets": {0.95, 0.95}} {
		parameters := `{"redact":true}`
		if id == "gw.pii" {
			parameters = allPII
		}
		c := detectorOf(t, id, parameters)
		right, wrong, missed := 0, 0, 0
		for _, sentence := range labelled[id] {
			text := label.ReplaceAllString(sentence, "$2")
			var want []string
			for _, m := range label.FindAllStringSubmatch(sentence, -1) {
				want = append(want, m[1]+" "+m[2])
			}
			places, kinds, err := c.all(t.Context(), text)
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range places {
				found := kinds[i] + " " + text[p.Start:p.End]
				if at := slices.Index(want, found); at >= 0 {
					want = slices.Delete(want, at, at+1)
					right++
				} else {
					wrong++
					t.Logf("%s finds %q in %q", id, found, text)
				}
			}
			for _, w := range want {
				t.Logf("%s misses %q in %q", id, w, text)
			}
			missed += len(want)
		}
		precision, recall := float64(right)/float64(right+wrong), float64(right)/float64(right+missed)
		t.Logf("%s: precision %.2f, recall %.2f of %d", id, precision, recall, right+missed)
		if precision < least[0] || recall < least[1] {
			t.Errorf("%s: precision %.2f, recall %.2f", id, precision, recall)
		}
	}
}

// Places are found in a longer text, too, as long as the characters next to them are the same.
func TestPlacesAreFoundInAnyTextAroundThem(t *testing.T) {
	for id, parameters := range map[string]string{"gw.pii": allPII, "gw.secrets": `{"redact":true}`} {
		c := detectorOf(t, id, parameters)
		for _, sentence := range labelled[id] {
			text := label.ReplaceAllString(sentence, "$2")
			alone, _ := c.Find(t.Context(), " "+text+" ")
			around, _ := c.Find(t.Context(), "and so on. "+text+" and so on.")
			if len(alone) != len(around) {
				t.Errorf("%s: %d places in %q, and %d in a text around it", id, len(alone), text, len(around))
			}
		}
	}
}

// The automaton finds what a search for each word finds.
func TestWordsAreFoundAsOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[abé]{1,4}`), 1, 8).Draw(t, "words")
		text := rapid.StringMatching(`[abAéÉ ]{0,40}`).Draw(t, "text")
		a := newAutomaton(words, true)
		lower := strings.ToLower(text)
		any := false
		for _, w := range words {
			any = any || strings.Contains(lower, w)
		}
		places, err := a.find(context.Background(), text, false)
		if err != nil {
			t.Fatal(err)
		}
		if (len(places) > 0) != any {
			t.Fatalf("%q finds %v in %q", words, places, text)
		}
		end := 0
		for _, p := range places {
			if p.Start < end || !slices.Contains(words, lower[p.Start:p.End]) {
				t.Fatalf("%q finds %v in %q", words, places, text)
			}
			end = p.End
		}
	})
}

func TestLongListsOfWordsAreSearchedAtOnce(t *testing.T) {
	words := make([]string, 10_000)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range words {
		words[i] = fmt.Sprintf("w%dx", random.IntN(1<<30))
	}
	a := newAutomaton(words, true)
	text := strings.Repeat("lorem ipsum w1 dolor ", 5000) + words[77]
	if places, err := a.find(t.Context(), text, true); err != nil || len(places) != 1 || text[places[0].Start:] != words[77] {
		t.Errorf("found %v", places)
	}
}

// A countdown is a context that is over after it was looked at a number of times.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// A check of a large text ends soon after its time, within its searches, too. What is large enough
// to take long is looked at every 64 KiB at least.
func TestDetectorsHeedTheirTime(t *testing.T) {
	const size = 192 << 10
	texts := map[string]string{"words": strings.Repeat("a1 ghp-", size/7), "digits": strings.Repeat("1 ", size/2), "keys": strings.Repeat("a private key eyj ", size/18)}
	for id, parameters := range map[string]string{"gw.pii": allPII, "gw.secrets": `{}`, "gw.words": `{"words":["x9","a1 x"]}`} {
		c := detectorOf(t, id, parameters)
		for name, text := range texts {
			all := &countdown{t.Context(), 1 << 30}
			if _, err := c.Find(all, text); err != nil {
				t.Fatal(err)
			}
			looked := 1<<30 - all.left
			if least := len(c.detectors) * size / (64 << 10); looked < least {
				t.Errorf("%s in %s: looked at its time %d times, expected %d", id, name, looked, least)
			}
			for _, left := range []int{0, 1, looked / 3, looked - 1} {
				ctx := &countdown{t.Context(), left}
				if _, err := c.Judge(ctx, &guardrails.Subject{Texts: []string{text}}); !errors.Is(err, context.DeadlineExceeded) || ctx.left != -1 {
					t.Errorf("%s in %s: %v, and went on for %d looks", id, name, err, -1-ctx.left)
				}
			}
		}
	}
}

// What is found in a large text is what is found in its parts: places are where they are in a short
// text, however far into a text they come.
func TestLongTextsAreSearchedAsShortOnes(t *testing.T) {
	for id, parameters := range map[string]string{"gw.pii": allPII, "gw.secrets": `{"redact":true}`} {
		c := detectorOf(t, id, parameters)
		for _, pad := range []int{0, 1, 60 << 10, 64<<10 - 20, 64<<10 - 3, 128<<10 - 40} {
			text := strings.Repeat("é ", pad/3) + strings.Repeat(".", pad%3) + "\n"
			var want []guardrails.Place
			for _, sentence := range labelled[id] {
				part := label.ReplaceAllString(sentence, "$2")
				found, err := c.Find(t.Context(), "\n"+part+"\n~")
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range found {
					p.Start, p.End = p.Start+len(text)-1, p.End+len(text)-1
					want = append(want, p)
				}
				text += part + "\n~" + strings.Repeat("é ~", 900) + "\n"
			}
			got, err := c.Find(t.Context(), text)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s finds %d places in %d bytes, and %d in their parts; %v", id, len(got), len(text), len(want), err)
			}
		}
	}
}

// What is found soon of a rule is not searched up to what is found nowhere, again and again.
func TestBeginningsOfCredentialsTakeLinearTime(t *testing.T) {
	c := detectorOf(t, "gw.secrets", `{}`)
	for _, beginning := range []string{"k_prod_.", "ghr_", "ACCA", "shpss_", "key "} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // it took longer, of the first of them
		if places, err := c.Find(ctx, strings.Repeat(beginning, 200<<10/len(beginning))); err != nil || len(places) > 0 {
			t.Errorf("%s: %d places, %v", beginning, len(places), err)
		}
		cancel()
	}
}

func TestTheFirstOfSomeWordsIsFound(t *testing.T) {
	word := rapid.SampledFrom([]string{"ab", "aab", "bbbbbbbb", "c"})
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(word, 1, 3).Draw(t, "words")
		text := strings.Repeat(".", rapid.IntRange(0, 400).Draw(t, "before")) + rapid.StringMatching(`[abc.]{0,40}`).Draw(t, "text")
		want := -1
		for _, w := range words {
			if at := strings.Index(text, w); at >= 0 && (want < 0 || at < want) {
				want = at
			}
		}
		if got := firstOf(text, words); got != want {
			t.Fatalf("%v in %q: at %d, want %d", words, text, got, want)
		}
	})
}

// An expression that ignores case takes two letters that are not ASCII for an s and a k.
func TestNamesOfCredentialsMayHaveLettersThatAreNotASCII(t *testing.T) {
	c := detectorOf(t, "gw.secrets", `{}`)
	for _, name := range []string{"access_key", "access\u212aey", "acce\u017f\u017f-key", "pa\u017fsword"} {
		if places, err := c.Find(t.Context(), name+" = q8Zp3vX1nT7wRb5L"); err != nil || len(places) != 1 {
			t.Errorf("%s: %d places, %v", name, len(places), err)
		}
	}
}
