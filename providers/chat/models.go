package chat

import "github.com/caddy-gw/gateway/providers/jsonscan"

// A Model is a row of a list of models.
type Model struct {
	ID      string // "": it is left out
	Created int64  // Unix seconds; 0: unknown
	Owner   string
}

// AppendModels appends a provider's list of models in OpenAI's form. list is the member of the body
// that has them, and read reads each of them.
func AppendModels(dst, body []byte, list string, read func(r *jsonscan.Reader) Model) ([]byte, error) {
	b := jsonscan.Builder(dst)
	b.Open('{')
	b.Key("object").Text("list")
	b.Key("data").Open('[')
	r := jsonscan.NewReader(body)
	r.Object(func(key jsonscan.Key) {
		if !key.Is(list) {
			return
		}
		r.Array(func() {
			m := read(r)
			if m.ID == "" {
				return
			}
			b.Open('{')
			b.Key("id").Text(m.ID)
			b.Key("object").Text("model")
			b.Key("created").Int(m.Created)
			b.Key("owned_by").Text(m.Owner)
			b.Close('}')
		})
	})
	b.Close(']')
	b.Close('}')
	return b, r.Err()
}
