package credentials

import (
	"net/netip"
	"testing"
)

func TestNoHostLeadsToAnAdminPortOfThisMachine(t *testing.T) {
	g, err := NewHostGuard([]string{"mine.internal", "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	g.AdminPorts(2019)
	for to, want := range map[string]bool{
		"127.0.0.1:2019": false, "127.1.2.3:2019": false, "[::1]:2019": false, "[::ffff:127.0.0.1]:2019": false, "0.0.0.0:2019": false,
		"127.0.0.1:2018": true, "192.0.2.7:2019": true, "169.254.169.254:80": false,
	} {
		if err := g.CheckDial("mine.internal", netip.MustParseAddrPort(to)); (err == nil) != want {
			t.Errorf("%s: %v", to, err)
		}
	}
}
