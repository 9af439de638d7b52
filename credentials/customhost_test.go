package credentials

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func guardOf(t testing.TB, trusted ...string) *HostGuard {
	t.Helper()
	g, err := NewHostGuard(trusted)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// refusedHosts are custom hosts that a guard which trusts nobody refuses.
var refusedHosts = map[string][]string{
	"not a URL of a host": {
		"", " ", "example.com", "example.com:443", "//example.com/v1", "/v1", "https:", "https:/", "https://", "https:///v1", "https:example.com",
		"https:/example.com", "https://:443", "https://:443/v1", "https://?x", "http", "://example.com", "https://[::1", "https://::1/", "https://[]/",
		"https://[example.com]/", "https://example.com:443:443/", "https://example.com:/v1", "https://example.com:", "https://[2606:4700::1111]:",
		"https://[2606:4700::1111]443", "https://a..b.com", "https://.example.com", "https://-a.example.com", "https://a-.example.com",
		"https://example.com,example.org", "https://exa$mple.com", "https://exa*mple.com", "https://*.example.com", "https://ex\"ample.com", "https://example.com;a",
		"https://" + strings.Repeat("a", 64) + ".com", "https://" + strings.Repeat("abc.", 70) + "com", "https://" + strings.Repeat(strings.Repeat("a", 50)+".", 6) + "com",
	},
	"scheme": {
		"ftp://example.com", "file:///etc/passwd", "gopher://example.com", "ws://example.com", "wss://example.com", "javascript://example.com",
		"unix:///run/x.sock", "data://example.com", "h2c://example.com", "https+unix://example.com", "dict://example.com:11211", "htt ps://example.com",
	},
	"credentials, @, %, backslashes, spaces, controls": {
		"https://user@example.com", "https://user:pass@example.com", "https://@example.com", "https://example.com@127.0.0.1", "https://example.com:443@10.0.0.1/",
		"https://example.com/@x", "https://127%2e0.0.1", "https://%6c%6f%63alhost", "https://example.com/%2e%2e/", "https://example.com/%", "https://example.com%00.org",
		"https://example.com\\@10.0.0.1", `https:\\example.com`, `https://example.com\v1`, "https://exa mple.com", " https://example.com", "https://example.com ",
		"https://example.com/a b", "https://example.com\t", "https://example.com/\r\nHost: x", "https://example.com\n", "https://example.com/\x00", "https://example.com/\x7f",
		"\x01https://example.com", "https://[fe80::1%25eth0]/", "https://[fe80::1%eth0]/",
	},
	"characters outside ASCII": {
		"https://exämple.com", "https://еxample.com", "https://１２７.0.0.1", "https://①②⑦.⓪.⓪.①", "https://127。0。0。1", "https://example。com", "https://example.com/ü",
		"https://example.com\u200b", "https://ⓛocalhost", "https://exam\u00adple.com", "https://localhoſt", "https://example.com/\u2028", "https://\xff.com",
	},
	"punycode": {
		"https://xn--exmple-cua.com", "https://api.xn--exmple-cua.com", "https://XN--exmple-cua.com", "https://example.xn--p1ai", "https://a.Xn--b.com",
	},
	"fragment and query": {
		"https://example.com#", "https://example.com/#x", "https://example.com/v1#@10.0.0.1", "https://example.com?", "https://example.com/?a=b", "https://example.com/v1?",
	},
	"trailing dot": {
		"https://example.com.", "https://example.com.:443", "https://localhost.", "https://127.0.0.1.", "https://metadata.google.internal.", "https://example.com../v1",
	},
	"dot segments": {
		"https://example.com/..", "https://example.com/../", "https://example.com/v1/../../", "https://example.com/./v1", "https://example.com/v1/.", "https://example.com/a/b/..",
	},
	"labels and length": {
		"https://a.b.c.d.e.f.g.h.i.j.com", "https://" + strings.Repeat("a.", 30) + "com", "https://example.com/" + strings.Repeat("a", 2048),
	},
	"ports": {
		"https://example.com:22", "http://example.com:25", "https://example.com:445", "https://example.com:3306", "https://example.com:5432", "https://example.com:6379",
		"https://example.com:6443", "https://example.com:9200", "https://example.com:27017", "https://example.com:0", "https://example.com:65536", "https://example.com:99999",
		"https://example.com:18446744073709551617", "https://example.com:00022", "https://example.com:0x16", "https://example.com:-1", "https://example.com:+80",
		"https://example.com:http", "https://example.com:11211", "https://example.com:2375", "https://example.com:10250", "https://example.com:2379", "https://8.8.8.8:22",
		"https://[2606:4700:4700::1111]:6379", "https://example.com:389", "https://example.com:3389", "https://example.com:1433", "https://example.com:9300",
	},
	"loopback": {
		"http://127.0.0.1", "http://127.0.0.1:8080/v1", "http://127.1.2.3", "http://127.255.255.255", "http://[::1]", "http://[::1]:8080", "http://[0:0:0:0:0:0:0:1]",
		"http://[0000:0000:0000:0000:0000:0000:0000:0001]",
	},
	"unspecified": {"http://0.0.0.0", "http://0.0.0.0:80", "http://0.1.2.3", "http://[::]", "http://[::0]:80", "http://[0:0::0]"},
	"IPv4 in other spellings": {
		"http://2130706433", "http://017700000001", "http://0x7f000001", "http://0X7F000001", "http://0x7f.0x0.0x0.0x1", "http://0177.0.0.1", "http://0177.0.0.01", "http://127.1",
		"http://127.0.1", "http://0", "http://0x", "http://0x0", "http://1", "http://00.0.0.0", "http://127.0.0.0x1", "http://127.0.0.01", "http://127.000.000.001", "http://2852039166",
		"http://0xa9fea9fe", "http://0251.0376.0251.0376", "http://169.254.43518", "http://10.0.1", "http://0xA.1", "http://3232235777", "http://134744072", "http://8.8.2056",
		"http://1.2.3.4.5", "http://256.256.256.256", "http://999.1.1.1", "http://127.0.0.1.example.1", "http://4294967296", "http://1.1.1.08", "http://08.08.08.08",
	},
	"private": {
		"http://10.0.0.1", "http://10.255.255.255", "http://172.16.0.1", "http://172.31.255.254", "http://192.168.0.1", "http://192.168.1.1:8443/v1", "http://192.168.255.255",
	},
	"carrier-grade NAT": {"http://100.64.0.1", "http://100.127.255.254", "http://100.100.100.100"},
	"link-local":        {"http://169.254.0.1", "http://169.254.255.255", "http://[fe80::1]", "http://[febf::1]", "http://[fec0::1]"},
	"unique local":      {"http://[fc00::1]", "http://[fd00::1]", "http://[fd12:3456:789a::1]:8080", "http://[fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]"},
	"multicast":         {"http://224.0.0.1", "http://239.255.255.250", "http://[ff02::1]", "http://[ff05::2]", "http://[ff0e::1]"},
	"reserved": {
		"http://240.0.0.1", "http://255.255.255.255", "http://192.0.0.1", "http://192.0.2.1", "http://198.51.100.1", "http://203.0.113.1", "http://198.18.0.1", "http://198.19.255.255",
		"http://192.88.99.1", "http://192.31.196.1", "http://192.52.193.1", "http://192.175.48.1", "http://[2001:db8::1]", "http://[100::1]", "http://[3fff::1]", "http://[5f00::1]", "http://[2001:2::1]",
		"http://[2001:10::1]", "http://[2001:20::1]",
	},
	"IPv6 that is not global unicast": {
		"http://[200::1]", "http://[4000::1]", "http://[::ffff:0:127.0.0.1]", "http://[::ffff:0:10.0.0.1]", "http://[8000::1]", "http://[e000::1]", "http://[fe00::1]", "http://[1::1]",
		"http://[0:1::1]", "http://[64:ff9a::7f00:1]", "http://[1fff::1]",
	},
	"IPv4 within IPv6": {
		"http://[::ffff:127.0.0.1]", "http://[::ffff:7f00:1]", "http://[0:0:0:0:0:ffff:10.0.0.1]", "http://[::ffff:192.168.1.1]:80", "http://[::ffff:169.254.169.254]", "http://[::FFFF:a9fe:a9fe]",
		"http://[::127.0.0.1]", "http://[::10.0.0.1]", "http://[::8.8.8.8]",
		"http://[64:ff9b::127.0.0.1]", "http://[64:ff9b::10.0.0.1]", "http://[64:ff9b::a9fe:a9fe]", "http://[64:ff9b::100.100.100.200]", "http://[64:ff9b:1::1]", "http://[64:ff9b:1::8.8.8.8]",
		"http://[2002:7f00:1::]", "http://[2002:a00:1::1]", "http://[2002:a9fe:a9fe::1]", "http://[2002:c0a8:101::]", "http://[2002:808:808::1]",
		"http://[2001:0:4136:e378:8000:63bf:80ff:fffe]", "http://[2001:0:808:808::f5ff:fffe]", "http://[2001::1]",
	},
	"metadata addresses": {
		"http://169.254.169.254", "http://169.254.169.254/latest/meta-data/", "http://169.254.169.254:80", "http://169.254.170.2", "http://169.254.170.23", "http://169.254.169.253",
		"http://[fd00:ec2::254]", "http://[fd00:ec2::23]", "http://[fd00:0ec2:0:0:0:0:0:254]", "http://[FD00:EC2::254]", "http://100.100.100.200", "http://168.63.129.16", "http://192.0.0.192",
		"http://[fd20:ce::254]",
	},
	"metadata names": {
		"http://metadata.google.internal", "http://METADATA.google.internal/computeMetadata/v1", "http://metadata.goog", "http://metadata", "http://instance-data",
		"http://instance-data.ec2.internal", "http://metadata.goog:443",
	},
	"single labels": {"http://localhost", "http://LOCALHOST:8080", "http://ollama", "http://ollama:11434", "http://router", "http://com", "http://a", "https://kubernetes"},
	"internal domains": {
		"https://a.localhost", "https://printer.local", "https://api.internal", "https://a.b.internal", "https://x.corp", "https://nas.lan", "https://nas.home.arpa", "https://x.home",
		"https://x.private", "https://x.intranet", "https://x.localdomain", "https://localhost.localdomain", "https://host.docker.internal", "https://db.svc.cluster.local",
		"https://kubernetes.default.svc", "https://x.onion", "https://web.service.consul", "https://API.INTERNAL", "https://gateway.docker.internal", "https://ip-10-0-0-1.ec2.internal",
	},
	"rebinding domains": {
		"http://127.0.0.1.nip.io", "http://10-0-0-1.nip.io", "http://nip.io", "http://app.10.0.0.1.sslip.io", "http://127.0.0.1.xip.io", "http://localtest.me", "http://a.localtest.me",
		"http://lvh.me", "http://a.lvh.me", "http://vcap.me", "http://x.lacolhost.com", "http://7f000001.c0a80001.rbndr.us", "http://A.NIP.IO", "http://make-1.2.3.4-rebind-127.0.0.1-rr.1u.ms",
	},
}

func TestHostGuardRefuses(t *testing.T) {
	guards := map[string]*HostGuard{"nobody": guardOf(t), "no guard": nil, "the zero guard": {}, "others": guardOf(t, "trusted.example.com", "*.other.internal", "10.9.9.9")}
	for why, hosts := range refusedHosts {
		for _, host := range hosts {
			for name, g := range guards {
				u, err := g.Check(host)
				var refused *HostError
				if !errors.As(err, &refused) {
					t.Errorf("%s: %q passed the guard that trusts %s as %v, %v", why, host, name, u, err)
				}
				if err != nil && (u != nil || refused.Why == "") {
					t.Errorf("%q: got a URL with the refusal, or no reason", host)
				}
			}
		}
	}
}

func TestHostGuardAccepts(t *testing.T) {
	g := guardOf(t)
	for _, host := range []string{
		"https://example.com", "https://example.com/", "https://example.com/v1", "https://example.com/v1/", "http://example.com", "HTTPS://Example.COM/V1", "https://api.example.com:443/v1",
		"https://example.com:8443", "http://example.com:80", "https://example.com:11434", "https://example.com:65535", "https://example.com:1", "https://a.b.c.d.e.f.g.h.i.com",
		"https://my-models.example.co.uk/openai/v1", "https://my_models.example.com", "https://1and1.com", "https://163.com", "https://0x.com", "https://8.8.8.8", "https://1.1.1.1:8443/v1",
		"https://100.63.255.255", "https://100.128.0.1", "https://172.15.0.1", "https://172.32.0.1", "https://11.0.0.1", "https://126.255.255.255", "https://128.0.0.1", "https://192.167.1.1",
		"https://223.255.255.255", "https://168.63.129.17", "https://100.100.100.200.example.com", "https://[2606:4700:4700::1111]", "https://[2606:4700:4700::1111]:8443/v1",
		"https://[2a00:1450:4001::200e]", "https://[2001:4860:4860::8888]", "https://metadata.example.com", "https://localhost.example.com", "https://internal.example.com", "https://notnip.io",
		"https://nip.io.example.com", "https://xn.example.com", "https://axn--b.example.com", "https://example.com/a..b/...", "https://example.com/v1//x", "https://example.com/a:b;c,d=e+f!$&'()*~_-",
		"https://example.local.com", "https://corp.com", "https://0x7f.example", "https://example.com/" + strings.Repeat("a", maxHostURL-len("https://example.com/")),
		"https://" + strings.Repeat("a", 63) + ".com",
	} {
		u, err := g.Check(host)
		if err != nil {
			t.Errorf("%q: %v", host, err)
			continue
		}
		if want, _ := url.Parse(host); u.String() != want.String() {
			t.Errorf("%q: got %q", host, u)
		}
	}
}

func TestHostGuardTrustsWhatTheOperatorListed(t *testing.T) {
	g := guardOf(t, "localhost", "127.0.0.1", "[::1]", "*.models.internal", "Ollama", " 10.1.2.3 ", "", "fd12::5", "xn--exmple-cua.com", "host.docker.internal", "::ffff:10.7.7.7", "a.nip.io")
	for _, host := range []string{
		"http://localhost", "http://localhost:22/v1", "http://LOCALHOST:6379", "http://127.0.0.1", "http://127.0.0.1:3306", "http://[::1]:11434", "http://[0:0:0:0:0:0:0:1]/v1",
		"http://a.models.internal", "http://a.b.models.internal:9200", "http://OLLAMA:11434", "http://10.1.2.3:65535", "http://[fd12::5]:22", "http://[FD12:0::5]", "https://xn--exmple-cua.com",
		"http://host.docker.internal:11434/v1", "http://[::ffff:127.0.0.1]", "http://10.7.7.7", "http://a.nip.io:25",
	} {
		if _, err := g.Check(host); err != nil {
			t.Errorf("%q: %v", host, err)
		}
	}
	for _, host := range []string{
		"http://models.internal", "http://amodels.internal", "http://models.internal.evil.local", "http://127.0.0.2", "http://127.1", "http://2130706433", "http://[::2]", "http://[fd12::6]",
		"http://localhost.", "http://user@localhost", "http://localhost:0", "http://localhost:65536", "http://localhost:", "http://localhost/../x", "http://localhost#x", "http://localhost?x",
		"ftp://localhost", "http://ollama.internal", "http://x.localhost", "http://b.nip.io", "http://a.a.nip.io", "http://xn--other.com", "http://a.xn--exmple-cua.com", "http://example.com:22",
		"http://[::1]:", "http://[::1%25lo]",
	} {
		if u, err := g.Check(host); err == nil {
			t.Errorf("%q passed as %v", host, u)
		}
	}
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost": true, "::1": true, "0:0:0:0:0:0:0:1": true, "127.0.0.1": true, "::ffff:127.0.0.1": true, "x.models.internal": true, "models.internal": false,
		"": false, "example.com": false, "10.1.2.3": true, "10.1.2.30": false,
	} {
		if g.Trusts(host) != want {
			t.Errorf("trusts %q: got %v", host, !want)
		}
	}
}

