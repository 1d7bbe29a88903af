package dialect

import (
	"net"
	"slices"
	"strings"
)

// All are the dialects that ship. A provider is one file and one line here.
var All = []*Dialect{
	OpenAI,
	Codex,
	Azure,
	Anthropic,
	Bedrock,
	Gemini,
	Vertex,
	Groq,
	Cerebras,
	Mistral,
	XAI,
	DeepSeek,
	OpenRouter,
	Together,
	Fireworks,
	Cohere,
	Perplexity,
	Nvidia,
	HuggingFace,
	GitHub,
	Cloudflare,
	Ollama,
	LlamaCpp,
	VLLM,
	BrightData,
	LiteLLM,
	DigitalOcean,
	Generic,
}

// ByName finds a dialect by its name, or by another that people write for it, in
// any case.
func ByName(name string) (*Dialect, bool) {
	same := func(other string) bool { return strings.EqualFold(other, name) }
	for _, d := range All {
		if same(d.Name) || slices.ContainsFunc(d.Names, same) {
			return d, true
		}
	}
	return nil, false
}

// ByHost finds the dialect that a host speaks, with or without a port; Generic
// where nobody claims it. A host that is named in full goes before a pattern.
func ByHost(host string) *Dialect {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	found := Generic
	if strings.HasPrefix(host, ".") {
		return found
	}
	for _, d := range All {
		for _, claimed := range d.Hosts {
			if host == claimed {
				return d
			}
			if found == Generic && claims(claimed, host) {
				found = d
			}
		}
	}
	return found
}

// claims is true for a host that fits a pattern: a leading dot claims the hosts
// below a domain, a star stands for one part or the beginning of one.
func claims(pattern, host string) bool {
	if before, after, found := strings.Cut(pattern, "*"); found {
		middle, ok := strings.CutPrefix(host, before)
		if !ok {
			return false
		}
		middle, ok = strings.CutSuffix(middle, after)
		return ok && middle != "" && !strings.Contains(middle, ".")
	}
	return strings.HasPrefix(pattern, ".") && strings.HasSuffix(host, pattern) && len(host) > len(pattern)
}
