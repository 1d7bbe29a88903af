package goodput

import (
	"math/rand/v2"
	"net/http"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/limiter/memory"
)

// A System is a way of calling a provider. Its name is what the tables say.
type System struct {
	Name string
	// Ours marks the system that figures are asked of.
	Ours bool
	// Wrap puts the system in front of a provider of a scenario. It is called
	// once in each trial, within its bubble.
	Wrap func(s Scenario, provider http.RoundTripper, chance *rand.Rand) http.RoundTripper
}

// Declared is a Transport that was told the provider's limits.
func Declared(pacing paceline.Pacing) System {
	return System{"paceline " + string(pacing), true, func(s Scenario, provider http.RoundTripper, _ *rand.Rand) http.RoundTripper {
		return transport(s, provider, s.Declared(pacing))
	}}
}

// Untold is a Transport that was told nothing.
var Untold = System{"paceline untold", true, func(s Scenario, provider http.RoundTripper, _ *rand.Rand) http.RoundTripper {
	return transport(s, provider, paceline.Limits{})
}}

// transport is the system under test as its users make it, with a limiter of
// its own: trials must not share counts. Every request goes to the one
// provider, wherever it is reached.
func transport(s Scenario, provider http.RoundTripper, l paceline.Limits) *paceline.Transport {
	return &paceline.Transport{
		Base: provider, Limiter: memory.New(),
		Providers: []paceline.Provider{{Name: "provider", BaseURL: base, Dialect: string(s.Headers), Limits: l}},
		Route:     func(*http.Request) ([]paceline.Route, error) { return []paceline.Route{{Provider: "provider"}}, nil },
	}
}

// None is no logic at all: a request is sent at once and a refusal is final.
var None = System{"none", false, func(_ Scenario, provider http.RoundTripper, _ *rand.Rand) http.RoundTripper {
	return provider
}}