func TestHostGuardNeverTrustsMetadataServices(t *testing.T) {
	for _, entry := range []string{
		"169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "[fd00:ec2::254]", "FD00:EC2:0::254", "::ffff:169.254.169.254",
		"64:ff9b::169.254.169.254", "2002:a9fe:a9fe::1", "::169.254.169.254", "metadata.google.internal", "Metadata.Google.Internal", "metadata", "metadata.goog", "instance-data", " 169.254.169.254 ",
	} {
		if _, err := NewHostGuard([]string{"fine.example.com", entry}); err == nil {
			t.Errorf("%q may be listed as trusted", entry)
		}
	}

	// No wildcard and no trusted name leads there either.
	g := guardOf(t, "*.internal", "*.google.internal", "*.goog", "mine.internal", "127.0.0.1")
	for _, host := range []string{"http://metadata.google.internal", "http://metadata.goog", "http://instance-data.ec2.internal", "http://169.254.169.254", "http://[fd00:ec2::254]"} {
		if u, err := g.Check(host); err == nil {
			t.Errorf("%q passed as %v", host, u)
		}
	}
	for _, addr := range []string{
		"169.254.169.254", "169.254.170.2", "::ffff:169.254.169.254", "fd00:ec2::254", "fd00:ec2::254%eth0", "fd00:ec2::23", "100.100.100.200", "168.63.129.16", "192.0.0.192", "64:ff9b::a9fe:a9fe",
		"2002:a9fe:a9fe::", "2001:0:0:0:0:0:5601:5601", "::a9fe:a9fe", "fd20:ce::254",
	} {
		var refused *HostError
		if err := g.CheckAddr("mine.internal", netip.MustParseAddr(addr)); !errors.As(err, &refused) {
			t.Errorf("a trusted name that resolves to %s: got %v", addr, err)
		}
	}
}

