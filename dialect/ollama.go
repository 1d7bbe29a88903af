package dialect

import (
	"net/http"
	"strings"
)

// Ollama answers 503 while its queue is full. Its cloud has plans, of a session
// and a week, which only sentences name.
var Ollama = &Dialect{
	Name:    "ollama",
	BaseURL: "http://localhost:11434",
	Hosts:   []string{"ollama.com", ".ollama.com"},
	Read:    reader{judge: judgeOllama}.read,
	Tells:   "nothing; a full queue, or a spent plan in a sentence",
	Kind:    ollamaKind,
}

func judgeOllama(a *answer) (Class, string, bool) {
	switch {
	case a.status != 429 && a.status != 403 && a.status != 402:
	case a.says("usage limit"):
		return QuotaExhausted, "its message says that the plan's usage is spent", true
	case a.says("requires a subscription", "upgrade for access"):
		return Billing, "its message asks for a subscription", true
	}
	return "", "", false
}

// ollamaKind: what there is of models is asked for with POST, too.
func ollamaKind(r *http.Request) Kind {
	if getsEndingIn(r, "/api/ps") || r != nil && r.URL != nil && strings.HasSuffix(r.URL.Path, "/api/show") {
		return Catalog
	}
	return usualKind(r)
}
