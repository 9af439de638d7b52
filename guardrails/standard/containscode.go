package standard

import (
	"context"
	"iter"
	"strings"

	"github.com/caddy-gw/gateway/guardrails"
)

// formats are the languages, by the tags that fenced blocks have.
var formats = map[string]string{
	"sql": "SQL", "py": "Python", "python": "Python", "python3": "Python", "gyp": "Python",
	"ts": "TypeScript", "tsx": "TypeScript", "typescript": "TypeScript", "js": "JavaScript", "jsx": "JavaScript", "javascript": "JavaScript",
	"java": "Java", "cs": "C#", "csharp": "C#", "c#": "C#", "cpp": "C++", "c++": "C++", "cc": "C++", "c": "C",
	"rb": "Ruby", "ruby": "Ruby", "php": "PHP", "swift": "Swift", "kt": "Kotlin", "kotlin": "Kotlin", "go": "Go", "golang": "Go",
	"rs": "Rust", "rust": "Rust", "scala": "Scala", "r": "R", "pl": "Perl", "perl": "Perl",
	"sh": "Shell", "bash": "Shell", "shell": "Shell", "zsh": "Shell", "html": "HTML", "css": "CSS", "xml": "XML", "json": "JSON",
	"yml": "YAML", "yaml": "YAML", "md": "Markdown", "markdown": "Markdown", "dockerfile": "Dockerfile", "docker": "Dockerfile",
}

var containsCode = guardrails.Kind{
	ID: "default.containsCode", Doc: "a fenced block of code is in the language, according to its tag",
	Phases: guardrails.Calls | guardrails.Answers,
	Parameters: []guardrails.Parameter{
		{Name: "format", Required: true, OneOf: []string{
			"SQL", "Python", "TypeScript", "JavaScript", "Java", "C#", "C++", "C", "Ruby", "PHP", "Swift", "Kotlin", "Go", "Rust", "Scala",
			"R", "Perl", "Shell", "HTML", "CSS", "XML", "JSON", "YAML", "Markdown", "Dockerfile",
		}, Doc: "the language"},
		not,
	},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		return &coded{format: p.Text("format"), not: p.Boolean("not")}, nil
	},
}

// maxFormats is how many formats of blocks are reported.
const maxFormats = 20

type coded struct {
	format string
	not    bool
}

func (c *coded) Judge(ctx context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	text := s.Text()
	if text == "" {
		return guardrails.Result{}, guardrails.ErrNoText
	}
	found, seen := false, []string{}
	paced := pacer{ctx: ctx}
	for b := range fencedBlocks(text) {
		if err := paced.pace(len(b.tag) + len(b.inside)); err != nil {
			return guardrails.Result{}, err
		}
		format := formats[strings.ToLower(b.tag)]
		if format == "" {
			format = b.tag
		}
		found = found || format == c.format
		if len(seen) < maxFormats && format != "" {
			seen = append(seen, guardrails.Excerpt(format))
		}
	}
	return judged(found, c.not, "The text has a block of code in "+c.format+".", "The text has no block of code in "+c.format+".", data{"format": c.format, "foundFormats": seen, "textExcerpt": guardrails.Excerpt(text)}), nil
}

// A block is what may be a fenced block of code.
type block struct{ tag, inside string }

// fencedBlocks are the fenced blocks in a text. Any fence may begin one: which of them do depends on
// what is before them, and a text that has a fence too many would hide all that follow.
func fencedBlocks(text string) iter.Seq[block] {
	return func(yield func(block) bool) {
		for _, fence := range []string{"```", "~~~"} {
			begin := -1 // of what is after the last fence
			for at := 0; ; {
				next := strings.Index(text[at:], fence)
				if next < 0 {
					break
				}
				if next += at; begin >= 0 && !yield(newBlock(text[begin:next])) {
					return
				}
				for at = next; at < len(text) && text[at] == fence[0]; at++ { // fences may be longer
				}
				begin = at
			}
		}
	}
}

// newBlock is the block with a text between its fences. The tag is the first word, if it follows the
// fence, or else if it is alone on its line.
func newBlock(text string) block {
	const ends = " \t\r\n{["
	if end := strings.IndexAny(text, ends); end > 0 {
		return block{text[:end], text[end:]}
	}
	line, rest, lines := strings.Cut(text, "\n")
	if tag := strings.TrimSpace(line); lines && !strings.ContainsAny(tag, ends) {
		return block{tag, rest}
	}
	return block{"", text}
}
