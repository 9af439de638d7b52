package external

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"

	"github.com/caddy-gw/gateway/guardrails"
)

const (
	maxImage       = 20 << 20 // bytes, as many as OpenAI takes
	maxImages      = 50       // of a call
	maxAllImages   = 32 << 20 // bytes, of all images of a call together
	imagesAtOnce   = 4
	imageRedirects = 3

	// maxImageDepth is how deep the parts with images are in messages or an input, at most: one in what a tool
	// returned is 6 deep. Each level reads what is below it once more.
	maxImageDepth = 8
)

var inlineImages = guardrails.Kind{
	Phases: guardrails.Calls,
	ID:     "default.inlineImageUrls", Doc: "always, after images whose URLs a call has were fetched and put into it; a mutator",
	Parameters: []guardrails.Parameter{
		{Name: "providers", Type: guardrails.Texts, Doc: "only calls to these providers are changed, such as bedrock; none: all are"},
		{Name: "maxSizeBytes", Type: guardrails.Integer, Default: "20971520", Min: 1, Max: maxImage, Doc: "the size of an image"},
		{Name: "timeoutMs", Type: guardrails.Integer, Default: "30000", Min: 1, Max: float64(maxTimeout / time.Millisecond), Doc: "milliseconds that each image may take"},
	},
	New: func(p *guardrails.Parameters) (guardrails.Check, error) {
		return &imagesInlined{providers: p.Texts("providers"), size: p.Integer("maxSizeBytes"), timeout: time.Duration(p.Integer("timeoutMs")) * time.Millisecond}, nil
	},
}

// An imagesInlined check replaces URLs of images by the images.
type imagesInlined struct {
	providers []string
	size      int // of an image, in bytes
	timeout   time.Duration
}

// Waits says that the check waits for others.
func (*imagesInlined) Waits() {}

// Transforms says that the check changes what it judges.
func (*imagesInlined) Transforms() {}

// Judge fetches the images. If one cannot be had, that is an error, and the body stays as it is.
func (c *imagesInlined) Judge(ctx context.Context, s *guardrails.Subject) (guardrails.Result, error) {
	switch {
	case s.Phase != guardrails.Input:
		return guardrails.Result{}, errors.New("only calls have images whose URLs can be replaced")
	case s.Services == nil:
		return guardrails.Result{}, errServices
	}
	result := guardrails.Result{Verdict: true}
	if len(c.providers) > 0 && !slices.Contains(c.providers, s.Provider) {
		result.Data = map[string]any{"images": 0, "explanation": "Calls to the provider are not changed."}
		return result, nil
	}
	places := imagesOf(s.Request)
	switch {
	case len(places) == 0:
		result.Data = map[string]any{"images": 0, "explanation": "The call has no URLs of images."}
		return result, nil
	case len(places) > maxImages:
		return guardrails.Result{}, guardrails.Unreadable(fmt.Sprintf("there are more than %d URLs of images", maxImages))
	}
	images, release, err := c.fetchAll(ctx, s.Services, places)
	defer release()
	if err != nil {
		return guardrails.Result{}, err
	}
	size := len(s.Request)
	for _, p := range places {
		size += base64.StdEncoding.EncodedLen(len(images[p.url].data)) + 64
	}
	free, err := s.Services.Reserve(size) // whoever takes the body reserves it too
	if err != nil {
		return guardrails.Result{}, err
	}
	defer free()
	body, at := make([]byte, 0, size), 0
	for _, p := range places {
		body = append(body, s.Request[at:p.start]...)
		body = p.append(body, images[p.url])
		at = p.end
	}
	body = append(body, s.Request[at:]...)
	result.Body = body
	result.Data = map[string]any{"images": len(places), "explanation": "The images were put into the call."}
	return result, nil
}

// fetchAll fetches the images of places, by their URLs. release frees their memory.
func (c *imagesInlined) fetchAll(ctx context.Context, services guardrails.Services, places []imagePlace) (images map[string]image, release func(), err error) {
	uses := make(map[string]int)
	for _, p := range places {
		uses[p.url]++
	}
	urls := slices.Collect(maps.Keys(uses))
	got := make([]image, len(urls))
	var all atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(imagesAtOnce)
	for i, u := range urls {
		group.Go(func() (err error) {
			if err := ctx.Err(); err != nil {
				return err
			}
			got[i], err = c.fetch(ctx, services, u)
			if err == nil && all.Add(int64(uses[u]*len(got[i].data))) > maxAllImages { // no more are fetched then
				err = guardrails.Unreadable(fmt.Sprintf("its images have more than %d MiB together", maxAllImages>>20))
			}
			return err
		})
	}
	err = group.Wait()
	images = make(map[string]image, len(urls))
	for i, u := range urls {
		images[u] = got[i]
	}
	return images, func() {
		for i := range got {
			if got[i].answer != nil {
				got[i].answer.Release()
			}
		}
	}, err
}

