package reqlog

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/storetest"
)

// cpu returns the CPU time that the process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// sample returns a typical record.
func sample(i int, at time.Time) *Record {
	pick := mathrand.New(mathrand.NewPCG(1, uint64(i)))
	r := &Record{
		TraceID: fmt.Sprintf("0198d4f0-1234-7abc-8def-%012x", i), At: at, DurationMS: 812.345, FirstByteMS: 200.25,
		OrganisationID: "0198d4f0-1234-7abc-8def-0123456789ab", WorkspaceID: fmt.Sprintf("workspace-%d", pick.IntN(4)), KeyID: fmt.Sprintf("key-%d", pick.IntN(50)),
		Endpoint: "chatComplete", Method: "POST", Path: "/v1/chat/completions", Provider: "openai-prod", Model: fmt.Sprintf("model-%d", pick.IntN(8)),
		Stream: true, Status: 200, Attempts: 1, LastUsed: "config", UsageKnown: true, PromptTokens: 1234, CompletionTokens: 321, CacheStatus: "DISABLED",
	}
	if pick.IntN(100) == 0 {
		r.Status, r.Failure = 500, "the provider's stream broke off: unexpected EOF"
	}
	if pick.IntN(10) == 0 {
		r.Metadata = json.RawMessage(fmt.Sprintf(`{"_user":"user-%d","env":"prod"}`, pick.IntN(10000)))
	}
	return r
}

func benchLog(b testing.TB) *Log {
	l, err := Open(context.Background(), storetest.OpenDB(b), Options{Now: time.Now, Random: rand.Reader, Logger: zap.NewNop()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(l.Close)
	return l
}

// waitFor waits until the queue is smaller than a number of bytes.
func waitFor(l *Log, bytes int64) {
	for {
		l.queue.mu.Lock()
		held := l.queue.calls.bytes
		l.queue.mu.Unlock()
		if held < bytes {
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// BenchmarkWrite measures the CPU time for a record until it is stored, which calls
// compete with.
func BenchmarkWrite(b *testing.B) {
	for _, c := range []struct {
		name     string
		metadata string
		body     int
		pause    int // records between two writes; 0: full blocks
	}{
		{name: "full blocks"},
		{name: "with metadata", metadata: `{"_user":"user-%d","env":"prod","session":"%d"}`},
		{name: "small blocks", pause: 10},
		{name: "with bodies of 2 KiB", body: 2 << 10},
	} {
		b.Run(c.name, func(b *testing.B) {
			l := benchLog(b)
			l.Configure(Settings{Retention: time.Hour, Size: 1 << 30, Queue: 1 << 30, Bodies: true, MaxBody: 64 << 10, BodyRetention: time.Hour, BodySize: 1 << 30})
			at := time.Now()
			samples := make([]*Record, 4096)
			for i := range samples {
				samples[i] = sample(i, at)
				if c.metadata != "" {
					samples[i].Metadata = json.RawMessage(fmt.Sprintf(c.metadata, i%1000, i))
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			before := cpu()
			for i := range b.N {
				r := *samples[i%len(samples)]
				if c.body > 0 {
					r.Request = &Body{Size: int64(c.body), Bytes: make([]byte, c.body)}
				}
				l.Add(&r)
				if c.pause > 0 && i%c.pause == 0 {
					signal(l.queue.full)
					waitFor(l, 1)
				} else if i%1024 == 0 {
					waitFor(l, 8<<20)
				}
			}
			l.Close()
			b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/record")
			b.StopTimer()
			if l.Lost() > 0 {
				b.Errorf("%d were lost", l.Lost())
			}
		})
	}
}

// sampleUser returns a user with records among the first n.
func sampleUser(n int) string {
	for i := n / 2; ; i++ {
		if r := sample(i, epoch); r.Metadata != nil {
			return gjson.GetBytes(r.Metadata, "_user").Str
		}
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2].Round(time.Microsecond)
}
