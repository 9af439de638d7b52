package routing

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// largeBody is a chat of about n bytes.
func largeBody(n int) []byte {
	var b strings.Builder
	b.WriteString(`{"model":"gpt-4","temperature":0.7,"messages":[{"role":"system","content":"You are brief."}`)
	for b.Len() < n-300 {
		fmt.Fprintf(&b, `,{"role":"user","content":"%s"}`, strings.Repeat(`The quick \"brown\" fox jumps over the lazy dog.\n`, 20)[:min(900, n-b.Len()-200)/49*49])
	}
	b.WriteString(`],"stream":true,"logit_bias":{"50256":-100},"metadata":{"user":"u-12345","team":"platform"},"max_tokens":256}`)
	return []byte(b.String())
}

func BenchmarkApply(b *testing.B) {
	for name, config := range map[string]string{
		"one":      `{"override_params":{"model":"gpt-4o"}}`,
		"inside":   `{"override_params":{"metadata.team":"x"}}`,
		"made":     `{"override_params":{"stream_options.include_usage":true}}`,
		"five":     `{"override_params":{"model":"gpt-4o","temperature":0},"default_params":{"user":"u"},"drop_params":["logit_bias","top_p"]}`,
		"five in":  `{"override_params":{"model":"gpt-4o","metadata.team":"x","stream_options.include_usage":true},"default_params":{"metadata.site":"y"},"drop_params":["metadata.user"]}`,
		"message":  `{"override_params":{"messages[0].content":"x"}}`,
		"messages": `{"drop_params":["messages[*].name"]}`,
		"same":     `{"default_params":{"model":"x"}}`,
	} {
		for _, size := range []int{2 << 10, 200 << 10} {
			body := largeBody(size)
			if !json.Valid(body) {
				b.Fatal("bad body")
			}
			e := edit(b, config)
			b.Run(fmt.Sprintf("%s/%dKB", name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Apply(body, e); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkPlan(b *testing.B) {
	r := seeded()
	for name, config := range map[string]string{
		"leaf":        vk,
		"fallback":    `{"strategy":{"mode":"fallback"},"targets":[` + vk + `,` + vk + `,` + vk + `]}`,
		"loadbalance": `{"strategy":{"mode":"loadbalance"},"targets":[` + many(10, vk) + `]}`,
		"sticky":      `{"strategy":{"mode":"loadbalance","sticky":{"enabled":true,"hash_fields":["params.user"]}},"targets":[` + many(10, vk) + `]}`,
		"conditional": `{"strategy":{"mode":"conditional","default":"a","conditions":[{"query":{"params.max_tokens":{"$gt":1000}},"then":"b"},{"query":{"params.model":{"$regex":"^claude"}},"then":"b"}]},` + two + `}`,
	} {
		c := parse(b, config)
		for _, size := range []int{2 << 10, 200 << 10} {
			body := largeBody(size)
			b.Run(fmt.Sprintf("%s/%dKB", name, size>>10), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					p, err := c.Plan(Input{KeyID: "k", Version: "1", Now: noon, Body: body}, r)
					if err != nil {
						b.Fatal(err)
					}
					for ok := true; ok; {
						_, ok = p.Next(Outcome{Status: 500})
					}
				}
			})
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for name, config := range map[string]string{
		"2 targets":   `{"retry":{"attempts":3},"strategy":{"mode":"fallback","on_status_codes":[429,500]},` + two + `}`,
		"100 targets": `{"strategy":{"mode":"loadbalance"},"targets":[` + many(100, `{"name":"t%d","virtual_key":"k","weight":2,"override_params":{"model":"gpt-4o"}}`) + `]}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, faults := Parse([]byte(config), saved); len(faults) > 0 {
					b.Fatal(faults.Err())
				}
			}
		})
	}
}
