package exchange

import (
	"strings"
	"testing"
)

func TestFieldsOfFormsThatNameObjects(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ field, value, want string }{
		{"file_id", "a", "a"},
		{"file_ids[]", "a", "a"},
		{"input_reference[file_id]", "a", "a"},
		{"images[0][file_id]", "a", "a"},
		{"image[file_id]", "a", "a"},
		{"input_reference.file_id", "a", "a"},
		{"input_reference%5bfile_id%5d", "a", "a"},
		{"input_reference", `{"file_id":"a"}`, "a"},
		{"video", "a", "a"},
		{"video[id]", "a", "a"},
		{"characters[][id]", "a", "a"},
		{"audio[voice]", "a", ""},
		{"audio", "a", ""},
		{"skill_id", "pptx", ""},
		{"skill_id", "skill_1", "skill_1"},
		{"prompt", "file_id", ""},
		{"", "a", ""},
	} {
		f := new(formNames)
		if err := f.named(c.field, []byte(c.value)); err != nil {
			t.Errorf("%s: %v", c.field, err)
		}
		if got := strings.Join(f.ids, " "); got != c.want {
			t.Errorf("%s=%s names %q, want %q", c.field, c.value, got, c.want)
		}
	}
}
