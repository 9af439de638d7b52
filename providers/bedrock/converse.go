package bedrock

import (
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
	"github.com/caddy-gw/gateway/providers/messages"
)

// request writes a Converse or ConverseStream request.
func request(c *providers.Call, r *chat.Request) (*providers.Request, error) {
	body, err := converse(c, r)
	if err != nil {
		return nil, err
	}
	if r.Stream {
		return call(c, r.Model.Text(), "converse-stream", mediaStream, body)
	}
	return call(c, r.Model.Text(), "converse", mediaJSON, body)
}

// converse returns the body of such a request.
func converse(c *providers.Call, r *chat.Request) ([]byte, error) {
	if err := r.OneChoice(); err != nil {
		return nil, err
	}
	w := newWriter(c, r, r.SizeHint(len(c.Body)))
	r = w.answersByTool(r)
	w.Open('{')
	if err := w.conversation(c, r); err != nil {
		return nil, err
	}
	w.inference(r)
	w.output(r)
	for _, m := range members {
		v := r.Lookup(m.name)
		if v == nil {
			v = r.Lookup(m.snake)
		}
		w.Member(m.name, v)
	}
	w.tier(r)
	w.Close('}')
	return w.Builder, nil
}

// answersByTool lets Claude models that accept no schema of their answers call a tool instead.
func (w *writer) answersByTool(r *chat.Request) *chat.Request {
	if !w.claude || r.Format.Kind != chat.FormatSchema || r.Lookup("outputConfig") != nil {
		return r
	}
	return messages.AnswersByTool(r, w.known, w.thinking)
}

// members lists what Converse accepts besides what all providers share. They are forwarded
// unchanged, under either spelling.
var members = []struct{ name, snake string }{
	{"additionalModelResponseFieldPaths", "additional_model_response_field_paths"},
	{"guardrailConfig", "guardrail_config"},
	{"performanceConfig", "performance_config"},
	{"promptVariables", "prompt_variables"},
	{"requestMetadata", "request_metadata"},
	{"serviceTier", ""},
}

// tier writes the service_tier of OpenAI or Anthropic. auto is Bedrock's default, and Anthropic's
// standard_only its tier default.
func (w *writer) tier(r *chat.Request) {
	name := chat.Literal(r.Lookup("service_tier"))
	if r.Lookup("serviceTier") != nil || len(name) < 2 || name[0] != '"' || name.Is("auto") {
		return
	}
	if name.Is("standard_only") {
		name = chat.Literal(`"default"`)
	}
	w.Key("serviceTier").Open('{')
	w.Key("type").Raw(name)
	w.Close('}')
}

// A writer writes the body of a call.
type writer struct {
	chat.Turns
	names            map[string]bool // of the documents so far
	documents, texts bool            // the current turn has some

	model    string         // that answers
	claude   bool           // it is Anthropic's
	known    messages.Model // if it is
	thinking chat.Raw       // of such a model
}

func newWriter(c *providers.Call, r *chat.Request, size int) writer {
	w := writer{Turns: chat.Turns{Builder: make([]byte, 0, size)}, model: foundation(c)}
	if w.claude = isAnthropic(w.model); !w.claude {
		return w
	}
	w.known = messages.ModelOf(w.model).OnBedrock()
	if w.thinking = member(jsonscan.NewReader(additionalFields(r)), "thinking"); w.thinking == nil {
		w.thinking = messages.Continued(w.known.Thinking(r), r.Messages)
	}
	return w
}

// conversation writes everything that counts as the prompt: the turns, the system prompt,
// the tools, and the fields that are specific to the model.
func (w *writer) conversation(c *providers.Call, r *chat.Request) error {
	w.system(r)
	w.Key("messages").Open('[')
	turns := r.Messages
	if w.claude {
		turns = messages.Prefill(turns)
	}
	if err := w.messages(turns); err != nil {
		return err
	}
	w.Close(']')
	if err := w.tools(r); err != nil {
		return err
	}
	return w.additional(c, r)
}

func (w *writer) system(r *chat.Request) {
	open := false
	for i := range r.Messages {
		if r.Messages[i].Role != chat.System {
			continue
		}
		for k := range r.Messages[i].Parts {
			p := &r.Messages[i].Parts[k]
			if p.Kind == chat.Text && !p.Text.Blank() {
				if !open {
					w.Key("system").Open('[')
					open = true
				}
				w.text(p.Text)
			}
			if open {
				w.cachePoint(p.Cache)
			}
		}
	}
	if open {
		w.Close(']')
	}
}

