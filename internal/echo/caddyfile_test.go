package echo

import (
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

func TestUnmarshalCaddyfile(t *testing.T) {
	for _, test := range []struct {
		input string
		want  Echo
		err   string // part of the error; empty: no error
	}{
		{input: "gw_echo"},
		{input: "gw_echo {\n}"},
		{input: "gw_echo {\n\tdelay 50ms\n}", want: Echo{Delay: caddy.Duration(50 * time.Millisecond)}},
		{
			input: "gw_echo {\n\tdelay 1s\n\tchunk_delay 1d\n}",
			want:  Echo{Delay: caddy.Duration(time.Second), ChunkDelay: caddy.Duration(24 * time.Hour)},
		},
		{input: "gw_echo 5s", err: "Testfile:1"},
		{input: "gw_echo {\n\tdelay\n}", err: "Testfile:2"},
		{input: "gw_echo {\n\tdelay 1s 2s\n}", err: "Testfile:2"},
		{input: "gw_echo {\n\tdelay soon\n}", err: "parsing delay"},
		{input: "gw_echo {\n\tdelay soon\n}", err: "Testfile:2"},
		{input: "gw_echo {\n\tchunk_delay -1s\n}", err: "chunk_delay must not be negative"},
		{input: "gw_echo {\n\tdelay 1s\n\tdelay 1s\n}", err: "delay is given twice"},
		{input: "gw_echo {\n\tdelay 1s\n\tdelay 1s\n}", err: "Testfile:3"},
		{input: "gw_echo {\n\tspeed 3\n}", err: `unrecognized subdirective "speed"`},
		{input: "gw_echo {\n\tdelay 1s {\n\t}\n}", err: "Testfile:2"},
	} {
		var got Echo
		err := got.UnmarshalCaddyfile(caddyfile.NewTestDispenser(test.input))
		switch {
		case test.err == "" && err != nil:
			t.Errorf("%q: %v", test.input, err)
		case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("%q: error %v, want one with %q", test.input, err, test.err)
		case test.err == "" && got != test.want:
			t.Errorf("%q: %+v, want %+v", test.input, got, test.want)
		}
	}
}
