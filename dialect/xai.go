package dialect

// XAI spreads a minute's requests over its seconds. Credits that are used up are
// told by a sentence, under two codes and two statuses.
var XAI = &Dialect{
	Name:        "xai",
	Names:       []string{"x-ai", "grok"},
	BaseURL:     "https://api.x.ai/v1",
	Hosts:       []string{"api.x.ai", ".api.x.ai"},
	Reports:     true,
	Read:        reader{judge: judgeXAI}.read,
	Tells:       "`x-ratelimit-*` of requests and tokens",
	Metering:    Metering{PerModel: true},
	KeyPrefixes: []string{"xai-"},
}

func judgeXAI(a *answer) (Class, string, bool) {
	if (a.status == 403 || a.status == 429) && a.says("used all available credits", "monthly spending limit") {
		return Billing, "its message says that credits are used up", true
	}
	return "", "", false
}
