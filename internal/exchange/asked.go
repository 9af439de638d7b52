package exchange

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// An asked is how long an answer a body asks for. Servers differ in the names that they read, and
// in where they read them: a name that is not the endpoint's own bounds nothing, but may ask for
// more.
type asked struct {
	most    int64 // the largest of the endpoint's own bounds; -1: there is none
	named   int64 // the largest of other names
	choices int64
	prompts int64 // that are answered each
	tokens  int64 // of a prompt in tokens
	pages   int64 // of a document; -1: it does not say
	fault   string

	background bool
	slower     int64 // how many times longer speech is than at the usual speed; 0: it is not
	charges    charges

	own  []string
	seen [4]bool // of own
	open bool    // one of the bounds is negative, which some servers take for none
}

// Names are compared in lower case and without underscores.
var (
	mostNames = map[string]bool{
		"maxtokens": true, "maxcompletiontokens": true, "maxoutputtokens": true, "maxnewtokens": true, "maxlength": true, "maxgenlen": true,
		"maxtokencount": true, "maxtokenstosample": true, "maxtokenstogenerate": true, "maxgeneratedtokens": true, "numpredict": true, "npredict": true,
	}
	choiceNames = map[string]bool{
		"n": true, "bestof": true, "candidatecount": true, "numreturnsequences": true, "numgenerations": true, "numresults": true,
		"numcompletions": true, "numcandidates": true, "beamwidth": true, "numbeams": true,
		// Of images:
		"samples": true, "numsamples": true, "numimages": true, "numoutputs": true, "numberofimages": true, "samplecount": true, "imagecount": true, "batchsize": true,
	}
	containers = map[string]bool{
		"options": true, "generationconfig": true, "inferenceconfig": true, "textgenerationconfig": true, "parameters": true, "extrabody": true,
		"additionalmodelrequestfields": true, "modelparameters": true, "config": true,
	}
)

// parametersOf reads a body, which is a JSON object.
func parametersOf(body []byte, m *metering) *asked {
	q := &asked{most: -1, choices: 1, prompts: 1, pages: -1, own: m.bounds}
	r := jsonscan.NewReader(body)
	q.object(r, m, true)
	if q.open {
		q.named, q.most = max(q.named, q.most), -1
	}
	return q
}

func (q *asked) object(r *jsonscan.Reader, m *metering, top bool) {
	r.Object(func(key jsonscan.Key) {
		name := key.Bytes()
		if len(name) > maxFolded {
			return
		}
		if top && q.ownBound(name, r) {
			return
		}
		var room [maxFolded]byte
		folded := fold(room[:0], name)
		switch {
		case mostNames[string(folded)]:
			q.named = max(q.named, q.number(name, r))
		case choiceNames[string(folded)]:
			q.choices = max(q.choices, q.number(name, r))
		case string(folded) == "speed" && m.how == unreported:
			q.speed(r)
		case q.charges.member(folded, r):
		case !top:
		case containers[string(folded)]:
			q.object(r, m, false)
		case string(folded) == "background":
			if v := r.Value(); v != nil && string(v) != "false" {
				q.background = true
			}
		case string(folded) == "prompt" && m.prompts, string(folded) == "input":
			q.prompt(r, m.prompts)
		case string(folded) == "pages" && m.pages:
			q.pages = 0
			r.Array(func() { q.pages++ })
		}
	})
}

const maxFolded = 40

// fold appends a name in lower case and without underscores.
func fold(dst, name []byte) []byte {
	for _, c := range name {
		switch {
		case c >= 'A' && c <= 'Z':
			dst = append(dst, c|0x20)
		case c != '_' && c != '-':
			dst = append(dst, c)
		}
	}
	return dst
}

// ownBound reads one of the endpoint's own bounds, if the name is that of one.
func (q *asked) ownBound(name []byte, r *jsonscan.Reader) bool {
	for i, own := range q.own {
		if string(name) != own {
			continue
		}
		if q.seen[i] {
			q.fault = own + " is given twice"
		}
		q.seen[i] = true
		if r.Kind() == jsonscan.Null {
			return true
		}
		if n := q.number(name, r); n >= 0 {
			q.most = max(q.most, n)
		} else {
			q.open = true
		}
		return true
	}
	return false
}

// speed reads how fast speech is.
func (q *asked) speed(r *jsonscan.Reader) {
	speed, err := strconv.ParseFloat(strings.Trim(string(r.Value()), `"`), 64)
	if err == nil && speed < 1 {
		q.slower = max(q.slower, int64(math.Ceil(1/max(speed, slowestSpeech))))
	}
}

// number reads a whole number; -1: it is negative, or null. Text with a number counts, too, as some
// servers read it.
func (q *asked) number(name []byte, r *jsonscan.Reader) int64 {
	raw := r.Value()
	if raw == nil {
		return -1
	}
	text := string(raw)
	if raw[0] == '"' {
		text = strings.TrimSpace(jsonscan.Unquote(raw))
	}
	n, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil && !math.IsInf(n, 0), math.IsNaN(n), n != math.Trunc(n) && !math.IsInf(n, 0):
		q.fault = strconv.Quote(string(name)) + " is no whole number"
		return -1
	case n < 0:
		return -1
	}
	return int64(min(n, estimate.MaxTokens))
}

