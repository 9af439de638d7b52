package gemini

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// generationConfig writes the generation parameters.
func (w *writer) generationConfig() {
	r := w.r
	w.Key("generationConfig").Open('{')
	for _, m := range []struct {
		name  string
		value chat.Raw
	}{
		{"maxOutputTokens", r.MaxTokens},
		{"temperature", r.Temperature},
		{"topP", r.TopP},
		{"topK", r.TopK},
		{"candidateCount", r.N},
		{"seed", w.seed()},
		{"frequencyPenalty", r.FrequencyPenalty},
		{"presencePenalty", r.PresencePenalty},
	} {
		w.Member(m.name, m.value)
	}
	if len(r.Stop) > 0 {
		chat.AppendTexts(w.Key("stopSequences"), r.Stop)
	}
	if string(r.LogProbs) == "true" {
		w.Key("responseLogprobs").Bool(true)
		w.Member("logprobs", r.TopLogProbs)
	}
	w.format()
	w.thinking()
	w.modalities()
	w.extras(configExtras)
	w.Close('}')
	w.dropEmpty(`"generationConfig":{}`)
}

// dropEmpty removes a member that turned out to be empty, with its comma.
func (w *writer) dropEmpty(member string) {
	rest, ok := bytes.CutSuffix(w.Builder, []byte(member))
	if ok {
		w.Builder = bytes.TrimSuffix(rest, []byte(","))
	}
}

// seed returns the seed, or nil if it is not one of the 32 bits that the API has for it.
func (w *writer) seed() chat.Raw {
	if w.r.Seed == nil {
		return nil
	}
	if n, err := strconv.ParseFloat(string(w.r.Seed), 64); err != nil || n >= math.MinInt32 && n <= math.MaxInt32 {
		return w.r.Seed // what is no number is the API's to refuse
	}
	w.warn("seed was left out: the provider takes integers of 32 bits")
	return nil
}

// format writes the format of the answer. Models before the third generation refuse JSON
// together with functions.
func (w *writer) format() {
	f := &w.r.Format
	if f.Kind != chat.FormatJSON && f.Kind != chat.FormatSchema {
		return
	}
	if strings.HasPrefix(w.o.Model, "gemini-") && !hasLevels(w.o.Model) && slices.ContainsFunc(w.r.Tools, declared) {
		w.warn("the JSON format of the answer was left out: the model takes none together with functions")
		return
	}
	w.Key("responseMimeType").Text("application/json")
	if f.Kind == chat.FormatSchema && f.Schema != nil {
		w.schema(response, responseFull, f.Schema)
	}
}

// thinking writes the thinking level or budget, from OpenAI's, Anthropic's or the API's own
// parameters.
func (w *writer) thinking() {
	r := w.r
	if own := w.extra("thinking_config", "thinkingConfig"); own != nil {
		w.Key("thinkingConfig").Raw(own)
		return
	}
	if r.Thinking != nil {
		var kind chat.Literal
		var budget chat.Raw
		t := jsonscan.NewReader(r.Thinking)
		t.Object(func(key jsonscan.Key) {
			switch {
			case key.Is("type"):
				kind = t.String()
			case key.Is("budget_tokens"):
				budget = t.Value()
			}
		})
		switch {
		case kind.Is("disabled") && (strings.HasPrefix(w.o.Model, "gemini-2.5") || hasLevels(w.o.Model)):
			w.effort("none") // some models cannot turn thinking off
		case kind.Is("disabled"):
			w.Key("thinkingConfig").Raw([]byte(`{"thinkingBudget":0}`))
		default:
			w.Key("thinkingConfig").Open('{')
			w.Key("includeThoughts").Bool(true)
			if level := w.level(r.Effort.Text()); budget == nil && level != "" {
				w.Key("thinkingLevel").Text(level)
			} else if budget != nil {
				w.Key("thinkingBudget").Int(w.within(chat.Int(budget)))
			}
			w.Close('}')
		}
		return
	}
	w.effort(r.Effort.Text())
}

// within limits a budget to the maximum of the model.
func (w *writer) within(budget int64) int64 {
	switch {
	case !strings.HasPrefix(w.o.Model, "gemini-2.5"):
		return budget
	case strings.Contains(w.o.Model, "pro"):
		return min(budget, 32768)
	}
	return min(budget, 24576)
}

// budgets maps an effort to a token budget as Google's OpenAI-compatible endpoint does.
var budgets = map[string]int64{"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576, "max": 24576}

// levels maps an effort to a thinking level: of a Pro model, and of the others.
var levels = map[string][2]string{
	"none": {"low", "minimal"}, "minimal": {"low", "minimal"}, "low": {"low", "low"}, "medium": {"medium", "medium"},
	"high": {"high", "high"}, "xhigh": {"high", "high"}, "max": {"high", "high"},
}

// level returns the thinking level for an effort, or "" if there is none.
func (w *writer) level(word string) string {
	level, ok := levels[word]
	switch {
	case !ok || !hasLevels(w.o.Model):
		return ""
	case !strings.Contains(w.o.Model, "pro"):
		return level[1]
	case strings.HasPrefix(w.o.Model, "gemini-3-pro") && word == "medium":
		return "high" // it has two levels only
	}
	return level[0]
}

// effort writes an effort for models that are known to think; others would refuse it.
func (w *writer) effort(word string) {
	model := w.o.Model
	thoughts := w.r.Thoughts && word != "none"
	if word == "" && !thoughts || strings.Contains(model, "image") || strings.Contains(model, "tts") {
		return
	}
	pro := strings.Contains(model, "pro")
	level, budget, known := "", int64(0), false
	switch {
	case hasLevels(model):
		level = w.level(word)
	case strings.HasPrefix(model, "gemini-2.5"):
		budget, known = budgets[word]
		if pro && budget == 0 {
			budget = 128 // a Pro model cannot turn thinking off
		}
	default:
		return
	}
	w.Key("thinkingConfig").Open('{')
	if thoughts {
		w.Key("includeThoughts").Bool(true)
	}
	if level != "" {
		w.Key("thinkingLevel").Text(level)
	} else if known {
		w.Key("thinkingBudget").Int(budget)
	}
	w.Close('}')
	w.dropEmpty(`"thinkingConfig":{}`)
}

// modalities writes the output modalities, given in OpenAI's form or the API's.
func (w *writer) modalities() {
	v := w.extra("response_modalities", "responseModalities", "modalities")
	if v == nil {
		return
	}
	m := jsonscan.NewReader(v)
	words := chat.Texts(m)
	if len(words) == 0 {
		return
	}
	w.Key("responseModalities").Open('[')
	for _, word := range words {
		w.Text(strings.ToUpper(word.Text()))
	}
	w.Close(']')
}

// The API's own members that a request may have, by the name used here and an alternative
// one.
var (
	topExtras = [][2]string{
		{"safetySettings", "safety_settings"},
		{"cachedContent", "cached_content"},
		{"labels", ""},
		{"modelArmorConfig", "model_armor_config"},
	}
	configExtras = [][2]string{
		{"speechConfig", "speech_config"},
		{"mediaResolution", "media_resolution"},
		{"imageConfig", "image_config"},
		{"audioTimestamp", "audio_timestamp"},
		{"enableEnhancedCivicAnswers", "enable_enhanced_civic_answers"},
	}
)

func (w *writer) extras(table [][2]string) {
	for _, names := range table {
		w.Member(names[0], w.extra(names[0], names[1]))
	}
}

func (w *writer) extra(names ...string) chat.Raw { return Either(w.r.Lookup, names...) }
