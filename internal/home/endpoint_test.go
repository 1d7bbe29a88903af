package home

import "testing"

// The home's token goes to no other machine.
func TestTokenStaysHere(t *testing.T) {
	for _, c := range []struct {
		at    Endpoint
		local bool
	}{
		{Endpoint{URL: "http://127.0.0.1:1", From: "PACELINE_PORT"}, true},
		{Endpoint{URL: "http://[::1]:1", From: "PACELINE_URL"}, true},
		{Endpoint{URL: "http://localhost:1", From: "PACELINE_URL"}, true},
		{Endpoint{URL: "http://192.0.2.1:1", host: "192.0.2.1"}, true}, // the home's own, at another address
		{Endpoint{URL: "http://192.0.2.1:1", From: "PACELINE_URL"}, false},
		{Endpoint{URL: "http://localhost.example:1", From: "PACELINE_URL"}, false},
	} {
		if c.at.local() != c.local {
			t.Errorf("%+v: local is %v", c.at, !c.local)
		}
	}
}
