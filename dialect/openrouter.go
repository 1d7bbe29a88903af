package dialect

import "net/http"

// OpenRouter counts fixed minutes, and days that turn at midnight UTC. Its limits
// stand in the error's metadata, rarely in real headers.
var OpenRouter = &Dialect{
	Name:        "openrouter",
	BaseURL:     "https://openrouter.ai/api/v1",
	Hosts:       []string{"openrouter.ai", ".openrouter.ai"},
	Read:        reader{recovery: StepAt}.read,
	Tells:       "nothing; limits of a minute or a day in a refusal's body",
	Kind:        openrouterKind,
	KeyPrefixes: []string{"sk-or-"},
}

// openrouterKind: what is left of a key's credit is asked for free of charge.
func openrouterKind(r *http.Request) Kind {
	if getsEndingIn(r, "/key", "/credits") {
		return Catalog
	}
	return usualKind(r)
}
