package paceline

import (
	"strings"
	"time"
)

// builtin are the entries that ship. Those that declare nothing live on what
// their providers tell, and learn: plans differ.
var builtin = []Provider{
	{Name: "openai", BaseURL: "https://api.openai.com/v1"},
	{Name: "anthropic", BaseURL: "https://api.anthropic.com"},
	{
		Name:    "openference",
		BaseURL: "https://api.openference.com/v1",
		Dialect: "openai",
		Limits: Limits{
			MaxConcurrent: 4, MaxPerSecond: 5, MaxPerMinute: 15, MaxPerHour: 800,
			Pacing: Even, WindowSlack: 1500 * time.Millisecond, AbortHold: 30 * time.Second,
		},
		Retry: Retry{Max: 4, Max5xx: 2, Base: time.Second, MaxWait: time.Minute},
	},
	{Name: "cerebras", BaseURL: "https://api.cerebras.ai/v1"},
	{Name: "cohere", BaseURL: "https://api.cohere.com"},
	{Name: "deepseek", BaseURL: "https://api.deepseek.com"},
	{Name: "fireworks", BaseURL: "https://api.fireworks.ai/inference/v1"},
	{Name: "gemini", BaseURL: "https://generativelanguage.googleapis.com"},
	{Name: "github", BaseURL: "https://models.github.ai/inference"},
	{Name: "groq", BaseURL: "https://api.groq.com/openai/v1"},
	{Name: "huggingface", BaseURL: "https://router.huggingface.co/v1"},
	{Name: "mistral", BaseURL: "https://api.mistral.ai/v1"},
	{Name: "nvidia", BaseURL: "https://integrate.api.nvidia.com/v1"},
	{Name: "ollama", BaseURL: "http://localhost:11434"},
	{Name: "openrouter", BaseURL: "https://openrouter.ai/api/v1"},
	{Name: "perplexity", BaseURL: "https://api.perplexity.ai"},
	{Name: "together", BaseURL: "https://api.together.xyz/v1"},
	{Name: "xai", BaseURL: "https://api.x.ai/v1"},
}

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