func TestHostGuardChecksTheAddressThatANameResolvedTo(t *testing.T) {
	g := guardOf(t, "mine.internal", "10.0.0.5")
	for _, c := range []struct {
		host, addr string
		want       bool
	}{
		{"example.com", "8.8.8.8", true},
		{"example.com", "2606:4700:4700::1111", true},
		{"example.com", "::ffff:8.8.8.8", true},
		{"example.com", "127.0.0.1", false},
		{"example.com", "10.0.0.5", false},
		{"example.com", "::1", false},
		{"example.com", "::ffff:10.0.0.1", false},
		{"example.com", "fe80::1%eth0", false},
		{"example.com", "fd00::1", false},
		{"example.com", "100.64.0.1", false},
		{"example.com", "64:ff9b::10.0.0.1", false},
		{"example.com", "2002:a00:1::", false},
		{"example.com", "0.0.0.0", false},
		{"example.com", "::", false},
		{"example.com", "224.0.0.1", false},
		{"mine.internal", "10.0.0.1", true},
		{"MINE.internal", "127.0.0.1", true},
		{"mine.internal", "8.8.8.8", true},
		{"other.internal", "10.0.0.1", false},
		{"10.0.0.5", "10.0.0.5", true},
	} {
		err := g.CheckAddr(c.host, netip.MustParseAddr(c.addr))
		if (err == nil) != c.want {
			t.Errorf("%s at %s: got %v", c.host, c.addr, err)
		}
	}
	if err := g.CheckAddr("example.com", netip.Addr{}); err == nil {
		t.Error("no address at all passed")
	}
	var none *HostGuard
	if err := none.CheckAddr("localhost", netip.MustParseAddr("127.0.0.1")); err == nil {
		t.Error("no guard let an address pass")
	}
}

