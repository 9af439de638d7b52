package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"reflect"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/app"
	"github.com/caddy-gw/gateway/storage"
)

// A server is a gateway: one that runs, or the store of one that does not.
type server struct {
	remote  *http.Client // nil: the store is open here
	origin  string       // of the admin endpoint, which only accepts its own
	local   *app.Runtime
	release func() error // of the store
}

// connect finds the server that the flags of a command name.
func connect(cmd *cobra.Command) (*server, error) {
	flag := func(name string) string {
		value, _ := cmd.Flags().GetString(name) // the flag is there
		return value
	}
	address, explicit := flag("address"), flag("address") != ""
	gw := json.RawMessage("{}")
	if !explicit {
		raw, _, _, err := caddycmd.LoadConfig(flag("config"), flag("adapter"))
		if err != nil {
			return nil, err
		}
		var config struct {
			Admin *struct {
				Disabled bool   `json:"disabled"`
				Listen   string `json:"listen"`
			} `json:"admin"`
			Apps map[string]json.RawMessage `json:"apps"`
		}
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &config); err != nil {
				return nil, fmt.Errorf("the configuration: %w", err)
			}
			var there bool
			if gw, there = config.Apps["gw"]; !there {
				return nil, errors.New("the configuration has no gw app; name another one with --config, or the server with --address")
			}
		}
		switch {
		case config.Admin != nil && config.Admin.Disabled:
		case config.Admin != nil && config.Admin.Listen != "":
			address = config.Admin.Listen
		default:
			address = caddy.DefaultAdminListen
		}
	}
	if address != "" {
		s, err := dial(cmd.Context(), address)
		if err == nil && !explicit {
			err = s.hasStoreOf(cmd.Context(), gw, address)
		}
		if err == nil || explicit || !errors.Is(err, errNotListening) {
			return s, err
		}
	}
	rt, release, err := app.Offline(cmd.Context(), gw)
	if errors.Is(err, storage.ErrLocked) {
		at := ""
		if address != "" {
			at = " at " + address
		}
		return nil, fmt.Errorf("no server answers%s, and another process has the store open: if that is the server, name its admin endpoint with --address, or its configuration with --config: %w", at, err)
	}
	if err != nil {
		return nil, fmt.Errorf("no server answers, and its store cannot be opened: %w", err)
	}
	return &server{local: rt, release: release}, nil
}

// errNotListening means that no process listens at an address.
var errNotListening = errors.New("no process listens")

// dial connects to an admin endpoint.
func dial(ctx context.Context, address string) (*server, error) {
	parsed, err := caddy.ParseNetworkAddress(address)
	if err != nil || parsed.PortRangeSize() > 1 {
		return nil, fmt.Errorf("--address %s: expected the address of an admin endpoint, such as localhost:2019", address)
	}
	host := parsed.JoinHostPort(0)
	origin := "http://" + host
	if parsed.IsUnixNetwork() {
		host, _, _ = strings.Cut(parsed.Host, "|") // permissions follow
		origin = "http://127.0.0.1"
	}
	connect := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, parsed.Network, host)
	}
	conn, err := connect(ctx)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w at %s: %w", errNotListening, address, err)
	}
	if err != nil {
		return nil, err
	}
	_ = conn.Close() // it has not been used
	return &server{origin: origin, remote: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return connect(ctx) },
	}}, release: func() error { return nil }}, nil
}

func (s *server) close() error { return s.release() }

// hasStoreOf returns an error if the running server has another store than a configuration of the gw app: what is said of one store
// must not be taken for what is true of another.
func (s *server) hasStoreOf(ctx context.Context, gw json.RawMessage, address string) error {
	running, err := s.do(ctx, http.MethodGet, "/config/apps/gw", nil)
	if err != nil {
		return fmt.Errorf("the configuration of the server at %s: %w", address, err)
	}
	if a, b := running.Get("storage").Value(), gjson.GetBytes(gw, "storage").Value(); !reflect.DeepEqual(a, b) {
		return fmt.Errorf("the server at %s has another store than the configuration: name the server alone with --address, or, to open the store of the configuration, stop the server or give the configuration another address of the admin endpoint", address)
	}
	return nil
}

// send sends a request, whose path begins with /gw/ unless the server is running, and writes the answer to w. The error of
// an answer that is one has its message.
func (s *server) send(ctx context.Context, method, path string, body []byte, w io.Writer) error {
	r, err := http.NewRequestWithContext(ctx, method, s.origin+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if s.remote != nil {
		r.Header.Set("Origin", s.origin)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "caddy gw")
	if s.remote == nil {
		answer := &app.Answer{To: w}
		s.local.Operator().ServeHTTP(answer, r)
		return answer.Err()
	}
	res, err := s.remote.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= http.StatusBadRequest {
		text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
		if err != nil {
			return err
		}
		return app.Refusal(res.StatusCode, text)
	}
	_, err = io.Copy(w, res.Body)
	return err
}

// do sends a request with a JSON body, if there is one, and returns the answer.
func (s *server) do(ctx context.Context, method, path string, body any) (gjson.Result, error) {
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return gjson.Result{}, err
		}
	}
	var out bytes.Buffer
	if err := s.send(ctx, method, path, raw, &out); err != nil {
		return gjson.Result{}, err
	}
	return gjson.ParseBytes(out.Bytes()), nil
}

// list returns all items of a list of the control plane.
func (s *server) list(ctx context.Context, path string) (items []gjson.Result, err error) {
	const size = 1000
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	for page := 0; ; page++ {
		answer, err := s.do(ctx, http.MethodGet, fmt.Sprintf("/gw/v1%s%spage_size=%d&current_page=%d", path, separator, size, page), nil)
		if err != nil {
			return nil, err
		}
		data := answer.Get("data").Array()
		items = append(items, data...)
		if len(data) < size {
			return items, nil
		}
	}
}

// printJSON prints a JSON text with indents.
func printJSON(cmd *cobra.Command, raw string) error {
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(raw), "", "  "); err != nil {
		return err
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), out.String())
	return err
}

func wantsJSON(cmd *cobra.Command) bool {
	value, _ := cmd.Flags().GetBool("json") // the flag is there
	return value
}

// say prints a line of the result.
func say(cmd *cobra.Command, format string, args ...any) error {
	_, err := fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...)
	return err
}

// printItems prints items as JSON, or as a table with a column for each path.
func printItems(cmd *cobra.Command, items []gjson.Result, columns ...string) error {
	if wantsJSON(cmd) {
		raw := make([]string, len(items))
		for i, item := range items {
			raw[i] = item.Raw
		}
		return printJSON(cmd, "["+strings.Join(raw, ",")+"]")
	}
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, strings.ToUpper(strings.ReplaceAll(strings.Join(columns, "\t"), "_", " ")))
	for _, item := range items {
		cells := make([]string, len(columns))
		for i, column := range columns {
			cells[i] = item.Get(column).String()
			if cells[i] == "" {
				cells[i] = "-"
			}
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}