// prompt counts the prompts of a list, and the tokens of one that is given in tokens.
func (q *asked) prompt(r *jsonscan.Reader, answered bool) {
	if r.Kind() != jsonscan.Array {
		return
	}
	var texts, numbers int64
	r.Array(func() {
		switch r.Kind() {
		case jsonscan.Number:
			numbers++
		case jsonscan.Array:
			texts++
			r.Array(func() {
				if r.Kind() == jsonscan.Number {
					numbers++
				}
			})
		default:
			texts++
		}
	})
	q.tokens += numbers
	if answered {
		q.prompts = max(q.prompts, texts)
	}
}

// A content is what a prompt has in it.
type content struct {
	text   int64 // bytes
	tokens int64 // that files in it may be, by their size
	images int64
	unseen bool // there is more that the gateway does not see
	media  bool // prices of audio and images may apply

	webSearch, fileSearch bool // the provider may search

	mayHaveFiles bool
	data         *[][]byte // of files, parts of the body in their order; nil: it is not kept
}

// A body refers to what it does not have, files, earlier turns, saved prompts, and tools of the
// provider whose results become part of the prompt, by members that are not null, by strings, and by
// what strings begin with.
var (
	unseenMembers = setOf("file_id", "file_ids", "file_url", "file_uri", "fileUri", "file_data", "document_url", "video_url", "audio_url", "vector_store_ids",
		"previous_response_id", "conversation", "mcp_servers", "web_search_options", "search_parameters", "cached_content", "cachedContent",
		"google_search", "googleSearch", "google_search_retrieval", "googleSearchRetrieval", "url_context", "urlContext", "code_execution", "codeExecution")
	unseenTexts = setOf("document", "input_file", "input_video", "video", "container_upload", "item_reference", "file_search", "mcp", "local_shell",
		"image_generation", "x_search", "browser_search", "google_search", "retrieval")
	unseenBeginnings = []string{"web_search", "web_fetch", "code_interpreter", "code_execution", "computer_", "pmpt_"}
)

func setOf(words ...string) map[string]bool {
	set := make(map[string]bool, len(words))
	for _, w := range words {
		set[w] = true
	}
	return set
}

// contentOf looks at what a body, which is valid, has in it.
func contentOf(body []byte) (c content) {
	c.text = int64(len(body))
	c.media = bytes.Contains(body, []byte(`audio"`))
	c.unseen = escapesLetters(body)
	c.webSearch, c.fileSearch = c.unseen, c.unseen
	for rest := body; ; {
		i := bytes.IndexByte(rest, '"')
		if i < 0 {
			break
		}
		rest = rest[i+1:]
		c.word(rest)
	}
	if c.mayHaveFiles && len(body) > shortData {
		c.files(body)
	}
	c.media = c.media || c.images > 0
	return c
}

// word looks at a string, of which text is the rest of the body.
func (c *content) word(text []byte) {
	const longest = 32
	if len(text) == 0 || strings.IndexByte("abcdfgilmpruvwx", text[0]|0x20) < 0 {
		return
	}
	for _, begins := range unseenBeginnings {
		c.unseen = c.unseen || bytes.HasPrefix(text, []byte(begins))
	}
	c.webSearch = c.webSearch || bytes.HasPrefix(text, []byte("web_search"))
	end := bytes.IndexByte(text[:min(len(text), longest)], '"')
	if end < 0 {
		return
	}
	word, after := text[:end], bytes.TrimLeft(text[end+1:], " \t\r\n")
	value, member := bytes.CutPrefix(after, []byte(":"))
	if member && hasCapital(word) && !unseenMembers[string(word)] { // as some servers take it
		var room [longest]byte
		word = appendLower(room[:0], word)
	}
	switch {
	case member && unseenMembers[string(word)]:
		c.unseen = c.unseen || !bytes.HasPrefix(bytes.TrimLeft(value, " \t\r\n"), []byte("null"))
	case !member && unseenTexts[string(word)]:
		c.unseen = true
		c.fileSearch = c.fileSearch || string(word) == "file_search"
	}
	c.mayHaveFiles = c.mayHaveFiles || member && fileMembers[string(word)]
	if string(word) == "image_url" && member || string(word) == "image" {
		c.images++
	}
}

// hasCapital reports whether a name has one of the letters A to Z.
func hasCapital(name []byte) bool {
	for _, c := range name {
		if c >= 'A' && c <= 'Z' {
			return true
		}
	}
	return false
}

// escapesLetters reports whether a body spells a letter as an escape, as no encoder does: what is
// in it cannot be told from its bytes.
func escapesLetters(body []byte) bool {
	for {
		i := bytes.Index(body, []byte(`\u00`))
		if i < 0 || len(body) < i+5 {
			return false
		}
		if c := body[i+4]; c >= '4' && c <= '7' {
			return true
		}
		body = body[i+4:]
	}
}
