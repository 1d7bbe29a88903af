package dialect

import (
	"net"
	"strings"
)

// All are the dialects that ship. A provider is one file and one line here.
var All = []*Dialect{
	OpenAI,
	Anthropic,
	Generic,
}

// ByName finds a dialect by its configured name, in any case.
func ByName(name string) (*Dialect, bool) {
	for _, d := range All {
		if strings.EqualFold(d.Name, name) {
			return d, true
		}
	}
	return nil, false
}

// ByHost finds the dialect that a host speaks, with or without a port; Generic
// where nobody claims it.
func ByHost(host string) *Dialect {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	for _, d := range All {
		for _, claimed := range d.Hosts {
			// A leading dot claims the hosts below a domain.
			if host == claimed || strings.HasPrefix(claimed, ".") && strings.HasSuffix(host, claimed) {
				return d
			}
		}
	}
	return Generic
}
