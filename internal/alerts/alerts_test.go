package alerts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/mail"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/storetest"
	"github.com/caddy-gw/gateway/storage"
)

var secret = credentials.NewSecret("whsec-0123456789abcdef")

// post is a request to the webhook.
type post struct {
	url, signature string
	body           map[string]any
	at             time.Time
}

type fixture struct {
	*Notifier
	t      *testing.T
	clock  atomic.Int64
	logs   *observer.ObservedLogs
	posts  []post
	answer func() (int, error)
}

func (f *fixture) at() time.Time { return time.Unix(0, f.clock.Load()).UTC() }

func newFixture(t *testing.T) *fixture {
	t.Helper()
	db := storetest.OpenDB(t)
	f := &fixture{t: t, answer: func() (int, error) { return 204, nil }}
	f.clock.Store(time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC).UnixNano())
	var core zapcore.Core
	core, f.logs = observer.New(zap.DebugLevel)
	f.Notifier = New(db, f.at, zap.New(core))
	return f
}

// restart reopens the store, as after a crash.
func (f *fixture) restart() {
	core, logs := observer.New(zap.DebugLevel)
	f.Notifier, f.logs = New(f.db, f.at, zap.New(core)), logs
}

func (f *fixture) hook() Settings {
	return Settings{Webhook: &Webhook{URL: "https://alerts.example.com/gw", Secret: secret, Post: func(_ context.Context, url string, header http.Header, body []byte) (int, error) {
		p := post{url: url, signature: header.Get(SignatureHeader), at: f.at()}
		if err := json.Unmarshal(body, &p.body); err != nil {
			f.t.Error(err)
		}
		if want := Sign(secret, f.at(), body); p.signature != want {
			f.t.Errorf("signature %s, want %s", p.signature, want)
		}
		f.posts = append(f.posts, p)
		return f.answer()
	}}}
}

func (f *fixture) add(id string) {
	f.t.Helper()
	threshold := 8.0
	next := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	a := &policies.Alert{
		ID: id, Type: policies.AlertThreshold, At: f.at(), Policy: "p", Name: "team", Group: "api_key:k", Key: "k", Counts: policies.Cost, Limit: 10, Threshold: &threshold, Booked: 8.5,
		NextResetAt: &next, WorkspaceID: "ws", OrganisationID: "org",
	}
	if err := f.db.Update(f.t.Context(), func(tx *storage.Txn) error { return f.Add(tx, a) }); err != nil {
		f.t.Fatal(err)
	}
}

// deliver delivers what is due, and returns how many posts that took and when the next is due.
func (f *fixture) deliver() (posts int, next time.Duration) {
	f.t.Helper()
	before := len(f.posts)
	next, err := f.Deliver(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return len(f.posts) - before, next
}

// The signature is what openssl dgst -sha256 -hmac makes of "1764244800.{}".
func TestTheSignatureIsAnHMACOfTimeAndBody(t *testing.T) {
	got := Sign(credentials.NewSecret("whsec-0123456789abcdef"), time.Unix(1764244800, 5), []byte("{}"))
	if want := "t=1764244800,v1=bb7271918b7c2ce48b1f77fe0a8a66db14b7b6de67574e278f587f6827394447"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestAnAlertIsPostedOnce(t *testing.T) {
	f := newFixture(t)
	defer f.Configure(f.hook())()
	f.add("a")
	if n, _ := f.deliver(); n != 1 {
		t.Fatalf("%d posts", n)
	}
	want := `{"alert_threshold":8,"api_key_id":"k","created_at":"2026-11-27T12:00:00Z","credit_limit":10,"current_usage":8.5,"id":"a","limit_type":"cost","next_usage_reset_at":"2026-12-01T00:00:00Z",` +
		`"organisation_id":"org","policy_id":"p","policy_name":"team","type":"usage_limit_threshold_reached","value_key":"api_key:k","workspace_id":"ws"}`
	if got, err := json.Marshal(f.posts[0].body); err != nil || string(got) != want || f.posts[0].url != "https://alerts.example.com/gw" {
		t.Errorf("%s", got)
	}
	if n, next := f.deliver(); n != 0 || next != poll {
		t.Errorf("%d more posts, the next in %v", n, next)
	}
	f.restart()
	defer f.Configure(f.hook())()
	if n, _ := f.deliver(); n != 0 {
		t.Errorf("%d more posts after a restart", n)
	}
}

// A post that is under way when the notifier closes ends, so that it is not made again after a restart.
func TestAPostThatIsUnderWayEnds(t *testing.T) {
	f := newFixture(t)
	defer f.Configure(f.hook())()
	begun := make(chan struct{})
	f.answer = func() (int, error) {
		close(begun)
		<-f.ctx.Done() // Close was called
		return 204, nil
	}
	f.add("a")
	f.Start()
	<-begun
	f.Close()
	f.restart()
	defer f.Configure(f.hook())()
	if n, _ := f.deliver(); n != 0 {
		t.Errorf("%d more posts after a restart", n)
	}
}

// What the webhook does not take is tried again, ever later and across restarts, and then logged.
func TestAnAlertIsTriedAgainAndThenLogged(t *testing.T) {
	for name, answer := range map[string]func() (int, error){
		"an error":       func() (int, error) { return 0, errors.New("no route to host") },
		"a server error": func() (int, error) { return 503, nil },
		"a redirect":     func() (int, error) { return 302, nil },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			defer f.Configure(f.hook())()
			f.answer = answer
			f.add("a")
			began := f.at()
			for i := range len(pauses) + 1 {
				if i == 3 {
					f.restart()
					defer f.Configure(f.hook())()
				}
				n, next := f.deliver()
				if n != 1 {
					t.Fatalf("attempt %d: %d posts", i, n)
				}
				if i == len(pauses) {
					break
				}
				if want := min(pauses[i], poll); next != want {
					t.Fatalf("attempt %d: the next in %v, want %v", i, next, want)
				}
				f.clock.Add(int64(pauses[i]) - 1)
				if n, _ := f.deliver(); n != 0 {
					t.Fatalf("attempt %d: %d too early", i, n)
				}
				f.clock.Add(1)
			}
			if took := f.at().Sub(began); took < 8*time.Hour || took > 24*time.Hour {
				t.Errorf("it took %v", took)
			}
			f.clock.Add(int64(24 * time.Hour))
			if n, _ := f.deliver(); n != 0 {
				t.Errorf("%d posts after it was given up", n)
			}
			dead := f.logs.FilterMessage("an alert is not delivered to the webhook").All()
			if len(dead) != 1 || dead[0].ContextMap()["alert"].(map[string]any)["id"] != "a" {
				t.Errorf("logged: %+v", dead)
			}
			for _, entry := range f.logs.All() {
				if text := fmt.Sprint(entry.Message, entry.ContextMap()); strings.Contains(text, secret.Reveal()) || strings.Contains(text, "alerts.example.com") {
					t.Errorf("the log has the secret or the URL: %s", text)
				}
			}
			if _, lost := f.Counts(); lost != 1 {
				t.Errorf("%d undelivered", lost)
			}
		})
	}
}

