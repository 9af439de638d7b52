package standard

import (
	"context"
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
	ID: "default.containsCode", Doc: "a fenced block of code is in the language",
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

// maxFormats is how many formats of blocks are told.
const maxFormats = 20

type coded struct {
	format string
	not    bool
}

func (c *coded) Judge(_ context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	text := s.Text()
	if text == "" {
		return guardrails.Result{}, guardrails.ErrNoText
	}
	blocks := fencedBlocks(text)
	found, seen := false, []string{}
	for _, b := range blocks {
		format := formats[strings.ToLower(b.tag)]
		if format == "" {
			format = b.tag
		}
		found = found || format == c.format
		if len(seen) < maxFormats {
			seen = append(seen, guardrails.Excerpt(format))
		}
	}
	return judged(found, c.not, "a block of code in "+c.format, data{"format": c.format, "foundFormats": seen, "textExcerpt": guardrails.Excerpt(text)}), nil
}

// A block is a fenced block of code.
type block struct{ tag, inside string }

const maxBlocks = 1000

// fencedBlocks returns the fenced blocks in a text.
func fencedBlocks(text string) (blocks []block) {
	const fence = "```"
	for len(blocks) < maxBlocks {
		_, rest, ok := strings.Cut(text, fence)
		if !ok {
			return blocks
		}
		inside, after, ok := strings.Cut(rest, fence)
		if !ok {
			return blocks
		}
		var b block
		end := strings.IndexAny(inside, " \t\r\n{[")
		if end < 0 {
			end = 0
		}
		b.tag, b.inside = inside[:end], inside[end:]
		blocks = append(blocks, b)
		text = after
	}
	return blocks
}