func TestNewHostGuardRefusesEntriesThatNameNoHost(t *testing.T) {
	for _, entry := range []string{
		"http://localhost", "localhost:8080", "127.0.0.1:8080", "[::1]:80", "localhost/v1", "user@host", "*", "*.", "*localhost", "a.*.com", "*.*.com", "host.", ".host", "a b", "exämple.com", "-a.com",
		"10.0.0.0/8", "*.-a.com", "a..b", "?", strings.Repeat("a", 64), "2130706433", "0x7f000001", "127.1", "0177.0.0.1", "fe80::1%eth0", "a.b.c.d.e.f.g.h.i.j.k", "*.0.0.1",
	} {
		if _, err := NewHostGuard([]string{entry}); err == nil {
			t.Errorf("%q was accepted, and names no host that could be called", entry)
		} else if !strings.Contains(err.Error(), entry) {
			t.Errorf("%q: the error does not name it: %v", entry, err)
		}
	}
}

// dialed returns the host that net/http would connect to for u.
func dialed(t *testing.T, u *url.URL) string {
	t.Helper()
	stop := errors.New("no network in this test")
	var address string
	dial := func(_ context.Context, _, addr string) (net.Conn, error) {
		address = addr
		return nil, stop
	}
	transport := &http.Transport{DialContext: dial, DialTLSContext: dial}
	res, err := transport.RoundTrip((&http.Request{Method: http.MethodPost, URL: u, Host: u.Host, Header: http.Header{}}).WithContext(t.Context()))
	if err == nil {
		_ = res.Body.Close()
	}
	if !errors.Is(err, stop) {
		t.Fatalf("%q was accepted, but net/http cannot dial it: %v", u, err)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		t.Fatalf("%q: dialed %q: %v", u, address, err)
	}
	return host
}

