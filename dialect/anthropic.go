package dialect

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// Anthropic refills continuously, per minute, and shows remaining tokens in
// whole thousands. Plans (unified.go) have windows of five hours and seven days
// of which only a fraction is told. What is read from its cache is free.
var Anthropic = &Dialect{
	Name:     "anthropic",
	ChatPath: "/v1/messages",
	BaseURL:  "https://api.anthropic.com",
	Hosts:    []string{"api.anthropic.com"},
	API:      AnthropicAPI,
	Reports:  true,
	Tells:    "`anthropic-ratelimit-*` of a minute (also `-priority-` and `-fast-`), rounded to thousands; a plan's windows as fractions",
	Read:     reader{judge: judgeAnthropic, budgets: anthropicBudgets, spends: Month}.read,
	Demand:   anthropicDemand,
	Metering: Metering{
		PerModel: true,
		Group:    anthropicGroup,
		Charges:  Charging{CachedFree: true},
	},
	Account: func(h http.Header) string { return h.Get("Anthropic-Organization-Id") },
	KeyHeader: func(_ *url.URL, key string) string {
		if strings.HasPrefix(key, anthropicToken) {
			return "Authorization"
		}
		return "X-Api-Key"
	},
	KeyPrefixes: []string{"sk-ant-"},
}

// anthropicFamily is a model's family and major version: "claude-sonnet-4-5"
// shares its limits with "claude-sonnet-4".
var anthropicFamily = regexp.MustCompile(`^claude-(?:opus|sonnet|haiku)-[0-9]`)

func anthropicGroup(model string) string {
	model = strings.ToLower(model)
	if family := anthropicFamily.FindString(model); family != "" && !strings.HasPrefix(model, "claude-haiku") {
		return family + ".x"
	}
	return model
}

// anthropicToken begins the tokens of accounts, which are no API keys and are
// replaced every few hours.
const anthropicToken = "sk-ant-oat"

// accountID finds an account in metadata.user_id, where Claude Code puts it as
// JSON, or between device and session.
var accountID = regexp.MustCompile(`account(?:_uuid"\s*:\s*"|_)([0-9a-f]{8}-[0-9a-f-]{27})`)

// anthropicDemand is the usual demand. Of a token that is replaced, nothing
// stays but whose it is, and only the body says that.
func anthropicDemand(r *http.Request, body []byte) Demand {
	d := estimate(r, body)
	if r != nil && strings.Contains(r.Header.Get("Authorization"), anthropicToken) {
		if m := accountID.FindStringSubmatch(d.Conversation); m != nil {
			d.Account = m[1]
		}
	}
	return d
}

// anthropicFamilies are the prefixes of its headers, with what tells their
// buckets apart.
var anthropicFamilies = []struct{ prefix, scope string }{
	{"anthropic-ratelimit-", ""},
	{"anthropic-priority-", "priority"},
	{"anthropic-fast-", "fast"},
}

func anthropicBudgets(a *answer, out []bucket) []bucket {
	workspace := a.fields.get("anthropic-workspace-id")
	for _, family := range anthropicFamilies {
		for _, b := range familyBuckets(a, []string{family.prefix}) {
			if strings.HasPrefix(b.Scope, "unified") {
				continue
			}
			b.Window, b.long, b.firm = Minute, false, false
			b.Recovery.Kind = FullAt
			b.Scope = strings.Join(strings.Fields(family.scope+" "+b.Scope+" "+workspace), " ")
			if b.Unit != Requests && b.remaining.n%1000 == 0 {
				// A remainder that is no round number was not rounded.
				b.Rounding = 1000
			}
			out = append(out, b)
		}
	}
	return append(out, unifiedBudgets(a)...)
}

// judgeAnthropic knows the refusals that come under a misleading status, and
// a plan that is spent.
func judgeAnthropic(a *answer) (Class, string, bool) {
	if a.status == 400 {
		// There is no code for these two.
		switch {
		case a.says("credit balance is too low"):
			return Billing, "message", true
		case a.says("usage limits"):
			return QuotaExhausted, "message", true
		}
	}
	if a.status == 429 && unifiedRejected(a) {
		return QuotaExhausted, "anthropic-ratelimit-unified-status", true
	}
	return "", "", false
}
