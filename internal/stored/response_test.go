package stored

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func turn(id, previous string) *Response {
	return &Response{Object: json.RawMessage(`{"id":"` + id + `","text":"<&>"}`), Input: json.RawMessage(`"in"`), Previous: previous}
}

func TestAConversationIsReadFromItsBeginning(t *testing.T) {
	ctx := context.Background()
	m := NewResponses(open(t), time.Now)
	keep := func(id, previous string) {
		t.Helper()
		if err := m.Put(ctx, "ws", id, turn(id, previous)); err != nil {
			t.Fatal(err)
		}
	}
	ids := func(workspace, id string) (list []string, lost *MissingResponseError) {
		t.Helper()
		turns, err := m.Conversation(ctx, workspace, id)
		if err != nil && !errors.As(err, &lost) {
			t.Fatal(err)
		}
		for _, t := range turns {
			var response struct{ ID, Text string }
			if json.Unmarshal(t.Object, &response) == nil && response.Text == "<&>" && string(t.Input) == `"in"` {
				list = append(list, response.ID)
			}
		}
		return list, lost
	}
	keep("a", "")
	keep("b", "a")
	keep("c", "b")
	if err := m.Remember(ctx, "ws", "native", "slug"); err != nil {
		t.Fatal(err)
	}
	keep("d", "native")
	if got, lost := ids("ws", "c"); !slices.Equal(got, []string{"a", "b", "c"}) || lost != nil {
		t.Errorf("got %v, %v", got, lost)
	}
	for _, c := range []struct{ workspace, id, lost, slug string }{
		{"other", "c", "c", ""},
		{"ws", "nobody", "nobody", ""},
		{"ws", strings.Repeat("x", 3000), strings.Repeat("x", 3000), ""},
		{"ws", "native", "native", "slug"},
	} {
		if got, lost := ids(c.workspace, c.id); got != nil || lost == nil || lost.ID != c.lost || lost.Slug != c.slug {
			t.Errorf("%s of %s: got %v, %v", c.id, c.workspace, got, lost)
		}
	}
	if got, lost := ids("ws", "d"); !slices.Equal(got, []string{"d"}) || lost == nil || lost.Slug != "slug" {
		t.Errorf("got %v, %v", got, lost)
	}
	if err := m.Delete(ctx, "ws", "a"); err != nil {
		t.Fatal(err)
	}
	if got, lost := ids("ws", "c"); !slices.Equal(got, []string{"b", "c"}) || lost == nil || lost.ID != "a" {
		t.Errorf("got %v, %v", got, lost)
	}
}

func TestAConversationHasItsBounds(t *testing.T) {
	ctx := context.Background()
	m := NewResponses(open(t), time.Now)
	keep := func(prefix string, n int, input json.RawMessage) string {
		t.Helper()
		last := ""
		for i := range n {
			id := prefix + strconv.Itoa(i)
			t1 := turn(id, last)
			t1.Input = input
			if err := m.Put(ctx, "ws", id, t1); err != nil {
				t.Fatal(err)
			}
			last = id
		}
		return last
	}
	if turns, err := m.Conversation(ctx, "ws", keep("short", maxResponses, json.RawMessage(`""`))); err != nil || len(turns) != maxResponses {
		t.Errorf("%d turns, %v", len(turns), err)
	}
	if _, err := m.Conversation(ctx, "ws", keep("long", maxResponses+1, json.RawMessage(`""`))); !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
	if err := m.Put(ctx, "ws", "loop", turn("loop", "loop")); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Conversation(ctx, "ws", "loop"); !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
	big := json.RawMessage(`"` + strings.Repeat("x", MaxInput) + `"`)
	if _, err := m.Conversation(ctx, "ws", keep("big", maxConversation/MaxInput, big)); !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
	huge := json.RawMessage(`"` + strings.Repeat("x", maxResponse) + `"`)
	if err := m.Put(ctx, "ws", "huge", &Response{Object: huge}); err == nil {
		t.Error("kept a turn of more than the bound")
	}
}
