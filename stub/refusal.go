package stub

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A manner is how a provider refuses. In its body and its headers {message},
// {limit}, {wait} (a Go duration), {seconds}, {epoch} and {epochms} are filled
// in.
type manner struct {
	status int    // 0: 429
	body   string // empty: in the shape of the API
	header map[string]string
	silent bool // there is no Retry-After
	tells  RetryAfter
}

// quiet refuses with a body alone.
func quiet(body string) manner { return manner{silent: true, body: body} }

// manners are the providers that refuse in their own way.
var manners = map[Headers]manner{
	HeadersAzure: {body: `{"error":{"code":"429","message":"{message}. Please retry after {seconds} seconds."}}`},
	HeadersBedrock: {silent: true, body: `{"message":"Too many requests, please wait before trying again."}`,
		header: map[string]string{"x-amzn-errortype": "ThrottlingException"}},
	HeadersBrightData: {silent: true, body: `{"error":"Too many requests"}`,
		header: map[string]string{"x-brd-err-code": "client_10100", "x-brd-err-msg": "Too many requests"}},
	HeadersCerebras:   {body: `{"message":"{message}","type":"too_many_requests_error","param":"quota","code":"request_quota_exceeded"}`},
	HeadersCloudflare: quiet(`{"success":false,"errors":[{"code":3040,"message":"3040: Capacity temporarily exceeded, please try again."}]}`),
	HeadersCodex: quiet(`{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"plus",` +
		`"resets_at":{epoch},"resets_in_seconds":{seconds}}}`),
	HeadersCohere:       quiet(`{"message":"You are using a Trial key, which is limited to {limit} API calls / minute."}`),
	HeadersDeepSeek:     quiet(`{"error":{"message":"Too many requests at the same time","type":"rate_limit_error","param":null,"code":"rate_limit_error"}}`),
	HeadersDigitalOcean: quiet(""),
	HeadersFireworks:    {silent: true, header: map[string]string{"x-ratelimit-over-limit": "yes"}},
	HeadersGemini: quiet(`{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details. Please retry in {wait}.",` +
		`"status":"RESOURCE_EXHAUSTED","details":[` +
		`{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"generativelanguage.googleapis.com/generate_requests",` +
		`"quotaId":"GenerateRequestsPerMinutePerProjectPerModel","quotaValue":"{limit}"}]},` +
		`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"{wait}"}]}}`),
	HeadersGitHub: {silent: true, status: http.StatusForbidden,
		body: `{"message":"API rate limit exceeded for user ID 1.","documentation_url":"https://docs.github.com/rest"}`},
	HeadersGitHubModels: {header: map[string]string{"x-ratelimit-type": "UserByModelByMinute", "x-ratelimit-timeremaining": "{seconds}"},
		body: `{"error":{"code":"RateLimitReached","message":"Rate limit of {limit} per 60s exceeded for UserByModelByMinute. Please wait {seconds} seconds before retrying."}}`},
	HeadersGroq: {tells: RetryAfterDecimal,
		body: "{\"error\":{\"message\":\"{message} for model `stub-1`. Please try again in {wait}.\",\"type\":\"requests\",\"code\":\"rate_limit_exceeded\"}}"},
	HeadersHuggingFace: quiet(`{"error":"You have exceeded your rate limit"}`),
	HeadersLlamaCpp:    {silent: true, status: http.StatusServiceUnavailable, body: `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`},
	HeadersMistral:     quiet(`{"object":"error","message":"Rate limit exceeded","type":"rate_limited","param":null,"code":"1300","raw_status_code":429}`),
	HeadersNvidia:      quiet(`{"status":429,"title":"Too Many Requests"}`),
	HeadersOllama:      {silent: true, status: http.StatusServiceUnavailable, body: `{"error":"server busy, please try again.  maximum pending requests exceeded"}`},
	HeadersOpenRouter: quiet(`{"error":{"message":"Rate limit exceeded: limit_rpm/stub-1","code":429,` +
		`"metadata":{"headers":{"X-RateLimit-Limit":"{limit}","X-RateLimit-Remaining":"0","X-RateLimit-Reset":"{epochms}"}}}}`),
	HeadersPerplexity: quiet(`{"error":{"message":"Request rate limit exceeded","code":429}}`),
	HeadersTogether:   quiet(""),
	HeadersVertex:     quiet(`{"error":{"code":429,"message":"Resource exhausted. Please try again later.","status":"RESOURCE_EXHAUSTED"}}`),
	HeadersXAI:        quiet(`{"code":"Some resource has been exhausted","error":"{message}"}`),
}

// refuseAs has a refusal of the meters look like a provider's.
func (v *verdict) refuseAs(of Headers, limit int) {
	m, ok := manners[of]
	if !ok {
		return
	}
	if m.status != 0 {
		v.status = m.status
	}
	fill := strings.NewReplacer(
		"{message}", v.message, "{limit}", strconv.Itoa(limit), "{wait}", roundUp(v.wait, time.Millisecond).String(),
		"{seconds}", seconds.write(v.arrived.Add(v.wait), v.arrived),
		"{epoch}", epoch.write(v.arrived.Add(v.wait), v.arrived),
		"{epochms}", epochMS.write(v.arrived.Add(v.wait), v.arrived),
	)
	v.body = fill.Replace(m.body)
	v.extra = http.Header{}
	for name, value := range m.header {
		v.extra.Set(name, fill.Replace(value))
	}
	switch {
	case strings.Contains(m.body, "{wait}"), strings.Contains(m.body, "{epochms}"):
		v.inBody = RetryAfterMS
	case strings.Contains(m.body, "{seconds}"):
		v.inBody = RetryAfterSeconds
	}
	switch {
	case m.silent:
		v.tells = RetryAfterNone
	case m.tells != "" && v.tells == RetryAfterSeconds:
		v.tells = m.tells
	}
}
