package credentials

import "net/netip"

// IANA's special-purpose address registries, and other addresses that are not part of the
// public Internet.
var reservedPrefixes = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
	"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16",
	"fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
)

// Where clouds serve instance metadata and credentials: AWS (and others that use the same
// address), ECS and EKS, Alibaba, Azure, Oracle, Google over IPv6.
var metadataPrefixes = prefixes(
	"169.254.169.0/24", "169.254.170.0/24", "169.254.0.23/32", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32",
	"fd00:ec2::/64", "fd20:ce::254/128", "fd00:42::42/128",
)

// nat64 addresses are translated to the IPv4 address in their last four bytes (RFC 6052).
var globalUnicast = netip.MustParsePrefix("2000::/3")

var nat64 = netip.MustParsePrefix("64:ff9b::/96")

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// ipv4Within returns the IPv4 address that a mapped, translated or tunnelled address leads
// to, or otherwise addr itself.
func ipv4Within(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if !addr.Is6() {
		return addr
	}
	b := addr.As16()
	switch {
	case nat64.Contains(addr), b[0] == 0 && netip.MustParsePrefix("::/96").Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:16]))
	case b[0] == 0x20 && b[1] == 0x02: // 6to4
		return netip.AddrFrom4([4]byte(b[2:6]))
	case b[0] == 0x20 && b[1] == 0x01 && b[2] == 0 && b[3] == 0: // Teredo, inverted
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})
	}
	return addr
}

func isMetadataAddr(addr netip.Addr) bool {
	return contains(metadataPrefixes, addr.Unmap().WithZone("")) || contains(metadataPrefixes, ipv4Within(addr))
}

// isPublic reports whether addr, and any IPv4 address that it leads to, is part of the
// public Internet.
func isPublic(addr netip.Addr) bool {
	plain := addr.Unmap().WithZone("")
	if plain.Is6() && !globalUnicast.Contains(plain) && !nat64.Contains(plain) {
		return false
	}
	return addr.IsValid() && !contains(reservedPrefixes, plain) && !contains(reservedPrefixes, ipv4Within(plain))
}

func contains(list []netip.Prefix, addr netip.Addr) bool {
	for _, p := range list {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
