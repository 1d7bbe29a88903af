package stub

import (
	"cmp"
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
	says   string // empty: which limit it was
	body   string // empty: in the shape of the API
	header map[string]string
	silent bool // there is no Retry-After
	tells  RetryAfter
}

// quiet refuses with a body alone.
func quiet(body string) manner { return manner{silent: true, body: body} }

// manners are those that are not the API's.
var manners = map[Refusals]manner{
	RefusalsTooLarge: {silent: true, status: http.StatusRequestEntityTooLarge,
		body: `{"error":{"message":"Request too large: {message}, of {limit}. Please reduce your message size and try again.","type":"tokens","code":"rate_limit_exceeded"}}`},
	RefusalsQueueFull: {silent: true, status: http.StatusServiceUnavailable,
		body: `{"error":{"message":"The request queue is full","type":"ServiceUnavailableError","param":null,"code":503}}`},
	RefusalsTGI:            quiet(`{"error":"Model is overloaded","error_type":"overloaded"}`),
	RefusalsOverloaded:     {silent: true, status: statusOverloaded, says: overloaded},
	Refusals(HeadersAzure): {body: `{"error":{"code":"429","message":"{message}. Please retry after {seconds} seconds."}}`},
	Refusals(HeadersBedrock): {silent: true, body: `{"message":"Too many requests, please wait before trying again."}`,
		header: map[string]string{"x-amzn-errortype": "ThrottlingException"}},
	Refusals(HeadersBrightData): quiet(`{"error":"Too many requests"}`),
	Refusals(HeadersCerebras):   {body: `{"message":"{message}","type":"too_many_requests_error","param":"quota","code":"request_quota_exceeded"}`},
	Refusals(HeadersCloudflare): quiet(`{"success":false,"errors":[{"code":971,"message":"Please wait and consider throttling your request speed"}]}`),
	Refusals(HeadersCodex): quiet(`{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"plus",` +
		`"resets_at":{epoch},"resets_in_seconds":{seconds}}}`),
	Refusals(HeadersCohere):       quiet(`{"message":"You are using a Trial key, which is limited to {limit} API calls / minute."}`),
	Refusals(HeadersDeepSeek):     quiet(`{"error":{"message":"Too many requests at the same time","type":"rate_limit_error","param":null,"code":"rate_limit_error"}}`),
	Refusals(HeadersDigitalOcean): quiet(""),
	Refusals(HeadersFireworks):    {silent: true, header: map[string]string{"x-ratelimit-over-limit": "yes"}},
	Refusals(HeadersGemini): quiet(`{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details. Please retry in {wait}.",` +
		`"status":"RESOURCE_EXHAUSTED","details":[` +
		`{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"generativelanguage.googleapis.com/generate_requests",` +
		`"quotaId":"GenerateRequestsPerMinutePerProjectPerModel","quotaValue":"{limit}"}]},` +
		`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"{wait}"}]}}`),
	Refusals(HeadersGitHub): {silent: true, status: http.StatusForbidden,
		body: `{"message":"API rate limit exceeded for user ID 1.","documentation_url":"https://docs.github.com/rest"}`},
	Refusals(HeadersGitHubModels): {header: map[string]string{"x-ratelimit-type": "UserByModelByMinute", "x-ratelimit-timeremaining": "{seconds}"},
		body: `{"error":{"code":"RateLimitReached","message":"Rate limit of {limit} per 60s exceeded for UserByModelByMinute. Please wait {seconds} seconds before retrying."}}`},
	Refusals(HeadersGroq): {tells: RetryAfterDecimal,
		body: "{\"error\":{\"message\":\"{message} for model `stub-1`. Please try again in {wait}.\",\"type\":\"requests\",\"code\":\"rate_limit_exceeded\"}}"},
	Refusals(HeadersHuggingFace): quiet(`{"error":"You have exceeded your rate limit"}`),
	Refusals(HeadersLlamaCpp):    {silent: true, status: http.StatusServiceUnavailable, body: `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`},
	Refusals(HeadersMistral):     quiet(`{"object":"error","message":"Rate limit exceeded","type":"rate_limited","param":null,"code":"1300","raw_status_code":429}`),
	Refusals(HeadersNvidia):      quiet(`{"status":429,"title":"Too Many Requests"}`),
	Refusals(HeadersOllama):      {silent: true, status: http.StatusServiceUnavailable, body: `{"error":"server busy, please try again.  maximum pending requests exceeded"}`},
	Refusals(HeadersOpenRouter): quiet(`{"error":{"message":"Rate limit exceeded: limit_rpm/stub-1","code":429,` +
		`"metadata":{"headers":{"X-RateLimit-Limit":"{limit}","X-RateLimit-Remaining":"0","X-RateLimit-Reset":"{epochms}"}}}}`),
	Refusals(HeadersPerplexity): quiet(`{"error":{"message":"Request rate limit exceeded","code":429}}`),
	Refusals(HeadersTogether):   quiet(""),
	Refusals(HeadersVertex):     quiet(`{"error":{"code":429,"message":"Resource exhausted. Please try again later.","status":"RESOURCE_EXHAUSTED"}}`),
	Refusals(HeadersXAI):        quiet(`{"code":"Some resource has been exhausted","error":"{message}"}`),
}

// refuseAs has a refusal of the meters look like a provider's.
func (v *verdict) refuseAs(of Refusals, limit int) {
	m, ok := manners[of]
	if !ok {
		return
	}
	v.message = cmp.Or(m.says, v.message)
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