// cachePoint marks the end of a prefix of the prompt that is to be cached, as cache_control
// does.
func (w *writer) cachePoint(cache chat.Raw) {
	if cache == nil {
		return
	}
	r := jsonscan.NewReader(cache)
	ttl := chat.Literal(member(r, "ttl"))
	w.Open('{')
	w.Key("cachePoint").Open('{')
	w.Key("type").Text("default")
	if len(ttl) > 2 && ttl[0] == '"' {
		w.Key("ttl").Raw(ttl)
	}
	w.Close('}')
	w.Close('}')
}

// maxTemperature is the highest temperature of Converse.
const maxTemperature = 1

func (w *writer) inference(r *chat.Request) {
	var stops []chat.Literal
	for _, s := range r.Stop {
		if !s.Empty() && (!w.claude || !s.Blank()) {
			stops = append(stops, s)
		}
	}
	limit, temperature, topP := r.MaxTokens, chat.AtMost(r.Temperature, maxTemperature), r.TopP
	switch {
	case w.claude:
		temperature, topP, _ = w.known.Sampling(r, w.thinking)
	case novaEffort(w.model, r) == novaHigh:
		limit, temperature, topP = nil, nil, nil
	}
	if limit == nil && temperature == nil && topP == nil && stops == nil {
		return
	}
	w.Key("inferenceConfig").Open('{')
	w.Member("maxTokens", limit)
	w.Member("temperature", temperature)
	w.Member("topP", topP)
	if stops != nil {
		chat.AppendTexts(w.Key("stopSequences"), stops)
	}
	w.Close('}')
}

// output writes the schema that the answer must satisfy, which Converse takes as a string.
// It does not support JSON without a schema.
func (w *writer) output(r *chat.Request) {
	own := r.Lookup("outputConfig")
	if own == nil && !anthropicOutput(r) {
		own = r.Lookup("output_config")
	}
	if own != nil || r.Format.Kind != chat.FormatSchema || r.Format.Schema == nil {
		w.Member("outputConfig", own)
		return
	}
	w.Key("outputConfig").Open('{')
	w.Key("textFormat").Open('{')
	w.Key("type").Text("json_schema")
	w.Key("structure").Open('{')
	w.Key("jsonSchema").Open('{')
	w.Key("schema").Text(string(messages.ClosedSchema(r.Format.Schema)))
	w.Member("name", r.Format.Name)
	w.Member("description", r.Format.Description)
	for range 4 {
		w.Close('}')
	}
}

// additional writes the fields that a model accepts and Converse itself does not. The
// caller's values in Converse's own names take precedence over their equivalents in other
// APIs.
func (w *writer) additional(c *providers.Call, r *chat.Request) error {
	model := w.model
	var fields []chat.Member
	own := additionalFields(r)
	if own != nil {
		err := jsonscan.Members(own, func(m jsonscan.Member) error {
			fields = append(fields, chat.Member{Name: m.Key.String(), Value: own[m.Start:m.End]})
			return nil
		})
		if err != nil {
			return &chat.Unsupported{Param: "additionalModelRequestFields", Message: "'additionalModelRequestFields' must be an object"}
		}
	}
	add := func(name string, v chat.Raw) {
		for i := range fields {
			if fields[i].Name == name {
				return
			}
		}
		if v != nil {
			fields = append(fields, chat.Member{Name: name, Value: v})
		}
	}
	switch {
	case strings.Contains(model, "amazon.nova"):
		effort := novaEffort(model, r)
		if r.TopK != nil && effort != novaHigh {
			add("inferenceConfig", slices.Concat(chat.Raw(`{"topK":`), r.TopK, chat.Raw("}")))
		}
		add("reasoningConfig", novaReasoning(effort))
	case w.claude:
		_, _, topK := w.known.Sampling(r, w.thinking)
		add("thinking", w.thinking)
		add("top_k", topK)
	case strings.Contains(model, "openai."):
		add("reasoning_effort", chat.Raw(r.Effort))
	default:
		add("top_k", r.TopK)
	}
	if w.claude {
		add("output_config", effortConfig(model, r))
		add("anthropic_beta", betaList(r.Lookup("anthropic_beta"), betas(c)))
	}
	if len(fields) == 0 {
		return nil
	}
	w.Key("additionalModelRequestFields").Open('{')
	for _, m := range fields {
		w.Raw(jsonscan.AppendQuoted(nil, m.Name))
		w.Builder = append(append(w.Builder, ':'), m.Value...)
	}
	w.Close('}')
	return nil
}

