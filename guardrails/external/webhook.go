package external

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
)

// webhookTimeout is how long a webhook may take by default.
const webhookTimeout = 3 * time.Second

// hookParameters are the parameters of checks that send the whole call somewhere.
func hookParameters(address string) []guardrails.Parameter {
	return []guardrails.Parameter{
		{Name: address, Required: true, Address: true, Doc: "where the call is sent by POST; a host that is not public must be a trusted custom host"},
		{Name: "headers", Type: guardrails.Any, Secret: true, Doc: "of the request: an object of texts, or one as JSON in a string"},
		timeoutParameter, forwardParameter,
	}
}

var webhook = guardrails.Kind{
	ID: "default.webhook", Doc: "the service at a URL says so; it may replace the body",
	Parameters: append(hookParameters("webhookURL"), guardrails.Parameter{
		Name: "executeOnProxy", Type: guardrails.Boolean, Doc: "whether calls of paths that the gateway only passes on are sent to it too; not their answers",
	}),
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		h, err := newHook(p, "webhookURL")
		if err != nil {
			return nil, err
		}
		return &webhooking{h, p.Boolean("executeOnProxy")}, nil
	},
}

var logging = guardrails.Kind{
	ID: "default.log", Doc: "always, after the call was sent to a URL",
	Parameters: hookParameters("logURL"),
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		h, err := newHook(p, "logURL")
		if err != nil {
			return nil, err
		}
		return &logged{h}, nil
	},
}

// A hook sends the whole call to a URL.
type hook struct {
	url     *url.URL
	header  http.Header
	forward []string
	timeout time.Duration
}

func newHook(p *guardrails.Parameters, address string) (*hook, error) {
	h := &hook{header: make(http.Header), timeout: timeoutOf(p, webhookTimeout)}
	var err error
	if h.url, err = url.Parse(p.Text(address)); err != nil || h.url.Host == "" || h.url.Scheme != "https" && h.url.Scheme != "http" || h.url.User != nil {
		return nil, &guardrails.ParameterError{Name: address, Message: "expected a URL such as https://checks.example.com/judge"}
	}
	if raw := p.Raw("headers"); raw != nil {
		if raw[0] == '"' {
			raw = json.RawMessage(p.Text("headers"))
		}
		wrong := &guardrails.ParameterError{Name: "headers", Message: "expected an object of texts"}
		var headers map[string]string
		if len(raw) > 0 && json.Unmarshal(raw, &headers) != nil {
			return nil, wrong
		}
		for name, v := range headers {
			if _, err := headerPart(v); err != nil || !isToken(name) {
				return nil, wrong
			}
			h.header.Set(name, v)
		}
	}
	h.forward, err = forwardedNames(p)
	return h, err
}

// A side is the call or its answer, as a hook gets it.
type side struct {
	JSON        json.RawMessage `json:"json"`
	Text        string          `json:"text"`
	Streams     *bool           `json:"isStreamingRequest,omitempty"`
	Status      *int            `json:"statusCode,omitempty"`
	Transformed bool            `json:"isTransformed"`
}

// send sends the call, and reads the answer.
func (h *hook) send(ctx context.Context, id string, s *guardrails.Subject, read func(body []byte) error) error {
	if s.Services == nil {
		return errServices
	}
	request := side{JSON: s.Request, Streams: &s.Stream, Text: s.Text()}
	response := side{}
	if s.Phase == guardrails.Output {
		text, _ := asked(s)
		request.Text, _ = text.(string)
		response = side{JSON: s.Response, Text: s.Text(), Status: &s.Status}
	}
	body, err := json.Marshal(struct {
		Request  side            `json:"request"`
		Response side            `json:"response"`
		Provider string          `json:"provider"`
		Type     string          `json:"requestType"`
		Metadata json.RawMessage `json:"metadata"`
		Event    string          `json:"eventType"`
	}{request, response, s.Provider, s.Type, s.Metadata, s.Phase.Event()})
	if err != nil {
		return err
	}
	q := &guardrails.Request{Vendor: id, Public: true, Method: http.MethodPost, URL: h.url, Body: body, Header: forwarded(s, h.forward)}
	q.Header.Set("Content-Type", "application/json")
	for name, values := range h.header {
		q.Header[name] = values
	}
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	return send(ctx, s.Services, q, h.timeout, read)
}

// Waits says that the check waits for others.
func (*hook) Waits() {}

// A webhooking check asks the service at a URL.
type webhooking struct {
	*hook
	proxied bool
}

// JudgesProxied reports whether calls that pass through are judged.
func (c *webhooking) JudgesProxied() bool { return c.proxied }

// Judge asks for a verdict, and for another body.
func (c *webhooking) Judge(ctx context.Context, s *guardrails.Subject) (result guardrails.Result, err error) {
	err = c.send(ctx, webhook.ID, s, func(body []byte) error {
		verdict := gjson.GetBytes(body, "verdict")
		if !gjson.ValidBytes(body) || verdict.Type != gjson.True && verdict.Type != gjson.False {
			return errors.New("the webhook answered without a verdict that is true or false")
		}
		result.Verdict = verdict.Bool()
		data := map[string]any{"explanation": "The webhook says no."}
		if result.Verdict {
			data["explanation"] = "The webhook says yes."
		}
		if answer := gjson.GetBytes(body, "data"); answer.Exists() && len(answer.Raw) <= maxSaid {
			data["webhook"] = json.RawMessage(append([]byte(nil), answer.Raw...))
		}
		result.Data = data
		path := "transformedData.request.json"
		if s.Phase == guardrails.Output {
			path = "transformedData.response.json"
		}
		if other := gjson.GetBytes(body, path); other.IsObject() {
			result.Body = append([]byte(nil), other.Raw...)
		}
		return nil
	})
	return result, err
}

// maxSaid bounds what results have of a webhook's data, in bytes.
const maxSaid = 8 << 10

// Transforms says that the answer may have another body.
func (*webhooking) Transforms() {}

// A logged check sends calls somewhere.
type logged struct{ *hook }

// Judge sends the call.
func (c *logged) Judge(ctx context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	if err := c.send(ctx, logging.ID, s, func([]byte) error { return nil }); err != nil {
		return guardrails.Result{}, err
	}
	return guardrails.Result{Verdict: true, Data: map[string]any{"explanation": "The call was sent to the URL."}}, nil
}

// Interface guards
var (
	_ guardrails.Waiter      = (*webhooking)(nil)
	_ guardrails.Transformer = (*webhooking)(nil)
	_ guardrails.ProxyJudge  = (*webhooking)(nil)
	_ guardrails.Waiter      = (*logged)(nil)
)
