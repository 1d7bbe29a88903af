package dialect

import (
	"net/url"
	"strings"
)

// Azure writes OpenAI's names with bare seconds and says each bucket's window.
// The numbers of its samples are a bucket that refills evenly: 12 s after one of
// five a minute. It estimates what a request may cost from what it allows.
var Azure = &Dialect{
	Name:      "azure",
	MaxTokens: "max_completion_tokens",
	Names:     []string{"azure-openai", "azure-ai"},
	Hosts: []string{
		".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com",
		".models.ai.azure.com", ".inference.ai.azure.com", ".openai.azure.us",
	},
	Reports:   true,
	Read:      reader{requests: Minute, tokens: Minute, recovery: FullAt}.read,
	Tells:     "`x-ratelimit-*` of requests and tokens, whose windows are told or a minute",
	Metering:  Metering{PerModel: true, Charges: Charging{Output: Reserved}},
	KeyHeader: azureKeyHeader,
}

// azureKeyHeader: Entra's tokens are JWTs, its keys are not.
func azureKeyHeader(_ *url.URL, key string) string {
	if strings.HasPrefix(key, "eyJ") {
		return "Authorization"
	}
	return "Api-Key"
}
