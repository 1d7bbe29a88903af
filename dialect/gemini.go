package dialect

import (
	"net/url"
	"strings"
	"time"
)

// Gemini says everything in the body of a refusal (google.go) and nothing on
// success: which quota was violated, and how long to wait. Days turn at
// midnight in the Pacific time zone, and in summer an hour sooner than by its
// winter time.
var Gemini = &Dialect{
	Name:         "gemini",
	ChatPath:     "/v1beta/openai/chat/completions",
	KeyVariables: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"},
	Names:        []string{"google", "google-apis", "googleapis"},
	BaseURL:      "https://generativelanguage.googleapis.com",
	Hosts:        []string{"generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com"},
	Read:         reader{zone: -8 * time.Hour}.read,
	API:          GeminiAPI,
	Tells:        "nothing; the violated quotas and the delay in a refusal's body",
	Metering:     Metering{PerModel: true, Charges: Charging{Output: Free}},
	Credential:   googleCredential,
	KeyHeader: func(u *url.URL, key string) string {
		if strings.Contains(u.Path, "/openai/") {
			return "Authorization"
		}
		return googleKeyHeader(u, key)
	},
	KeyPrefixes: []string{googleKey},
}