// publicUnicast is a second opinion about addresses, from the standard library.
func publicUnicast(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsGlobalUnicast() && !a.IsPrivate() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsMulticast() && !a.IsUnspecified() &&
		!netip.MustParsePrefix("100.64.0.0/10").Contains(a) &&
		(a.Is4() || netip.MustParsePrefix("2000::/3").Contains(a) || netip.MustParsePrefix("64:ff9b::/96").Contains(a))
}

func FuzzHostGuard(f *testing.F) {
	for _, why := range slices.Sorted(maps.Keys(refusedHosts)) {
		for _, host := range refusedHosts[why] {
			f.Add(host)
		}
	}
	for _, host := range []string{"https://example.com/v1", "https://8.8.8.8:8443", "https://[2606:4700::1111]/v1", "HTTP://EXAMPLE.com:00080/", "https://[64:ff9b::8.8.8.8]"} {
		f.Add(host)
	}
	guard := guardOf(f)
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := guard.Check(raw)
		if err != nil {
			var refused *HostError
			if !errors.As(err, &refused) || u != nil {
				t.Fatalf("%q: got %v, %v", raw, u, err)
			}
			return
		}
		parsed, err := url.Parse(raw)
		if err != nil || parsed.String() != u.String() {
			t.Fatalf("%q: net/url says %v, %v; the guard %v", raw, parsed, err, u)
		}
		if u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.Opaque != "" {
			t.Fatalf("%q: more than scheme, host and path: %#v", raw, u)
		}
		host := dialed(t, u)
		if !strings.EqualFold(host, u.Hostname()) {
			t.Fatalf("%q: the guard saw %q, net/http dials %q", raw, u.Hostname(), host)
		}
		if addr, err := netip.ParseAddr(host); err == nil {
			if !publicUnicast(addr) {
				t.Fatalf("%q: %s is not public", raw, addr)
			}
			return
		}
		if net.ParseIP(host) != nil || !strings.Contains(host, ".") || strings.HasSuffix(host, ".") || strings.Trim(host[strings.LastIndex(host, ".")+1:], "0123456789") == "" {
			t.Fatalf("%q: %q may be read as an address or a private name", raw, host)
		}
	})
}
