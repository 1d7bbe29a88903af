package paceline

import (
	"strings"
	"time"

	"github.com/paceline-proxy/paceline/dialect"
)

// openference is the worked example of an entry with limits.
var openference = Provider{
	Name:    "openference",
	BaseURL: "https://api.openference.com/v1",
	Dialect: "openai",
	Limits: Limits{
		MaxConcurrent: 4, MaxPerSecond: 5, MaxPerMinute: 15, MaxPerHour: 800,
		Pacing: Even, WindowSlack: 1500 * time.Millisecond, AbortHold: 30 * time.Second,
	},
	Retry: Retry{Max: 4, Max5xx: 2, Base: time.Second, MaxWait: time.Minute},
}

// builtin are the entries that ship: the dialects that are reached at one place.
// They declare nothing, and live on what their providers tell, and learn: plans
// differ.
var builtin = func() (all []Provider) {
	for _, d := range dialect.All {
		if d.BaseURL != "" {
			all = append(all, Provider{Name: d.Name, BaseURL: d.BaseURL})
		}
	}
	return append(all, openference)
}()

// BuiltIn returns the entries that ship, in full: a request to one of their
// addresses belongs to it, and a [Provider] of the same Name starts from it.
func BuiltIn() []Provider {
	ps := make([]Provider, len(builtin))
	for i, b := range builtin {
		p, err := b.Complete()
		if err != nil {
			panic(err) // a test completes them all
		}
		ps[i] = p
	}
	return ps
}

func builtinNames() string {
	names := make([]string, len(builtin))
	for i, b := range builtin {
		names[i] = b.Name
	}
	return strings.Join(names, ", ")
}
