package dialect

// LiteLLM passes on what its upstreams say under a prefix, which is taken off
// before anything is read, and adds limits of its own keys. Most upstreams speak
// OpenAI's words or Anthropic's.
var LiteLLM = &Dialect{
	Name:    "litellm",
	Names:   []string{"litellm-proxy"},
	Reports: true,
	Read: reader{judge: judgeAnthropic, requests: Minute, tokens: Minute, budgets: func(a *answer, out []bucket) []bucket {
		return anthropicBudgets(a, openaiBudgets(a, out))
	}}.read,
	Tells: "its upstream's, and those of its own keys",
}
