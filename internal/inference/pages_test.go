package inference

import (
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/stored"
)

// An objectStore is a provider with a list of objects.
type objectStore struct {
	path    string // of the list
	largest int    // objects of a page, whatever is asked for

	mu      sync.Mutex
	objects []storedObject // the oldest first
	calls   int
}

type storedObject struct {
	id, purpose string
	created     int64
	gone        bool
}

func (s *objectStore) serve(r *http.Request) *http.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if id, ok := strings.CutPrefix(r.URL.Path, s.path+"/"); ok {
		for _, o := range s.objects {
			if o.id == id && !o.gone {
				return answering(200, "application/json", o.json())
			}
		}
		return answering(404, "application/json", `{"error":{"message":"none"}}`)
	}
	query := r.URL.Query()
	all := slices.DeleteFunc(slices.Clone(s.objects), func(o storedObject) bool {
		return o.gone || query.Has("purpose") && o.purpose != query.Get("purpose")
	})
	if query.Get("order") != "asc" {
		slices.Reverse(all)
	}
	limit := s.largest
	if n, err := strconv.Atoi(query.Get("limit")); err == nil {
		limit = min(limit, n)
	}
	at := func(id string) int { return slices.IndexFunc(all, func(o storedObject) bool { return o.id == id }) }
	for _, name := range []string{"after", "before"} {
		if id := query.Get(name); id != "" && at(id) < 0 {
			return answering(404, "application/json", `{"error":{"message":"none"}}`)
		}
	}
	var more bool
	if id := query.Get("before"); id != "" {
		all = all[:at(id)]
		more = len(all) > limit
		all = all[max(0, len(all)-limit):]
	} else {
		all = all[at(query.Get("after"))+1:]
		more = len(all) > limit
		all = all[:min(len(all), limit)]
	}
	var data []string
	for _, o := range all {
		data = append(data, o.json())
	}
	return answering(200, "application/json", fmt.Sprintf(`{"object":"list","data":[%s],"first_id":null,"last_id":null,"has_more":%v}`, strings.Join(data, ","), more))
}

func (o storedObject) json() string {
	return fmt.Sprintf(`{"id":%q,"created_at":%d,"purpose":%q}`, o.id, o.created, o.purpose)
}

// walk reads a list page by page, as the clients do, and returns the ids, and how many requests to the
// provider a page took at most.
func (b *bench) walk(t testing.TB, s *objectStore, query url.Values, backwards bool) (ids []string, most int) {
	t.Helper()
	for pages := 0; ; pages++ {
		before := s.calls
		w, _ := b.request(t, http.MethodGet, strings.TrimPrefix(s.path, "/v1")+"?"+query.Encode(), "", nil, "X-Gw-Provider", "one")
		if w.Code != 200 || pages > 1000 {
			t.Fatalf("page %d of %s: %d %s", pages, query.Encode(), w.Code, w.Body)
		}
		most = max(most, s.calls-before)
		var page []string
		for _, o := range gjson.Get(w.Body.String(), "data").Array() {
			page = append(page, o.Get("id").Str)
		}
		if backwards {
			ids = append(page, ids...)
		} else {
			ids = append(ids, page...)
		}
		switch more := gjson.Get(w.Body.String(), "has_more").Bool(); {
		case !more:
			return ids, most
		case len(page) == 0:
			t.Fatalf("an empty page of %s, and more to come", query.Encode())
		case backwards:
			query.Set("before", page[0])
		default:
			query.Set("after", page[len(page)-1])
		}
	}
}

