package credentials

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A HostError says why a custom host was refused, because of its URL or of the address that
// it resolved to.
type HostError struct{ Why string }

func (e *HostError) Error() string { return "custom host refused: " + e.Why }

// A HostGuard decides which hosts a caller may name in x-gw-custom-host, and which
// addresses may be dialed for them. SECURITY.md describes the rules. The zero HostGuard
// trusts no host.
type HostGuard struct {
	exact    map[string]bool
	suffixes []string // ".example.com", of *.example.com
	admin    []uint16 // ports of Caddy's admin endpoint
}

const (
	maxHostURL = 2048
	maxLabels  = 10
)

// Ports of services that are not model APIs, and are typical targets of server-side request
// forgery.
var refusedPorts = []uint16{
	7, 9, 19, 20, 21, 22, 23, 25, 53, 69, 110, 111, 135, 137, 138, 139, 143, 161, 389, 445, 465, 514, 587, 593,
	636, 873, 993, 995, 1433, 1521, 2049, 2181, 2375, 2376, 2379, 2380, 3306, 3389, 4194, 5432, 5672, 5984, 5985,
	5986, 6379, 6443, 8500, 9042, 9092, 9200, 9300, 10250, 10255, 11211, 15672, 26379, 27017, 27018, 50070,
}

// Names below these never leave a private network.
var internalDomains = []string{
	"localhost", "local", "internal", "intranet", "lan", "home", "corp", "private", "localdomain", "home.arpa",
	"onion", "consul", "svc", "cluster.local",
}

// Public names that resolve to an address that is part of the name.
var rebindingDomains = []string{
	"nip.io", "sslip.io", "xip.io", "localtest.me", "lvh.me", "vcap.me", "lacolhost.com", "yoogle.com",
	"rbndr.us", "1u.ms", "traefik.me", "backname.io", "local.gd", "nip.direct",
}

// Names of cloud metadata services.
var metadataHosts = []string{"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal", "metadata.tencentyun.com"}

// NewHostGuard returns a guard that trusts the given hosts: exact names or addresses, or
// *.domain for every name below domain. A trusted host may be private and use any port. An
// entry that could never take effect, or that names a cloud metadata service, is an error.
func NewHostGuard(trusted []string) (*HostGuard, error) {
	g := &HostGuard{exact: make(map[string]bool)}
	for _, entry := range trusted {
		host := strings.ToLower(strings.TrimSpace(entry))
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
		if host == "" {
			continue
		}
		addr, err := netip.ParseAddr(host)
		switch {
		case err == nil && isMetadataAddr(addr), slices.Contains(metadataHosts, host):
			return nil, fmt.Errorf("trusted custom host %q is a cloud metadata service, which can never be trusted", entry)
		case err == nil && addr.Zone() == "":
			g.exact[addr.Unmap().String()] = true
		case strings.HasPrefix(host, "*.") && listable(host[2:]):
			g.suffixes = append(g.suffixes, host[1:])
		case listable(host):
			g.exact[host] = true
		default:
			return nil, fmt.Errorf("trusted custom host %q is not a host: give a name, an address or *.domain, without scheme and port", entry)
		}
	}
	return g, nil
}

// Trusts reports whether the operator listed host, a name or address without port.
func (g *HostGuard) Trusts(host string) bool {
	if g == nil {
		return false
	}
	host = strings.ToLower(host)
	if addr, err := netip.ParseAddr(host); err == nil {
		host = addr.Unmap().String()
	}
	return g.exact[host] || slices.ContainsFunc(g.suffixes, func(s string) bool { return strings.HasSuffix(host, s) })
}

// Check parses a custom host, a base URL such as https://models.example.com/v1, and checks
// the URL. An error is a *HostError. The address is checked later, when it is dialed.
func (g *HostGuard) Check(raw string) (*url.URL, error) {
	switch {
	case len(raw) > maxHostURL:
		return nil, &HostError{fmt.Sprintf("longer than %d characters", maxHostURL)}
	case strings.ContainsAny(raw, "@%\\\t\r\n ") || !isASCII(raw):
		return nil, &HostError{"it may not hold credentials, spaces, backslashes, percent escapes or characters outside ASCII"}
	case strings.Contains(raw, "#"):
		return nil, &HostError{"it may not have a fragment"}
	case strings.Contains(raw, "?"):
		return nil, &HostError{"it may not have a query"}
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.Host == "" {
		return nil, &HostError{"not a URL such as https://models.example.com/v1"}
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, &HostError{"the scheme must be http or https"}
	}
	if slices.ContainsFunc(strings.Split(u.Path, "/"), func(s string) bool { return s == "." || s == ".." }) {
		return nil, &HostError{"the path may not hold . or .. segments"}
	}
	if u.Port() == "" && strings.HasSuffix(u.Host, ":") {
		return nil, &HostError{"the port is empty"}
	}
	host := strings.ToLower(u.Hostname())
	if slices.Contains(metadataHosts, host) {
		return nil, &HostError{"it is a cloud metadata service"}
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return nil, &HostError{"an address may not have a zone"}
		}
		if err := g.CheckAddr(host, addr); err != nil {
			return nil, err
		}
	} else if err := g.checkName(host); err != nil {
		return nil, err
	}
	if port := u.Port(); port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return nil, &HostError{"the port must be a number from 1 to 65535"}
		}
		if slices.Contains(refusedPorts, uint16(n)) && !g.Trusts(host) {
			return nil, &HostError{fmt.Sprintf("port %d belongs to another service", n)}
		}
	}
	return u, nil
}

