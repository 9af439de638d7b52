// Package usage reads the usage that providers report.
package usage

import (
	"bytes"
	"strconv"

	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A figure is a count, and whether it is given; bad: something else is given that is no count.
type figure struct {
	n          int64
	given, bad bool
}

// maxFigure is more than any call can use, of anything.
const maxFigure = 1_000_000_000

// read reads a count. null is none.
func (f *figure) read(r *jsonscan.Reader) {
	v := r.Value()
	if len(v) == 0 || v[0] == 'n' {
		return
	}
	if v[0] >= '0' && v[0] <= '9' {
		if n, err := strconv.ParseFloat(string(v), 64); err == nil && n <= maxFigure {
			*f = figure{n: int64(n), given: true}
			return
		}
	}
	*f = figure{bad: true}
}

// readThousands reads a count in thousandths.
func (f *figure) readThousands(r *jsonscan.Reader) {
	if n, err := strconv.ParseFloat(string(r.Value()), 64); err == nil && n >= 0 && n*1000 <= maxFigure {
		*f = figure{n: int64(n * 1000), given: true}
	}
}

// Seconds returns a duration in milliseconds that is a number of seconds, or a text with one; 0: it is neither.
func Seconds(value []byte) (milliseconds int64) {
	var f figure
	f.readThousands(jsonscan.NewReader(bytes.Trim(bytes.TrimSpace(value), `"`)))
	return f.n
}

// put sets a count to the first figure that is given.
func put(to *int64, figures ...figure) (given bool) {
	for _, f := range figures {
		if f.given {
			*to = f.n
			return true
		}
	}
	return false
}

// Count returns a count that is a member of an object, and whether it is given.
func Count(object []byte, name string) (n int64, given bool) {
	f := figureIn(object, name)
	return f.n, f.given
}

func figureIn(object []byte, name string) (f figure) {
	if object == nil {
		return f
	}
	r := jsonscan.NewReader(object)
	r.Object(func(key jsonscan.Key) {
		if key.Is(name) {
			f.read(r)
		}
	})
	return f
}

// figures are all counts that a usage may have, in OpenAI's older and newer endpoints and
// in Anthropic's.
type figures struct {
	prompt, input, completion, output, total figure
	seconds                                  figure   // in milliseconds
	passes                                   *figures // Anthropic's iterations
	searches                                 figure   // of the web
	cacheRead, cacheCreation, cacheHour      figure   // Anthropic's
	reasoning                                figure   // Perplexity's
	ofPrompt, ofCompletion                   details
}

// iterations counts what Anthropic says of each pass of the model: the other members count the messages alone, and
// not the passes that made the conversation shorter. Each is the larger count.
func (f *figures) iterations(r *jsonscan.Reader) {
	var all figures
	r.Array(func() {
		one := figuresOf(r.Value(), false)
		for _, part := range [...]struct{ of, to *figure }{
			{&one.input, &all.input}, {&one.output, &all.output}, {&one.cacheRead, &all.cacheRead}, {&one.cacheCreation, &all.cacheCreation}, {&one.cacheHour, &all.cacheHour},
		} {
			if part.of.given {
				*part.to = figure{n: min(part.to.n+part.of.n, maxFigure), given: true}
			}
		}
	})
	f.passes = &all
}

// larger sets a count to that of all passes, if that is larger.
func (f *figure) larger(all figure) {
	if all.given && !f.bad && all.n > f.n {
		*f = all
	}
}

// details are the parts of a count.
type details struct{ cached, written, hour, audio, images, reasoning figure }

func (d *details) read(r *jsonscan.Reader) {
	r.Object(func(key jsonscan.Key) {
		var to *figure
		switch string(key.Bytes()) {
		case "cached_tokens":
			to = &d.cached
		case "cache_write_tokens":
			to = &d.written
		case "cache_write_1h_tokens":
			to = &d.hour
		case "audio_tokens":
			to = &d.audio
		case "image_tokens":
			to = &d.images
		case "reasoning_tokens", "thinking_tokens":
			to = &d.reasoning
		default:
			return
		}
		to.read(r)
	})
}

// figuresOf reads a usage, or what it says of a pass.
func figuresOf(usage []byte, whole bool) (f figures) {
	r := jsonscan.NewReader(usage)
	r.Object(func(key jsonscan.Key) {
		var to *figure
		switch string(key.Bytes()) {
		case "prompt_tokens":
			to = &f.prompt
		case "input_tokens":
			to = &f.input
		case "completion_tokens":
			to = &f.completion
		case "output_tokens":
			to = &f.output
		case "total_tokens":
			to = &f.total
		case "seconds": // of audio that is not counted in tokens
			f.seconds.readThousands(r)
			return
		case "num_cached_tokens", "prompt_cache_hit_tokens", "cached_tokens": // Mistral's, DeepSeek's, Moonshot's
			if !f.ofPrompt.cached.given {
				to = &f.ofPrompt.cached
			}
		case "server_tool_use": // Anthropic's and OpenRouter's
			f.searches = figureIn(r.Value(), "web_search_requests")
			return
		case "num_search_queries": // Perplexity's
			to = &f.searches
		case "reasoning_tokens":
			to = &f.reasoning
		case "iterations":
			if whole {
				f.iterations(r)
			}
			return
		case "cache_read_input_tokens":
			to = &f.cacheRead
		case "cache_creation_input_tokens":
			to = &f.cacheCreation
		case "cache_creation":
			f.cacheHour = figureIn(r.Value(), "ephemeral_1h_input_tokens")
			return
		case "prompt_tokens_details", "input_tokens_details", "prompt_token_details", "input_token_details":
			f.ofPrompt.read(r)
			return
		case "completion_tokens_details", "output_tokens_details", "completion_token_details", "output_token_details":
			f.ofCompletion.read(r)
			return
		default:
			return
		}
		if to != nil {
			to.read(r)
		}
	})
	return f
}

// Read adds the counts of a usage object to u, and reports whether it has numbers of
// tokens; known says that an earlier one had. Later values replace earlier ones. Anthropic
// does not include cached tokens in those of the prompt. Where the tokens of the prompt or of the answer
// are no plausible count, nothing is believed of it.
func Read(u *prices.Usage, object []byte, known, anthropic bool) bool {
	f := figuresOf(object, true)
	if all := f.passes; all != nil && anthropic {
		f.input.larger(all.input)
		f.output.larger(all.output)
		f.cacheRead.larger(all.cacheRead)
		f.cacheCreation.larger(all.cacheCreation)
		f.cacheHour.larger(all.cacheHour)
	}
	if f.prompt.bad || f.input.bad || f.completion.bad || f.output.bad {
		return false
	}
	put(&u.Milliseconds, f.seconds)
	put(&u.WebSearches, f.searches)
	whole := put(&u.Completion, f.completion, f.output)
	if put(&u.Reasoning, f.ofCompletion.reasoning, f.reasoning); whole && f.reasoning.given && u.Reasoning > u.Completion {
		u.Completion += u.Reasoning // which do not include it
	}
	if anthropic {
		uncached := u.Prompt - u.CacheRead - u.CacheWrite // Anthropic counts the rest of the prompt
		prompt := put(&uncached, f.input)
		cached := put(&u.CacheRead, f.cacheRead)
		written := put(&u.CacheWrite, f.cacheCreation)
		put(&u.CacheHour, f.cacheHour)
		u.Prompt = uncached + u.CacheRead + u.CacheWrite
		return whole || prompt || cached || written
	}
	prompt := put(&u.Prompt, f.prompt, f.input)
	switch {
	case !f.total.given:
	case !prompt && !known: // the usage of embeddings of some providers
		prompt, u.Prompt = true, max(0, f.total.n-u.Completion)
	case prompt && !whole:
		whole, u.Completion = true, max(0, f.total.n-u.Prompt)
	}
	put(&u.CacheRead, f.ofPrompt.cached)
	put(&u.CacheWrite, f.ofPrompt.written)
	put(&u.CacheHour, f.ofPrompt.hour)
	put(&u.AudioIn, f.ofPrompt.audio)
	put(&u.ImageIn, f.ofPrompt.images)
	put(&u.AudioOut, f.ofCompletion.audio)
	put(&u.ImageOut, f.ofCompletion.images)
	if whole {
		u.Settle(f.total.n)
	}
	u.Bound()
	return whole || prompt
}