// One alert that is not taken does not keep others from being delivered.
func TestAlertsDoNotWaitForEachOther(t *testing.T) {
	f := newFixture(t)
	defer f.Configure(f.hook())()
	f.answer = func() (int, error) {
		if f.posts[len(f.posts)-1].body["id"] == "a" {
			return 500, nil
		}
		return 200, nil
	}
	f.add("a")
	f.add("b")
	if n, next := f.deliver(); n != 2 || next != pauses[0] {
		t.Errorf("%d posts, the next in %v", n, next)
	}
}

func TestTheNumberThatWaitsIsBounded(t *testing.T) {
	f := newFixture(t)
	defer f.Configure(f.hook())()
	err := f.db.Update(t.Context(), func(tx *storage.Txn) error {
		for i := range maxWaiting + 2 {
			if err := f.Add(tx, &policies.Alert{ID: fmt.Sprintf("%06d", i), At: f.at()}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := f.deliver(); n != maxWaiting {
		t.Errorf("%d posts", n)
	}
	if sent, lost := f.Counts(); sent != maxWaiting+2 || lost != 2 {
		t.Errorf("%d sent, %d undelivered", sent, lost)
	}
}

// What waits goes to the webhook of the configuration after the next restart, but not for ever.
func TestAlertsWaitForAWebhookForADay(t *testing.T) {
	f := newFixture(t)
	release := f.Configure(f.hook())
	f.add("a")
	release()
	f.clock.Add(int64(time.Hour))
	if n, _ := f.deliver(); n != 0 {
		t.Fatalf("%d posts without a webhook", n)
	}
	release = f.Configure(f.hook())
	if n, _ := f.deliver(); n != 1 {
		t.Fatalf("%d posts", n)
	}
	f.add("b")
	release()
	f.clock.Add(int64(25 * time.Hour))
	f.deliver()
	defer f.Configure(f.hook())()
	if n, _ := f.deliver(); n != 0 {
		t.Errorf("%d posts of an old alert", n)
	}
}

// mails is a fake sender.
type mails chan *mail.Message

func (m mails) Send(message *mail.Message) { m <- message }

func TestAnAlertIsAnEventAndMail(t *testing.T) {
	f := newFixture(t)
	sent, events := make(mails, 10), make(chan map[string]any, 10)
	defer f.Configure(Settings{
		Emit: func(name string, data map[string]any) {
			data["name"] = name
			events <- data
		},
		Mail: sent,
		Emails: func(key string) []string {
			if key != "k" {
				t.Errorf("the key is %q", key)
			}
			return []string{"ada@example.com", "bob@example.com"}
		},
	})()
	f.Start()
	f.add("a")
	f.Close() // what is queued is sent
	if e := <-events; e["name"] != policies.AlertThreshold || e["id"] != "a" || e["current_usage"] != 8.5 || len(events) != 0 {
		t.Errorf("%v", e)
	}
	if len(sent) != 2 {
		t.Fatalf("%d mails", len(sent))
	}
	m := <-sent
	want := "The usage limit team (p) for api_key:k has reached its alert threshold: $8.5 of $10 are used. It is reset on 1 December 2026, 00:00 UTC."
	if m.To != "ada@example.com" || m.Subject != "A usage limit has reached its alert threshold" || strings.Join(m.Paragraphs, " ") != want {
		t.Errorf("%+v", m)
	}
	if other := <-sent; other.To != "bob@example.com" {
		t.Errorf("%+v", other)
	}
}

// A process that was killed keeps the others from delivering for the term of its job, and no longer.
func TestAlertsOfAKilledProcessAreDeliveredAfterItsTerm(t *testing.T) {
	f, store := newFixture(t), storetest.Open(t)
	if err := storage.NewDB(store).Job("alert-delivery").Do(t.Context(), func(context.Context, storage.Step) error { return nil }); err != nil {
		t.Fatal(err)
	}
	f.Notifier = New(storage.NewDB(store), f.at, zap.NewNop())
	defer f.Configure(f.hook())()
	f.add("a")
	if next, err := f.Deliver(t.Context()); !errors.Is(err, storage.ErrLockHeld) || next != storage.JobTerm || len(f.posts) > 0 {
		t.Errorf("%v, next in %v, %d posts", err, next, len(f.posts))
	}
}
