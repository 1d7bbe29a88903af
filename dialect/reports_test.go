package dialect_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/dialect"
)

// Faults that people met elsewhere, by the thread that tells of them, and what is
// read here. wait is unsaid where nothing is said.
func TestReports(t *testing.T) {
	const delay = `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":%q,"details":[%s]}}`
	retryInfo := func(d string) string {
		return fmt.Sprintf(`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":%q}`, d)
	}
	quota := func(id string) string {
		return fmt.Sprintf(`{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":%q}]}`, id)
	}
	for _, c := range []struct {
		report string
		d      *dialect.Dialect
		h      dialect.Head
		body   string
		class  dialect.Class
		wait   time.Duration
	}{
		{"dcdpr/jp#1061", dialect.Gemini, head(429), fmt.Sprintf(delay, "", retryInfo("45.837906927s")), dialect.RateLimited, 45838 * time.Millisecond},
		{"dcdpr/jp#1061, a day", dialect.Gemini, head(429), fmt.Sprintf(delay, "", quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier")+","+retryInfo("45.837906927s")), dialect.QuotaExhausted, 45838 * time.Millisecond},
		{"google-gemini/gemini-cli#18073, a minute", dialect.Gemini, head(429), fmt.Sprintf(delay, "", quota("GenerateRequestsPerMinutePerProjectPerModel")+","+retryInfo("7s")), dialect.RateLimited, 7 * time.Second},
		{"google-gemini/gemini-cli#18073, a day", dialect.Gemini, head(429), fmt.Sprintf(delay, "", quota("GenerateRequestsPerDayPerProjectPerModel")+","+retryInfo("7s")), dialect.QuotaExhausted, 7 * time.Second},
		{"router-for-me/CLIProxyAPI#449", dialect.Gemini, head(429), fmt.Sprintf(delay, "", `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","metadata":{"quotaResetDelay":"373.801628ms"}}`), dialect.RateLimited, 374 * time.Millisecond},
		{"router-for-me/CLIProxyAPI#449, a sentence", dialect.Gemini, head(429), fmt.Sprintf(delay, "You have exhausted your capacity on this model. Your quota will reset after 3s.", ""), dialect.RateLimited, 3 * time.Second},
		// The field is what was said; the sentence is only read where there is none.
		{"googleapis/python-genai#2114", dialect.Gemini, head(429), fmt.Sprintf(delay, "Please retry in 58.934310785s.", retryInfo("58s")), dialect.RateLimited, 58 * time.Second},
		{"gke-labs/gemini-for-kubernetes-development#1215", dialect.Gemini, head(429), fmt.Sprintf(delay, "You exceeded your current quota", `{"@type":"type.googleapis.com/google.rpc.Help"}`), dialect.RateLimited, unsaid},
		{"hashicorp/go-retryablehttp#247", dialect.Generic, head(429, "Retry-After", "3600"), "", dialect.QuotaExhausted, time.Hour},
		{"hashicorp/go-retryablehttp#247, an epoch", dialect.Generic, head(429, "Retry-After", fmt.Sprint(noon.Unix()+60)), "", dialect.RateLimited, time.Minute},
		{"use-agent-os/agent-os#735", dialect.Generic, head(429, "Retry-After", noon.Add(9*time.Second).Format(http.TimeFormat)), `{"error":{"message":"slow down"}}`, dialect.RateLimited, 9 * time.Second},
		{"Azure/azure-sdk-for-net#54333", dialect.Azure, head(429, "Retry-After", noon.Add(33*time.Second).Format(http.TimeFormat)), "", dialect.RateLimited, 33 * time.Second},
		{"Aider-AI/aider#3265", dialect.Groq, head(429), `{"error":{"message":"Rate limit reached for model on tokens per minute (TPM): Limit 15000, Used 11972, Requested 4351. Please try again in 5.289s.","type":"tokens","code":"rate_limit_exceeded"}}`, dialect.RateLimited, 5289 * time.Millisecond},
		{"openai/openai-agents-python#3266", dialect.OpenAI, head(429), `{"error":{"retry_after":10800}}`, dialect.QuotaExhausted, 3 * time.Hour},
		{"openai/openai-node#2604", dialect.OpenAI, head(429, "Retry-After", "90"), "", dialect.RateLimited, 90 * time.Second},
		{"google/go-github#3438", dialect.GitHub, head(403, "X-Ratelimit-Limit", "5000", "X-Ratelimit-Remaining", "4000", "X-Ratelimit-Reset", fmt.Sprint(noon.Unix()+3000)), `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}`, dialect.RateLimited, unsaid},
		{"google/go-github#3438, nothing left", dialect.GitHub, head(403, "X-Ratelimit-Limit", "5000", "X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", fmt.Sprint(noon.Unix()+3000)), `{"message":"API rate limit exceeded"}`, dialect.RateLimited, 3000 * time.Second},
		{"Gitlawb/openclaude#936", dialect.OpenRouter, head(429), `{"error":{"message":"Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day","code":429,"metadata":{"headers":{"X-RateLimit-Limit":"50","X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1791158400000"}}}}`, dialect.QuotaExhausted, 12 * time.Hour},
		{"microsoft/kernel-memory#795", dialect.Azure, head(503, "X-Ms-Retry-After-Ms", "2500"), "", dialect.Unavailable, 2500 * time.Millisecond},
		{"microsoft/kernel-memory#795, under 529", dialect.Anthropic, head(529, "Retry-After", "9"), "", dialect.Overloaded, 9 * time.Second},
		{"huggingface/huggingface_hub#3553", dialect.HuggingFace, head(429, "Ratelimit", `"api";r=0;t=55`, "Ratelimit-Policy", `"fixed window";"api";q=500;w=300`), "", dialect.RateLimited, 55 * time.Second},
		{"openai/openai-python#957", dialect.Azure, head(429, "Retry-After", "1", "Retry-After-Ms", "180"), "", dialect.RateLimited, 180 * time.Millisecond},
		{"can1357/oh-my-pi#6958", dialect.Vertex, head(429), `{"error":{"code":429,"message":"Online prediction concurrent requests quota exceeded","status":"RESOURCE_EXHAUSTED"}}`, dialect.RateLimited, unsaid},
		{"can1357/oh-my-pi#6958, payment first", dialect.Generic, head(402), `{"error":{"message":"too many concurrent requests for your plan"}}`, dialect.Billing, unsaid},
		{"earendil-works/pi#4991", dialect.Generic, head(429, "Retry-After", "1382400"), `{"error":{"message":"Monthly usage limit reached. Resets in 16 days"}}`, dialect.QuotaExhausted, 16 * 24 * time.Hour},
		{"earendil-works/pi#4991, the sentence alone", dialect.Generic, head(429), `{"error":{"message":"Monthly usage limit reached. Resets in 16 days"}}`, dialect.QuotaExhausted, 16 * 24 * time.Hour},
		{"jlewi/foyle#82", dialect.OpenAI, head(429), `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, dialect.Billing, unsaid},
		{"withcoral/coral#89", dialect.Generic, head(429, "X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", fmt.Sprint(noon.Unix()-1)), "", dialect.RateLimited, unsaid},
		{"basecamp/bcx-api#212", dialect.Generic, head(429, "X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", fmt.Sprint(noon.Unix()+35), "X-Ratelimit-Reset-After", "5.5"), "", dialect.RateLimited, 5500 * time.Millisecond},
	} {
		t.Run(c.report, func(t *testing.T) {
			r := readSound(t, c.d, c.h, c.body)
			wait := unsaid
			if r.Told {
				wait = r.Wait
			}
			if r.Class != c.class || wait != c.wait {
				t.Errorf("%s, %v; want %s, %v (%s)", r.Class, wait, c.class, c.wait, r.Why)
			}
			if concurrent := strings.Contains(c.report, "#6958") && r.Class == dialect.RateLimited; r.Concurrent != concurrent {
				t.Errorf("concurrent: %v", r.Concurrent)
			}
		})
	}
}

// openai/openai-python#3555: every form of a hint by one table, in both headers.
func TestReportOfHintForms(t *testing.T) {
	for value, seconds := range map[string]float64{
		"60": 60, "61": 61, "120": 120, "121": 121, "0": 0, "-1": -1, "NaN": -1, "soon": -1, "Infinity": -1,
		noon.Add(61 * time.Second).Format(http.TimeFormat): 61, noon.Add(121 * time.Second).Format(http.TimeFormat): 121,
	} {
		for _, name := range []string{"Retry-After", "Retry-After-Ms"} {
			want := time.Duration(seconds * float64(time.Second))
			if name == "Retry-After-Ms" && len(value) < 4 {
				want /= 1000
			}
			r := readSound(t, dialect.OpenAI, head(429, name, value), "")
			if r.Told != (seconds >= 0) || r.Told && r.Wait != want {
				t.Errorf("%s: %q is %v, %v", name, value, r.Told, r.Wait)
			}
			// Azure/azure-sdk-for-net#54333: a hint that cannot be used is told, raw.
			if seconds < 0 && (!strings.Contains(r.Why, value) || !strings.Contains(r.Why, name)) {
				t.Errorf("%s: %q: %s", name, value, r.Why)
			}
		}
	}
}

// What people are told is about the answer in words they know, and nothing that
// came with it reaches a terminal raw.
func TestWhyIsForPeople(t *testing.T) {
	for _, c := range []struct {
		d    *dialect.Dialect
		h    dialect.Head
		body string
		want string
	}{
		{dialect.OpenAI, head(200), "", "status 200"},
		{dialect.OpenAI, head(0), "", "no answer came"},
		{dialect.OpenAI, head(429, "Retry-After", "5"), "", "status 429; Retry-After: 5"},
		{dialect.OpenAI, head(429, "Retry-After", "soon\x1b[2J"), "", "status 429"},
		{dialect.OpenAI, head(429, "Retry-After", "soon"), "", "status 429; Retry-After is no wait: soon"},
		{dialect.OpenAI, head(429), `{"error":{"code":"insufficient_quota\u001b[2J"}}`, `code insufficient_quota\x1b[2J`},
		{dialect.OpenAI, head(429, "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "7s"), "", "status 429; the reset of tokens per minute"},
		{dialect.Gemini, head(429), `{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"7s"}]}}`, "status 429; retryDelay 7s"},
		{dialect.Groq, head(429), `{"error":{"message":"Please try again in 7s"}}`, "status 429; its message says when"},
		{dialect.OpenAI, head(500), "", "status 500"},
		{dialect.OpenAI, head(200), `{"error":{"message":"no"}}`, "an error of no known kind in place of an answer"},
	} {
		if r := readSound(t, c.d, c.h, c.body); r.Why != c.want {
			t.Errorf("%s\nwant %s", r.Why, c.want)
		}
	}
}