// Whatever others make with the same credential, a workspace finds all of its own in a list, in order, and
// a page of it costs a bounded number of requests.
func TestAListHasWhatTheWorkspaceMade(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shared(t)
	seconds := int64(1_000_000)
	now := time.Unix(0, 0)
	b.gateway.Now = func() time.Time { return now }
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		s := &objectStore{path: "/v1/files", largest: rapid.IntRange(1, 6).Draw(rt, "largest")}
		b.serve = s.serve
		workspaces := []string{fmt.Sprint("a", run), fmt.Sprint("b", run), ""} // some are made by nobody of these
		own := make(map[string][]string)
		late := rapid.Bool().Draw(rt, "some are noted late")
		var noteLater []func()
		for range rapid.IntRange(0, 12).Draw(rt, "bursts") {
			who := rapid.SampledFrom(workspaces).Draw(rt, "who")
			purpose := rapid.SampledFrom([]string{"batch", "assistants"}).Draw(rt, "purpose")
			lateNow := late && len(noteLater) < 50 && rapid.Bool().Draw(rt, "late")
			for range rapid.IntRange(1, 40).Draw(rt, "many") {
				seconds += rapid.SampledFrom([]int64{0, 1, 1, 5}).Draw(rt, "seconds")
				// Those that are made at once are noted in any order.
				now = time.Unix(seconds, 0).Add(time.Duration(rapid.IntRange(0, 999).Draw(rt, "noted")) * time.Millisecond)
				o := storedObject{id: fmt.Sprintf("file-%d-%d", run, len(s.objects)), created: seconds, purpose: purpose}
				s.objects = append(s.objects, o)
				if who == "" {
					continue
				}
				own[who] = append(own[who], o.id)
				listed := []stored.Listed{{ID: o.id, List: "files", Created: o.created, Purpose: o.purpose}}
				if lateNow {
					listed[0].Created, listed[0].Purpose = 0, ""
				}
				note := func() {
					if err := b.gateway.Owners.Claim(t.Context(), who, "one", listed, now, false); err != nil {
						rt.Fatal(err)
					}
				}
				if lateNow {
					noteLater = append(noteLater, note)
				} else {
					note()
				}
			}
		}
		seconds++
		now = time.Unix(seconds, 0)
		for _, note := range noteLater {
			now = now.Add(time.Microsecond)
			note()
		}
		gone := 0
		if len(s.objects) > 0 {
			for range rapid.IntRange(0, 3).Draw(rt, "deleted by others") {
				i := rapid.IntRange(0, len(s.objects)-1).Draw(rt, "gone")
				if !s.objects[i].gone {
					s.objects[i].gone = true
					gone++
				}
			}
		}
		for _, who := range workspaces[:2] {
			b.gateway.Authenticator.(*credentials.Authenticator).DefaultWorkspace = who
			query := url.Values{}
			limit := rapid.SampledFrom([]int{0, 1, 2, 7, 50}).Draw(rt, "limit")
			if limit > 0 {
				query.Set("limit", strconv.Itoa(limit))
			}
			oldestFirst := rapid.Bool().Draw(rt, "oldest first")
			if oldestFirst {
				query.Set("order", "asc")
			}
			var want []string
			purpose := rapid.SampledFrom([]string{"", "batch"}).Draw(rt, "purpose")
			if late {
				purpose = ""
			}
			if purpose != "" {
				query.Set("purpose", purpose)
			}
			for _, o := range s.objects {
				if !o.gone && slices.Contains(own[who], o.id) && (purpose == "" || o.purpose == purpose) {
					want = append(want, o.id)
				}
			}
			if !oldestFirst {
				slices.Reverse(want)
			}
			backwards := len(want) > 0 && rapid.Bool().Draw(rt, "backwards")
			if backwards {
				query.Set("before", want[len(want)-1])
				want = want[:len(want)-1]
			}
			got, most := b.walk(t, s, query, backwards)
			if !slices.Equal(got, want) {
				rt.Fatalf("%s of %s: %v, want %v", query.Encode(), who, got, want)
			}
			bound := maxPages + maxObjects + gone
			if limit > 0 {
				bound = maxPages + min(limit, maxObjects) + gone
			}
			bound += tied(s.objects)
			if late {
				bound = maxPages + maxFetches + tied(s.objects)
			}
			if most > bound {
				rt.Fatalf("%d requests for a page of %s, at most %d are enough", most, query.Encode(), bound)
			}
		}
	})
}

// Where the object is that a page ends before may not be known yet: it is no part of the page, and what was made in the
// same second is.
func TestAPageIsWithoutTheObjectItEndsBefore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shared(t)
	b.gateway.Authenticator.(*credentials.Authenticator).DefaultWorkspace = "w"
	const second = 1_000_000
	b.gateway.Now = func() time.Time { return time.Unix(second+1, 0) }
	s := &objectStore{path: "/v1/files", largest: 6}
	b.serve = s.serve
	for i := range 31 {
		s.objects = append(s.objects, storedObject{id: fmt.Sprint("file-", i), created: second, purpose: "batch"})
	}
	for _, id := range []string{"file-0", "file-30"} {
		if err := b.gateway.Owners.Claim(t.Context(), "w", "one", []stored.Listed{{ID: id, List: "files"}}, b.gateway.Now(), false); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := b.walk(t, s, url.Values{"before": {"file-0"}, "limit": {"2"}}, true); !slices.Equal(got, []string{"file-30"}) {
		t.Errorf("before file-0: %v", got)
	}
}