func (g *HostGuard) checkName(host string) error {
	labels := strings.Split(host, ".")
	switch {
	case strings.HasSuffix(host, "."):
		return &HostError{"the host may not end in a dot"}
	case len(labels) > maxLabels:
		return &HostError{fmt.Sprintf("the host has more than %d labels", maxLabels)}
	case !validName(host):
		return &HostError{"not a valid host name"}
	case isNumeric(labels[len(labels)-1]):
		return &HostError{"write an IPv4 address as four decimal numbers"}
	case g.Trusts(host):
		return nil
	case strings.HasPrefix(host, "xn--") || strings.Contains(host, ".xn--"):
		return &HostError{"internationalised names are not accepted"}
	case len(labels) == 1:
		return &HostError{"a host without a domain is private"}
	case within(host, internalDomains):
		return &HostError{"the host belongs to a private network"}
	case within(host, rebindingDomains):
		return &HostError{"the host resolves to whatever address is written in it"}
	}
	return nil
}

// CheckAddr refuses addresses that a caller could use to reach into the operator's network.
// host is the requested name or address, and addr what it resolved to. A trusted host may
// resolve to a private address, but no host to a cloud metadata service. The error is a
// *HostError.
func (g *HostGuard) CheckAddr(host string, addr netip.Addr) error {
	switch {
	case isMetadataAddr(addr):
		return &HostError{"it is a cloud metadata service"}
	case !isPublic(addr) && !g.Trusts(host):
		return &HostError{"it is a private or reserved address, which only the operator can trust (trusted_custom_hosts)"}
	}
	return nil
}

// AdminPorts adds ports of Caddy's admin endpoint, which no host that a caller chose may
// lead to, trusted or not. It must be called before the guard is used.
func (g *HostGuard) AdminPorts(ports ...uint16) { g.admin = append(g.admin, ports...) }

// CheckDial is [HostGuard.CheckAddr] for a connection that is about to be made.
func (g *HostGuard) CheckDial(host string, to netip.AddrPort) error {
	if g != nil && slices.Contains(g.admin, to.Port()) && isOwn(to.Addr().Unmap()) {
		return &HostError{"it is Caddy's admin endpoint"}
	}
	return g.CheckAddr(host, to.Addr())
}

// isOwn reports whether an address is, or could be, this machine's.
func isOwn(addr netip.Addr) bool {
	if addr.IsLoopback() || addr.IsUnspecified() {
		return true
	}
	own, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(own, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr().Unmap().WithZone("") == addr.WithZone("")
	})
}

func listable(host string) bool {
	labels := strings.Split(host, ".")
	return validName(host) && len(labels) <= maxLabels && !isNumeric(labels[len(labels)-1])
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r > 0x7e })
}

func within(host string, domains []string) bool {
	return slices.ContainsFunc(domains, func(d string) bool { return host == d || strings.HasSuffix(host, "."+d) })
}

// isNumeric reports whether a lenient parser could read the last label as part of an IPv4
// address: 2130706433, 0x7f000001, 0177.1.
func isNumeric(label string) bool {
	if rest, ok := strings.CutPrefix(label, "0x"); ok {
		label = rest
		return !strings.ContainsFunc(label, func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) })
	}
	return !strings.ContainsFunc(label, func(r rune) bool { return r < '0' || r > '9' })
}

func validName(host string) bool {
	if host == "" || len(host) > 253 {
		return false
	}
	for _, label := range strings.Split(host, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}

// CustomHostError converts an error of the host guard, from checking or dialing a host.
func CustomHostError(err error) *Error {
	message := "Invalid custom host"
	var host *HostError
	if errors.As(err, &host) {
		message += ": " + host.Why
	}
	return &Error{Reason: BadCustomHost, Field: fieldCustomHost, Message: message, Err: err}
}
