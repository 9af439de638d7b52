package echo

import (
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// flagWord flags a text that contains it.
const flagWord = "flag-me"

// flaggedCategory is the one category of a flagged text.
const flaggedCategory = "harassment"

// categories are all categories of an answer.
var categories = [...]string{
	"hate", "hate/threatening",
	"harassment", "harassment/threatening",
	"self-harm", "self-harm/intent", "self-harm/instructions",
	"sexual", "sexual/minors",
	"violence", "violence/graphic",
}

// The two possible results.
var (
	passedResult  = moderationResult(false)
	flaggedResult = moderationResult(true)
)

func moderationResult(flagged bool) string {
	value := func(category, yes, no string) string {
		if flagged && category == flaggedCategory {
			return `"` + category + `":` + yes
		}
		return `"` + category + `":` + no
	}
	var bools, scores [len(categories)]string
	for i, category := range categories {
		bools[i] = value(category, "true", "false")
		scores[i] = value(category, "1.0", "0.0")
	}
	verdict := "false"
	if flagged {
		verdict = "true"
	}
	return `{"flagged":` + verdict +
		`,"categories":{` + strings.Join(bools[:], ",") +
		`},"category_scores":{` + strings.Join(scores[:], ",") + `}}`
}

// answerModeration flags the texts that contain the word flag-me.
func answerModeration(body gjson.Result, at stamp) (answer, error) {
	model := "text-moderation-latest"
	var input gjson.Result
	err := eachMember(body, func(name string, v gjson.Result) error {
		switch name {
		case "model":
			return setString(&model, name, v)
		case "input":
			input = v
		}
		return nil
	})
	if err != nil {
		return answer{}, err
	}
	texts, err := textsOf("input", input)
	if err != nil {
		return answer{}, err
	}

	b := append([]byte(nil), `{"id":"modr-echo-`...)
	b = append(b, at.nonce...)
	b = append(b, `","model":`...)
	b = appendString(b, model)
	b = append(b, `,"results":[`...)
	for i, text := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		if hasWord(text, flagWord) {
			b = append(b, flaggedResult...)
		} else {
			b = append(b, passedResult...)
		}
	}
	return answer{body: append(b, "]}"...)}, nil
}

// hasWord reports whether word occurs in text without a letter or digit next to it.
func hasWord(text, word string) bool {
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(word)
		before, _ := utf8.DecodeLastRuneInString(text[:start])
		after, _ := utf8.DecodeRuneInString(text[end:])
		if kindOf(before) != letter && kindOf(after) != letter {
			return true
		}
		from = end
	}
}
