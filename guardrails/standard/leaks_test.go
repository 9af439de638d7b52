package standard

import (
	"fmt"
	"math/rand/v2"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/zricethezav/gitleaks/v8/config"

	"github.com/caddy-gw/gateway/internal/race"
)

// What gitleaks' configuration says is read, or left out on purpose.
func TestGitleaksConfigurationIsUnderstood(t *testing.T) {
	var c leakConfig
	meta, err := toml.Decode(config.DefaultConfig, &c)
	if err != nil || len(meta.Undecoded()) > 0 {
		t.Fatalf("%v, %v is not read", err, meta.Undecoded())
	}
	rules, err := leaks()
	if err != nil {
		t.Fatal(err)
	}
	left := 0
	for i := range c.Rules {
		given := &c.Rules[i]
		if given.Path != "" || slices.Contains(leftOut, given.ID) {
			left++
		}
		for _, a := range given.Allowlists {
			if a.Condition == "AND" && len(a.Paths) == 0 {
				t.Errorf("%s: conditions of allowlists that are not of paths are not read", given.ID)
			}
		}
	}
	commands := 0
	for _, r := range rules.all {
		if r.command != "" {
			commands++
		}
	}
	if commands != len(arguments) {
		t.Errorf("%d rules of arguments are understood", commands)
	}
	if left > 6 || len(rules.all)+left != len(c.Rules) || len(rules.all) < 216 {
		t.Errorf("%d of %d rules are used, %d are left out", len(rules.all), len(c.Rules), left)
	}
	if _, err := readLeakRules("rules = 1"); err == nil {
		t.Error("expected an error")
	}
}

// sample appends a text that an expression matches.
func sample(random *rand.Rand, b *strings.Builder, re *syntax.Regexp) {
	switch re.Op {
	case syntax.OpLiteral:
		b.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		var of []rune // of printable ASCII, if that is in the class
		for c := rune('!'); c <= '~'; c++ {
			for i := 0; i < len(re.Rune); i += 2 {
				if c >= re.Rune[i] && c <= re.Rune[i+1] {
					of = append(of, c)
				}
			}
		}
		if of == nil {
			of = re.Rune[:1]
		}
		b.WriteRune(of[random.IntN(len(of))])
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte('.')
	case syntax.OpStar, syntax.OpQuest:
	case syntax.OpPlus:
		for range 12 {
			sample(random, b, re.Sub[0])
		}
	case syntax.OpRepeat:
		for range re.Min {
			sample(random, b, re.Sub[0])
		}
	case syntax.OpAlternate:
		sample(random, b, re.Sub[random.IntN(len(re.Sub))])
	default: // concatenations and groups
		for _, sub := range re.Sub {
			sample(random, b, sub)
		}
	}
}

// services are rules whose keyword is not part of a match, but near it.
var services = map[string]string{"AIRTABLE_PERSONNAL_ACCESS_TOKEN": "airtable", "FACEBOOK_ACCESS_TOKEN": "facebook"}

// Each rule finds what its expression is for, in a text around it, and leaves nothing of it.
func TestEveryRuleOfGitleaksFindsWhatItIsFor(t *testing.T) {
	rules, err := leaks()
	if err != nil {
		t.Fatal(err)
	}
	near := 0
	random := rand.New(rand.NewPCG(1, 2))
	for i, r := range rules.all {
		if testing.Short() && i%8 != 0 { // each compiles two expressions
			continue
		}
		s := r.search()
		if !s.begins {
			near++
		}
		tree, err := syntax.Parse(s.String(), syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for range 50 { // some are not random enough, or have a word of a list that is left out
			var b strings.Builder
			fmt.Fprintf(&b, "%s %s: ", r.command, services[r.kind]) // some are not of the expression
			sample(random, &b, tree)
			text := b.String()
			places, err := rules.find(t.Context(), text)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range places {
				found = found || p.With == r.kind
			}
			if found {
				break
			}
		}
		if !found {
			t.Errorf("%s finds nothing that %s matches", r.kind, s.String())
		}
	}
	t.Logf("%d of %d rules do not begin with their keywords", near, len(rules.all))
}

// No text that has many beginnings of credentials takes longer for each of them.
func TestKeywordsOfGitleaksTakeLinearTime(t *testing.T) {
	if race.Enabled {
		t.Skip("times under the race detector are those of others, and checks have limits of time")
	}
	rules, err := leaks()
	if err != nil {
		t.Fatal(err)
	}
	for _, beginning := range []string{
		"xoxb-0000000000-0000000000", "key=", "key:aaaaaaaaaaaa", "token, secret, ", "curl ", "curl -u a:b ", "eyAAAAAAAAAAAAAAAAA.", "-ZXlKaGJHY2lPaU", "fm1a_", "EAAM", "SK0", "xapp-1-A", "ops_eyJ", "sonar_login = ", "hvs.",
	} {
		took := func(size int) time.Duration {
			text := strings.Repeat(beginning, size/len(beginning))
			begun := time.Now()
			if _, err := rules.find(t.Context(), text); err != nil {
				t.Fatal(err)
			}
			return time.Since(begun)
		}
		small, large := took(4<<10), took(32<<10)
		for range 20 { // on a busy machine, most of them may be held up
			if large <= 24*small || large < 2*time.Millisecond {
				break
			}
			small, large = min(small, took(4<<10)), min(large, took(32<<10))
		}
		t.Logf("%s: %v, %v", beginning, small, large)
		if large > 24*small && large >= 2*time.Millisecond {
			t.Errorf("%q: 4 KiB took %v, and 32 KiB %v", beginning, small, large)
		}
	}
}

// A credential without a longest length is replaced as a whole.
func TestLongCredentialsAreFoundWhole(t *testing.T) {
	c := detectorOf(t, "gw.secrets", `{"redact":true}`)
	for _, size := range []int{100, maxLeak, 3 * maxLeak} {
		var b strings.Builder
		random := rand.New(rand.NewPCG(3, 4))
		for range size {
			b.WriteByte("abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"[random.IntN(57)])
		}
		text := "fm2_" + b.String() + "="
		places, kinds, err := c.all(t.Context(), "take "+text+" now")
		if err != nil || len(places) != 1 || kinds[0] != "FLYIO_ACCESS_TOKEN" || places[0].End-places[0].Start != len(text) {
			t.Errorf("%d bytes: %v %v, %v", len(text), places, kinds, err)
		}
	}
}
