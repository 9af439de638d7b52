package app

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"

	"github.com/caddy-gw/gateway/internal/reqlog"
)

// Logs configures the request log.
type Logs struct {
	// How long records of calls are kept. Default: 30 days.
	Retention caddy.Duration `json:"retention,omitempty"`

	// What all records together may take, in bytes, at least 1 MiB; the oldest make room.
	// Default: 1 GiB.
	Size int64 `json:"size,omitempty"`

	// What may wait in memory to be written, in bytes, at least 1 MiB. What finds no room
	// is lost and counted, bodies before records. Default: 32 MiB.
	QueueSize int64 `json:"queue_size,omitempty"`

	// Whether bodies of requests and answers are kept too, in clear. A workspace may
	// refuse it (settings.debug_log), and so may a call (x-gw-debug: false).
	// Default: false.
	Bodies bool `json:"bodies,omitempty"`

	// What is kept of each body, in bytes, at most 4 MiB. Default: 64 KiB.
	MaxBody int64 `json:"max_body,omitempty"`

	// How long bodies are kept. Default: 7 days, or as long as records where that is less.
	BodyRetention caddy.Duration `json:"body_retention,omitempty"`

	// What all bodies together may take, in bytes, at least 1 MiB; the oldest make room.
	// Default: 1 GiB.
	BodySize int64 `json:"body_size,omitempty"`
}

// settings returns the settings of the log, with defaults for options that are not set.
func (l *Logs) settings() (reqlog.Settings, error) {
	if l == nil {
		l = new(Logs)
	}
	s := reqlog.Settings{
		Retention: time.Duration(l.Retention), Size: l.Size, Queue: l.QueueSize,
		Bodies: l.Bodies, MaxBody: l.MaxBody, BodyRetention: time.Duration(l.BodyRetention), BodySize: l.BodySize,
	}
	for _, size := range []struct {
		name        string
		value       *int64
		other       int64
		least, most int64
	}{
		{"size", &s.Size, reqlog.DefaultSize, reqlog.MinSize, math.MaxInt64},
		{"queue_size", &s.Queue, reqlog.DefaultQueue, reqlog.MinQueue, math.MaxInt64},
		{"max_body", &s.MaxBody, reqlog.DefaultMaxBody, 1, reqlog.MaxMaxBody},
		{"body_size", &s.BodySize, reqlog.DefaultBodySize, reqlog.MinSize, math.MaxInt64},
	} {
		switch {
		case *size.value == 0:
			*size.value = size.other
		case *size.value < size.least || *size.value > size.most:
			most := ""
			if size.most < math.MaxInt64 {
				most = " and at most " + humanize.IBytes(uint64(size.most))
			}
			return s, fmt.Errorf("logs: %s: expected at least %s%s", size.name, humanize.IBytes(uint64(size.least)), most)
		}
	}
	if s.Retention < 0 || s.BodyRetention < 0 {
		return s, errors.New("logs: retention: expected a positive duration")
	}
	if s.Retention == 0 {
		s.Retention = reqlog.DefaultRetention
	}
	if s.BodyRetention == 0 {
		s.BodyRetention = min(reqlog.DefaultBodyRetention, s.Retention)
	}
	if s.BodyRetention > s.Retention {
		return s, errors.New("logs: body_retention: expected no more than retention, because without its record no body is found")
	}
	return s, nil
}

func (l *Logs) unmarshal(d *caddyfile.Dispenser) error {
	return eachOnce(d, func(name string) error {
		value := ""
		var err error
		switch name {
		case "retention":
			err = duration(d, &l.Retention)
		case "body_retention":
			err = duration(d, &l.BodyRetention)
		case "size":
			err = byteSize(d, &l.Size)
		case "queue_size":
			err = byteSize(d, &l.QueueSize)
		case "max_body":
			err = byteSize(d, &l.MaxBody)
		case "body_size":
			err = byteSize(d, &l.BodySize)
		case "bodies":
			if err = one(d, &value); err == nil && value != "on" && value != "off" {
				err = d.Errf("bodies: expected on or off, got %q", value)
			}
			l.Bodies = value == "on"
		default:
			return d.Errf("unrecognized subdirective %q", name)
		}
		return err
	})
}

// duration parses the single argument of a subdirective, a positive duration, which may be
// in days.
func duration(d *caddyfile.Dispenser, to *caddy.Duration) error {
	name, value := d.Val(), ""
	if err := one(d, &value); err != nil {
		return err
	}
	parsed, err := caddy.ParseDuration(value)
	if err != nil || parsed <= 0 {
		return d.Errf("%s: expected a duration such as 30d, got %q", name, value)
	}
	*to = caddy.Duration(parsed)
	return nil
}

// byteSize parses the single argument of a subdirective, a size.
func byteSize(d *caddyfile.Dispenser, to *int64) error {
	name, value := d.Val(), ""
	if err := one(d, &value); err != nil {
		return err
	}
	n, ok := parseSize(value)
	if !ok {
		return d.Errf("%s: expected a size such as 256MiB, got %q", name, value)
	}
	*to = n
	return nil
}

// parseSize parses a positive size in bytes.
func parseSize(value string) (int64, bool) {
	n, err := humanize.ParseBytes(value)
	return int64(n), err == nil && n > 0 && n <= math.MaxInt64
}