// An image is one that was fetched.
type image struct {
	media  string
	data   []byte
	answer *guardrails.Answer // to release
}

// fetch fetches an image. Its media type is what its first bytes say, whatever its header does.
func (c *imagesInlined) fetch(ctx context.Context, services guardrails.Services, raw string) (image, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	at, err := url.Parse(raw)
	for redirects := 0; ; redirects++ {
		if err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" || at.User != nil {
			return image{}, errors.New("the URL of an image is none that it can be fetched from")
		}
		at.Fragment, at.RawFragment = "", ""
		a, err := services.Send(ctx, &guardrails.Request{
			Vendor: inlineImages.ID, Public: true, Method: http.MethodGet, URL: at, Header: http.Header{"Accept": {"image/*"}}, MaxAnswer: c.size,
		})
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return image{}, fmt.Errorf("an image did not come within %v", c.timeout)
		case err != nil:
			return image{}, fmt.Errorf("an image could not be fetched: %w", err)
		}
		if a.Status >= 300 && a.Status < 400 && a.Location != "" && redirects < imageRedirects {
			at, err = at.Parse(a.Location)
			a.Release()
			if err != nil {
				return image{}, errors.New("the URL of an image redirects to what is no URL")
			}
			continue
		}
		media := http.DetectContentType(a.Body)
		switch {
		case a.Status != http.StatusOK:
			err = fmt.Errorf("an image could not be fetched: its host answered with status %d", a.Status)
		case !strings.HasPrefix(media, "image/"):
			err = errors.New("the URL of an image leads to what is no image")
		}
		if err != nil {
			a.Release()
			return image{}, err
		}
		return image{media, a.Body, a}, nil
	}
}

// An imagePlace is where a body has the URL of an image.
type imagePlace struct {
	start, end int // of what is replaced
	url        string
	source     bool // it is the source of a block of Messages; otherwise the URL
}

// append appends an image as its place has it.
func (p *imagePlace) append(b []byte, i image) []byte {
	if p.source {
		b = append(b, `{"type":"base64","media_type":"`...)
		b = append(b, i.media...)
		b = append(b, `","data":"`...)
		b = base64.StdEncoding.AppendEncode(b, i.data)
		return append(b, `"}`...)
	}
	b = append(b, `"data:`...)
	b = append(b, i.media...)
	b = append(b, ";base64,"...)
	b = base64.StdEncoding.AppendEncode(b, i.data)
	return append(b, '"')
}

// imagesOf returns where a body has URLs of images, in its order: in parts of the messages or the input
// of the dialects that callers speak.
func imagesOf(body []byte) (places []imagePlace) {
	var visit func(v gjson.Result, depth int)
	visit = func(v gjson.Result, depth int) {
		if depth > maxImageDepth {
			return
		}
		if v.IsObject() {
			p, ok := imageOf(v)
			if ok {
				places = append(places, p)
			}
			if ok || v.Get("type").Str == "tool_use" { // whose input is the tool's own
				return
			}
		}
		if v.IsObject() || v.IsArray() {
			v.ForEach(func(_, child gjson.Result) bool {
				if child.Type == gjson.JSON {
					visit(child, depth+1)
				}
				return true
			})
		}
	}
	for _, name := range [...]string{"messages", "input"} {
		if v := gjson.GetBytes(body, name); v.IsArray() {
			visit(v, 1)
		}
	}
	slices.SortFunc(places, func(a, b imagePlace) int { return a.start - b.start })
	return places
}

// imageOf is the place of the URL of a part; not ok: the part has none.
func imageOf(part gjson.Result) (p imagePlace, ok bool) {
	var value gjson.Result
	switch part.Get("type").Str {
	case "image_url": // of a chat
		value = part.Get("image_url.url")
	case "input_image": // of a response
		value = part.Get("image_url")
	case "image": // of Messages
		source := part.Get("source")
		if source.Get("type").Str != "url" {
			return p, false
		}
		p.url, p.source, value = source.Get("url").Str, true, source
	}
	if !p.source {
		p.url = value.Str
	}
	p.start = value.Index
	p.end = p.start + len(value.Raw)
	scheme, _, _ := strings.Cut(p.url, "://")
	return p, value.Index > part.Index && (strings.EqualFold(scheme, "https") || strings.EqualFold(scheme, "http"))
}
