package main

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// A setup is one of the proxies that can be compared: a configuration of Caddy, or nginx.
type setup struct {
	name     string
	gateway  bool
	limits   bool // gw_ratelimit
	policies int  // rate limits that a call is held against, the first of which matches it
	limiter  bool // rate_limit, of another binary
	metrics  bool
	log      bool // the access log
}

const (
	plainName   = "plain"
	gatewayName = "gateway"
	otherName   = "other"
	nginxName   = "nginx"
	limiterName = "rate_limit"
)

// setups are the proxies by name. What a stage of the gateway costs is the difference
// between the gateway and the one without that stage; what a change costs, that between the
// gateway and the other one, which is another build; what a limit costs with the plugin rate_limit, that between
// plain Caddy and the one with it.
var setups = []setup{
	{name: plainName, metrics: true, log: true},
	{name: gatewayName, gateway: true, limits: true, policies: 4, metrics: true, log: true},
	{name: "no-policy", gateway: true, metrics: true, log: true},
	{name: "no-metrics", gateway: true, limits: true, policies: 4, log: true},
	{name: "no-access-log", gateway: true, limits: true, policies: 4, metrics: true},
	{name: "policies-0", gateway: true, limits: true, metrics: true, log: true},
	{name: "policies-1", gateway: true, limits: true, policies: 1, metrics: true, log: true},
	{name: "policies-10", gateway: true, limits: true, policies: 10, metrics: true, log: true},
	{name: "policies-100", gateway: true, limits: true, policies: 100, metrics: true, log: true},
	{name: limiterName, limiter: true, metrics: true, log: true},
	{name: otherName, gateway: true, limits: true, policies: 4, metrics: true, log: true},
	{name: nginxName, log: true},
}

func setupNames() []string {
	names := make([]string, len(setups))
	for i, s := range setups {
		names[i] = s.name
	}
	return names
}

// setupsOf returns the setups with these names, in the order of the names. There must be
// two of them, so that they can be compared.
func setupsOf(names []string) ([]setup, error) {
	var chosen []setup
	for i, name := range names {
		at := slices.Index(setupNames(), name)
		switch {
		case at < 0:
			return nil, fmt.Errorf("unknown proxy %q: expected some of %s", name, strings.Join(setupNames(), ", "))
		case slices.Contains(names[:i], name):
			return nil, fmt.Errorf("proxy %s is named twice", name)
		}
		chosen = append(chosen, setups[at])
	}
	if len(chosen) < 2 {
		return nil, fmt.Errorf("expected two proxies or more, of %s", strings.Join(setupNames(), ", "))
	}
	return chosen, nil
}

// caddyfile returns a configuration with a site for each address, and the given global
// options.
func caddyfile(p *process, s setup, options string, sites map[string]string) string {
	var b strings.Builder
	admin := "off"
	if p.admin != "" {
		admin = p.admin
	}
	if s.metrics {
		options += "metrics\n"
	}
	if s.log {
		options += fmt.Sprintf("log {\n\toutput file %s/access.log {\n\t\troll_disabled\n\t}\n}\n", p.home)
	}
	fmt.Fprintf(&b, "{\n\tadmin %s\n\tpersist_config off\n%s}\n", admin, indent(options))
	for address, site := range sites {
		if s.log {
			site = "log\n" + site
		}
		fmt.Fprintf(&b, "\nhttp://%s {\n\tbind 127.0.0.1\n%s}\n", address, indent(site))
	}
	return b.String()
}

func indent(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString("\t" + line)
	}
	return b.String()
}

const reverseProxy = `reverse_proxy %s {
	transport http {
		keepalive_idle_conns_per_host 256
		compression off
	}
}
`

// rateLimit is a limit of the plugin github.com/mholt/caddy-ratelimit that refuses no call of a run: as of a policy
// that groups by keys, for a day.
const rateLimit = `rate_limit {
	zone bench {
		key {http.request.header.Authorization}
		window 24h
		events 1000000
	}
}
`

// plainSites are reverse proxies, each at its own address, so that no matcher is needed.
func (l *lab) plainSites(p *process, s setup) map[string]string {
	sites := make(map[string]string)
	for _, upstream := range upstreams {
		site := fmt.Sprintf(reverseProxy, l.upstreams[upstream])
		if s.limiter { // in a route, since Caddy does not know its place
			site = "route {\n" + indent(rateLimit+site) + "}\n"
		}
		sites[p.addresses[upstream]] = site
	}
	return sites
}

// gatewayOptions has the upstreams as providers, and one that does not listen.
func (l *lab) gatewayOptions(adminKey string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "gw {\n\tadmin_key %s\n", adminKey)
	for _, upstream := range append([]string{dead}, upstreams...) {
		kind := "openai"
		if upstream == messages {
			kind = "anthropic"
		}
		fmt.Fprintf(&b, "\tprovider %s {\n\t\ttype %s\n\t\tbase_url http://%s/v1\n\t\tapi_key bench-provider-key\n\t}\n", upstream, kind, l.upstreams[upstream])
	}
	b.WriteString("}\n")
	return b.String()
}

func gatewaySite(s setup) string {
	if s.limits {
		return "gw_admin\ngw_ratelimit\ngw_inference\n"
	}
	return "gw_admin\ngw_inference\n"
}

// nginx returns nginx's configuration: the floor of what a proxy costs.
func (l *lab) nginx(p *process) string {
	var b strings.Builder
	fmt.Fprintf(&b, `daemon off;
master_process off;
pid %[1]s/pid;
error_log stderr;
events { worker_connections 4096; }
http {
	access_log %[1]s/access.log combined buffer=64k flush=1s;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	client_max_body_size 64m;
	client_body_buffer_size 4m;
	proxy_http_version 1.1;
	proxy_set_header Connection "";
	proxy_buffering off;
	keepalive_requests 1000000000;
`, p.home)
	for _, upstream := range upstreams {
		fmt.Fprintf(&b, "\tupstream %s { server %s; keepalive 256; keepalive_requests 1000000000; }\n", upstream, l.upstreams[upstream])
		fmt.Fprintf(&b, "\tserver { listen %s; location / { proxy_pass http://%s; } }\n", p.addresses[upstream], upstream)
	}
	b.WriteString("}\n")
	return b.String()
}

// nginxBinary finds nginx.
func nginxBinary() (string, error) {
	path, err := exec.LookPath("nginx")
	if err != nil {
		return "", fmt.Errorf("%w; install it, or leave nginx out of -proxies", err)
	}
	return path, nil
}