// additionalFields are the caller's fields that the model accepts and Converse does not, or nil.
func additionalFields(r *chat.Request) chat.Raw {
	if own := r.Lookup("additionalModelRequestFields"); own != nil {
		return own
	}
	return r.Lookup("additional_model_request_fields")
}

// anthropicOutput reports whether output_config is Anthropic's, which holds an effort, and
// not Converse's outputConfig in another spelling.
func anthropicOutput(r *chat.Request) bool {
	return member(jsonscan.NewReader(r.Lookup("output_config")), "effort") != nil
}

// effortConfig returns Anthropic's output_config with an effort, or nil if no effort is
// set.
func effortConfig(model string, r *chat.Request) chat.Raw {
	if effort := member(jsonscan.NewReader(r.Lookup("output_config")), "effort"); effort != nil {
		return slices.Concat(chat.Raw(`{"effort":`), effort, chat.Raw("}"))
	}
	if effort := messages.ModelOf(model).Effort(r); effort != "" {
		return chat.Raw(`{"effort":"` + effort + `"}`)
	}
	return nil
}

// betaList appends names to the list of betas in the body.
func betaList(list chat.Raw, names []string) chat.Raw {
	var all []chat.Literal
	if list != nil {
		all = chat.Texts(jsonscan.NewReader(list))
	}
	for _, n := range names {
		all = append(all, chat.Quote(n))
	}
	if all == nil {
		return nil
	}
	var b jsonscan.Builder
	chat.AppendTexts(&b, all)
	return chat.Raw(b)
}

// tools writes the tools. Converse cannot be told to call none, so tools are left out in
// that case, unless the history has calls, for which Converse requires them.
func (w *writer) tools(r *chat.Request) error {
	history, results := called(r)
	choice := messages.Choice(r.ToolChoice, w.thinking)
	mode := choice.Mode
	tools := r.Tools
	if len(tools) == 0 {
		tools, mode = history, chat.None
	}
	if len(tools) == 0 || mode == chat.None && history == nil && !results {
		return nil
	}
	w.Key("toolConfig").Open('{')
	w.Key("tools").Open('[')
	for i := range tools {
		t := &tools[i]
		if t.Other != nil {
			at := "tools[" + strconv.Itoa(i) + "]"
			return &chat.Unsupported{Param: at, Message: "Bedrock takes tools of type function only; " + at + " is of another"}
		}
		w.Open('{')
		w.Key("toolSpec").Open('{')
		w.Member("name", t.Name)
		if !t.Description.Empty() { // an empty description is invalid
			w.Member("description", t.Description)
		}
		w.Key("inputSchema").Open('{')
		if string(t.Strict) == "true" && w.strict() {
			w.Key("json").Raw(messages.ClosedSchema(t.Schema()))
			w.Close('}')
			w.Key("strict").Bool(true)
		} else {
			w.Key("json").Raw(t.Schema())
			w.Close('}')
		}
		w.Close('}')
		w.Close('}')
		w.cachePoint(t.Cache)
	}
	w.Close(']')
	switch mode {
	case chat.Auto:
		w.Key("toolChoice").Raw([]byte(`{"auto":{}}`))
	case chat.Required:
		w.Key("toolChoice").Raw([]byte(`{"any":{}}`))
	case chat.Named:
		w.Key("toolChoice").Open('{')
		w.Key("tool").Open('{')
		w.Member("name", choice.Name)
		w.Close('}')
		w.Close('}')
	}
	w.Close('}')
	return nil
}

// withoutStrict lists what is in the names of models that take no strict tools.
var withoutStrict = []string{"amazon.nova", "amazon.titan", "meta.llama", "cohere.", "ai21."}

// strict reports whether the model takes strict tools.
func (w *writer) strict() bool {
	if w.claude {
		return w.known.Schemas()
	}
	return !slices.ContainsFunc(withoutStrict, func(name string) bool { return strings.Contains(w.model, name) })
}

// called returns the tools that the history has calls of, and whether it has any results.
func called(r *chat.Request) (tools []chat.Tool, results bool) {
	seen := make(map[string]bool)
	for i := range r.Messages {
		results = results || r.Messages[i].Role == chat.ToolResult
		for k := range r.Messages[i].Calls {
			name := r.Messages[i].Calls[k].Name
			if s := name.Text(); !seen[s] {
				seen[s] = true
				tools = append(tools, chat.Tool{Name: name})
			}
		}
	}
	return tools, results
}
