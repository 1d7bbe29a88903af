package stub

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A manner is how a provider refuses. In its body {message}, {wait} (a Go
// duration), {seconds} and {reset} (epoch milliseconds) are filled in.
type manner struct {
	status int    // 0: 429
	body   string // empty: in the shape of the API
	header [2]string
	silent bool // there is no Retry-After
	tells  RetryAfter
}

// manners are the providers that refuse in their own way.
var manners = map[Headers]manner{
	HeadersAzure: {body: `{"error":{"code":"429","message":"{message}. Please retry after {seconds} seconds."}}`},
	HeadersGroq: {tells: RetryAfterDecimal,
		body: `{"error":{"message":"{message} for model ` + "`stub-1`" + `. Please try again in {wait}.","type":"requests","code":"rate_limit_exceeded"}}`},
	HeadersCerebras: {body: `{"message":"{message}","type":"too_many_requests_error","param":"quota","code":"request_quota_exceeded"}`},
	HeadersMistral:  {silent: true, body: `{"object":"error","message":"Rate limit exceeded","type":"rate_limited","param":null,"code":"1300"}`},
	HeadersGemini: {silent: true, body: `{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details. Please retry in {wait}.","status":"RESOURCE_EXHAUSTED","details":[` +
		`{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel"}]},` +
		`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"{wait}"}]}}`},
	HeadersOpenRouter: {silent: true, body: `{"error":{"message":"Rate limit exceeded: limit_rpm/stub-1","code":429,"metadata":{"headers":{"X-RateLimit-Limit":"{limit}","X-RateLimit-Remaining":"0","X-RateLimit-Reset":"{reset}"}}}}`},
	HeadersCohere:     {silent: true, body: `{"message":"You are using a Trial key, which is limited to {limit} API calls / minute."}`},
	HeadersBedrock: {silent: true, body: `{"message":"Too many requests, please wait before trying again."}`,
		header: [2]string{"x-amzn-errortype", "ThrottlingException"}},
	HeadersGitHub: {silent: true, status: http.StatusForbidden, body: `{"message":"API rate limit exceeded for user ID 1.","documentation_url":"https://docs.github.com/rest"}`},
	HeadersOllama: {silent: true, status: http.StatusServiceUnavailable, body: `{"error":"server busy, please try again.  maximum pending requests exceeded"}`},
	HeadersCodex:  {silent: true, body: `{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"plus","resets_in_seconds":{seconds}}}`},
}

// refuseAs has a refusal of the meters look like a provider's.
func (v *verdict) refuseAs(of Headers, limit int) {
	m, ok := manners[of]
	if !ok || v.status != http.StatusTooManyRequests {
		return
	}
	if m.status != 0 {
		v.status = m.status
	}
	v.extra = http.Header{}
	if m.header[0] != "" {
		v.extra.Set(m.header[0], m.header[1])
	}
	wait := roundUp(v.wait, time.Millisecond)
	v.body = strings.NewReplacer(
		"{message}", v.message, "{wait}", wait.String(), "{limit}", strconv.Itoa(limit),
		"{seconds}", seconds.write(v.arrived.Add(v.wait), v.arrived),
		"{reset}", epochMS.write(v.arrived.Add(v.wait), v.arrived),
	).Replace(m.body)
	switch {
	case strings.Contains(m.body, "{wait}"), strings.Contains(m.body, "{reset}"):
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
