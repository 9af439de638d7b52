// Package acme adds the provider acme, whose API is unlike any other.
package acme

import (
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

func init() {
	providers.Register(providers.Provider{
		Name:    "acme",
		BaseURL: "https://api.acme.example/v3",
		Auth:    providers.KeyHeader("X-Acme-Key"),
		Serves:  []string{}, // it serves only conversations
		Dialect: &providers.Dialect{Request: request, Decoder: func(*providers.Call) chat.Decoder { return new(decoder) }},
	})
}

var who = [...]string{chat.User: "human", chat.System: "rules", chat.Assistant: "machine", chat.ToolResult: "human"}

// request writes {"engine": …, "live": …, "turns": [{"who": …, "says": …}]}.
func request(c *providers.Call, r *chat.Request) (*providers.Request, error) {
	var b jsonscan.Builder
	b.Open('{')
	b.Member("engine", r.Model)
	b.Key("live").Bool(r.Stream)
	b.Key("turns").Open('[')
	for _, m := range r.Messages {
		b.Open('{')
		b.Key("who").Text(who[m.Role])
		b.Key("says").Raw(chat.JoinText(m.Parts))
		b.Close('}')
	}
	b.Close(']')
	b.Close('}')
	return &providers.Request{URL: providers.URL(c.Base, "/talk", c.Query), Body: b}, nil
}

// A decoder decodes {"says": …, "over": true}, complete or as the events of a stream.
type decoder struct{ over bool }

func (d *decoder) Message(_ string, data []byte, to chat.Sink) error {
	r := jsonscan.NewReader(data)
	r.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("says"):
			to.Event(&chat.Event{Kind: chat.TextPiece, Text: r.String()})
		case key.Is("over"):
			d.over = true
			to.Event(&chat.Event{Kind: chat.Finish, Finish: chat.Stop})
		}
	})
	return r.Err()
}

func (d *decoder) Body(body []byte, to chat.Sink) error { return d.Message("", body, to) }

func (d *decoder) End(chat.Sink) bool { return d.over }