// tied returns how many requests the order of objects may take at most of which several were made within a second.
func tied(objects []storedObject) (n int) {
	count := make(map[int64]int)
	for _, o := range objects {
		count[o.created]++
	}
	for _, k := range count {
		if k > 1 {
			n += k * k
		}
	}
	return n
}

// One workspace that makes thousands of objects is nothing to the lists of another.
func TestAListIsNotRefusedBecauseOfOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shared(t)
	s := &objectStore{path: "/v1/files", largest: 100}
	b.serve = s.serve
	claim := func(workspace string, n int) {
		var listed []stored.Listed
		for range n {
			o := storedObject{id: fmt.Sprint("file-", len(s.objects)), created: int64(1000 + len(s.objects)), purpose: "batch"}
			s.objects = append(s.objects, o)
			listed = append(listed, stored.Listed{ID: o.id, List: "files", Created: o.created, Purpose: o.purpose})
		}
		if err := b.gateway.Owners.Claim(t.Context(), workspace, "one", listed, time.Unix(1000, 0), false); err != nil {
			t.Fatal(err)
		}
	}
	claim("ws", 1)
	claim("another", 6000)
	ids, most := b.walk(t, s, url.Values{}, false)
	if !slices.Equal(ids, []string{"file-0"}) || most > 3 {
		t.Errorf("the list has %v, after %d requests", ids, most)
	}
	claim("ws", 30)
	claim("another", 6000)
	ids, most = b.walk(t, s, url.Values{"purpose": {"batch"}}, false)
	if len(ids) != 31 || most > maxPages+maxObjects {
		t.Errorf("the list has %v, after at most %d requests", ids, most)
	}
	if ids, most = b.walk(t, s, url.Values{"purpose": {"assistants"}}, false); len(ids) > 0 || most > maxPages {
		t.Errorf("the list has %v, after %d requests", ids, most)
	}
}

// What a workspace uploads at once, in many threads, is listed in the provider's order, each once, even if the
// gateway noted it in another one.
func TestAListOfWhatWasMadeAtOnceEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shared(t)
	s := &objectStore{path: "/v1/files", largest: 100}
	b.serve = s.serve
	second := int64(1000)
	upload := func(n, inSecond int) (made []storedObject) {
		for i := range n {
			if i%inSecond == 0 {
				second++
			}
			made = append(made, storedObject{id: fmt.Sprint("file-", len(s.objects)+i), created: second, purpose: "batch"})
		}
		s.objects = append(s.objects, made...)
		return made
	}
	claim := func(workspace string, made []storedObject) {
		for i, o := range made {
			listed := []stored.Listed{{ID: o.id, List: "files", Created: o.created, Purpose: o.purpose}}
			if err := b.gateway.Owners.Claim(t.Context(), workspace, "one", listed, time.Unix(o.created, int64(i)), false); err != nil {
				t.Fatal(err)
			}
		}
	}
	claim("another", upload(300, 100))
	own := upload(64, 8)
	var want []string
	for _, o := range own {
		want = append(want, o.id)
	}
	noted := slices.Clone(own)
	mathrand.New(mathrand.NewPCG(3, 4)).Shuffle(len(noted), func(i, k int) { noted[i], noted[k] = noted[k], noted[i] })
	claim("ws", noted)
	claim("another", upload(480, 100))
	for _, limit := range []string{"", "1", "7", "20"} {
		for _, order := range []string{"asc", "desc"} {
			query := url.Values{"order": {order}}
			if limit != "" {
				query.Set("limit", limit)
			}
			expected := slices.Clone(want)
			if order == "desc" {
				slices.Reverse(expected)
			}
			if got, _ := b.walk(t, s, query, false); !slices.Equal(got, expected) {
				t.Errorf("%s, %s at a time: %v, want %v", order, limit, got, expected)
			}
		}
	}
}
