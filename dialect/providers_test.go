package dialect_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/dialect"
)

func TestByHost(t *testing.T) {
	for host, want := range map[string]*dialect.Dialect{
		"api.openai.com": dialect.OpenAI, "API.OpenAI.com:443": dialect.OpenAI, "eu.api.openai.com": dialect.OpenAI,
		"chatgpt.com":                                  dialect.Codex,
		"mine.openai.azure.com":                        dialect.Azure,
		"mine.services.ai.azure.com":                   dialect.Azure,
		"mine.cognitiveservices.azure.com":             dialect.Azure,
		"mine.eastus2.models.ai.azure.com":             dialect.Azure,
		"api.anthropic.com.":                           dialect.Anthropic,
		"bedrock-runtime.us-east-1.amazonaws.com":      dialect.Bedrock,
		"bedrock-runtime.eu-west-3.amazonaws.com":      dialect.Bedrock,
		"bedrock-runtime-fips.us-west-2.amazonaws.com": dialect.Bedrock,
		"generativelanguage.googleapis.com":            dialect.Gemini,
		"cloudcode-pa.googleapis.com":                  dialect.Gemini,
		"us-central1-aiplatform.googleapis.com":        dialect.Vertex,
		"aiplatform.googleapis.com":                    dialect.Vertex,
		"api.groq.com":                                 dialect.Groq,
		"api.cerebras.ai":                              dialect.Cerebras,
		"api.mistral.ai":                               dialect.Mistral,
		"codestral.mistral.ai":                         dialect.Mistral,
		"api.x.ai":                                     dialect.XAI,
		"api.deepseek.com":                             dialect.DeepSeek,
		"openrouter.ai":                                dialect.OpenRouter,
		"api.together.xyz":                             dialect.Together,
		"api.fireworks.ai":                             dialect.Fireworks,
		"api.cohere.com":                               dialect.Cohere,
		"api.perplexity.ai":                            dialect.Perplexity,
		"integrate.api.nvidia.com":                     dialect.Nvidia,
		"huggingface.co":                               dialect.HuggingFace,
		"router.huggingface.co":                        dialect.HuggingFace,
		"api.github.com":                               dialect.GitHub,
		"models.github.ai":                             dialect.GitHub,
		"models.inference.ai.azure.com":                dialect.GitHub, // in full, though Azure claims those below
		"api.cloudflare.com":                           dialect.Cloudflare,
		"ollama.com":                                   dialect.Ollama,
		"api.brightdata.com":                           dialect.BrightData,
		"inference.do-ai.run":                          dialect.DigitalOcean,

		"evilapi.openai.com": dialect.Generic, "openai.azure.com": dialect.Generic, ".openai.azure.com": dialect.Generic,
		"mine.openai.azure.com.evil.com": dialect.Generic, "-aiplatform.googleapis.com": dialect.Generic,
		"bedrock-runtime.evil.com": dialect.Generic, "bedrock-runtime.a.b.amazonaws.com": dialect.Generic,
		"bedrock-runtime..amazonaws.com": dialect.Generic, "notchatgpt.com": dialect.Generic,
		"localhost:8080": dialect.Generic, "": dialect.Generic, "[::1]:80": dialect.Generic, "*": dialect.Generic, ".": dialect.Generic,
	} {
		if got := dialect.ByHost(host); got != want {
			t.Errorf("%q is %s, want %s", host, got.Name, want.Name)
		}
	}
}

func TestByName(t *testing.T) {
	for name, want := range map[string]*dialect.Dialect{
		"OpenAI": dialect.OpenAI, "azure-openai": dialect.Azure, "aws-bedrock": dialect.Bedrock, "google-apis": dialect.Gemini,
		"vertex-ai": dialect.Vertex, "github-models": dialect.GitHub, "llama.cpp": dialect.LlamaCpp, "bright-data": dialect.BrightData,
		"litellm-proxy": dialect.LiteLLM, "ietf": dialect.Generic, "generic": dialect.Generic,
	} {
		if got, ok := dialect.ByName(name); !ok || got != want {
			t.Errorf("%q is %v, %v", name, got, ok)
		}
	}
	if d, ok := dialect.ByName("nobody"); ok {
		t.Error(d.Name)
	}
	seen := map[string]string{}
	for _, d := range dialect.All {
		for _, name := range append([]string{d.Name}, d.Names...) {
			if other, taken := seen[name]; taken {
				t.Errorf("%q is %s and %s", name, other, d.Name)
			}
			seen[name] = d.Name
		}
		// an adapter is a name and a way of reading; there is nothing else.
		if d.Read == nil || d.Name == "" {
			t.Errorf("%+v", d)
		}
	}
}

// find is the only bucket of a unit and a window.
func find(t *testing.T, r dialect.Reading, unit, window string) dialect.Snapshot {
	t.Helper()
	var found *dialect.Snapshot
	for i := range r.Buckets {
		if b := &r.Buckets[i]; b.Unit == unit && b.Window == window {
			if found != nil {
				t.Fatalf("two buckets of %s per %s: %+v", unit, window, r.Buckets)
			}
			found = b
		}
	}
	if found == nil {
		t.Fatalf("no %s per %s in %+v", unit, window, r.Buckets)
	}
	return *found
}

func cerebrasHead(status int, resets bool) dialect.Head {
	h := head(status)
	for i, window := range []string{"minute", "hour", "day"} {
		for j, unit := range []string{"requests", "tokens"} {
			limit := 60 * (i + 1) * (1 + 1000*j)
			h.Header.Set("x-ratelimit-limit-"+unit+"-"+window, fmt.Sprint(limit))
			h.Header.Set("x-ratelimit-remaining-"+unit+"-"+window, fmt.Sprint(limit-1))
			if resets {
				h.Header.Set("x-ratelimit-reset-"+unit+"-"+window, "43.375")
			}
		}
	}
	return h
}

func TestCerebras(t *testing.T) {
	// tokens and requests over minute, hour and day are six snapshots.
	// without any reset header.
	r := readSound(t, dialect.Cerebras, cerebrasHead(200, false), "")
	if len(r.Buckets) != 6 {
		t.Fatalf("%d buckets", len(r.Buckets))
	}
	// unit and window name it; limit and remaining are its own.
	for window, length := range map[string]float64{"minute": 60, "hour": 3600, "day": 86400} {
		for _, unit := range []string{"requests", "tokens"} {
			b := find(t, r, unit, window)
			if b.Limit == nil || b.Remaining == nil || *b.Remaining != *b.Limit-1 {
				t.Errorf("%+v", b)
			}
			// recovery is continuous at limit / window seconds. R-31.
			want := dialect.Recovery{Kind: dialect.Continuous, PerSecond: float64(*b.Limit) / length}
			if b.Recovery != want {
				t.Errorf("%s per %s recovers %+v, want %+v", unit, window, b.Recovery, want)
			}
		}
	}
	// resets are used where they are sent.
	b := find(t, readSound(t, dialect.Cerebras, cerebrasHead(200, true), ""), "tokens", "minute")
	if b.Recovery.Kind != dialect.Continuous || !b.Recovery.At.Equal(noon.Add(43375*time.Millisecond)) {
		t.Errorf("%+v", b.Recovery)
	}
	// a 429 without these headers yields no snapshot.
	r = readSound(t, dialect.Cerebras, head(429, "Retry-After", "57"), `{"message":"Requests per minute limit exceeded - too many requests sent.","type":"too_many_requests_error","param":"quota","code":"request_quota_exceeded"}`)
	if r.Buckets != nil || r.Class != dialect.RateLimited || r.Wait != 57*time.Second || !r.Named {
		t.Errorf("%+v", r)
	}
	// The server's queue is no limit of the caller's, whatever is said of retrying.
	r = readSound(t, dialect.Cerebras, head(429, "x-should-retry", "false"), `{"message":"We're experiencing high traffic right now!","type":"too_many_requests_error","param":"queue","code":"queue_exceeded"}`)
	if r.Class != dialect.Overloaded || r.Told {
		t.Errorf("%+v", r)
	}
	// a snapshot without a limit takes part; without one there is no rate.
	r = readSound(t, dialect.Cerebras, head(200, "X-Ratelimit-Remaining-Requests-Minute", "3", "X-Ratelimit-Reset-Requests-Minute", "20"), "")
	if b := find(t, r, "requests", "minute"); *b.Remaining != 3 || b.Limit != nil || b.Recovery.Kind != dialect.ResetAt {
		t.Errorf("%+v", b)
	}
}

func TestAnthropicBuckets(t *testing.T) {
	// requests, tokens, input-tokens and output-tokens. L-97 and L-98 are
	// among them.
	h := head(200, "Anthropic-Workspace-Id", "w1")
	for _, unit := range []string{"Requests", "Tokens", "Input-Tokens", "Output-Tokens"} {
		h.Header.Set("Anthropic-Ratelimit-"+unit+"-Limit", "50000")
		h.Header.Set("Anthropic-Ratelimit-"+unit+"-Remaining", "49000")
		h.Header.Set("Anthropic-Ratelimit-"+unit+"-Reset", "2026-10-04T12:00:30Z")
	}
	r := readSound(t, dialect.Anthropic, h, "")
	if len(r.Buckets) != 4 {
		t.Fatalf("%+v", r.Buckets)
	}
	for _, unit := range []string{"requests", "tokens", "input_tokens", "output_tokens"} {
		b := find(t, r, unit, "minute")
		// an RFC 3339 instant is a full-at recovery as it stands. L-101.
		if b.Recovery != (dialect.Recovery{Kind: dialect.FullAt, At: noon.Add(30 * time.Second)}) || *b.Limit != 50000 || *b.Remaining != 49000 {
			t.Errorf("%+v", b)
		}
		// the workspace is part of what a bucket is.
		if b.Scope != "w1" {
			t.Errorf("scope %q", b.Scope)
		}
		// thousands may be rounded ones, but requests are counted.
		if want := int64(1000); unit != "requests" && b.Rounding != want || unit == "requests" && b.Rounding != 0 {
			t.Errorf("%s is off by %d", unit, b.Rounding)
		}
	}
	// another workspace's limit under the same name is another bucket.
	h.Header.Set("Anthropic-Workspace-Id", "w2")
	if b := find(t, readSound(t, dialect.Anthropic, h, ""), "tokens", "minute"); b.Scope != "w2" {
		t.Errorf("scope %q", b.Scope)
	}
	// The other families are buckets of their own.
	r = readSound(t, dialect.Anthropic, head(200,
		"Anthropic-Priority-Input-Tokens-Remaining", "5", "Anthropic-Fast-Input-Tokens-Remaining", "6", "Anthropic-Ratelimit-Input-Tokens-Remaining", "7"), "")
	scopes := map[string]int64{}
	for _, b := range r.Buckets {
		scopes[b.Scope] = *b.Remaining
	}
	if len(r.Buckets) != 3 || scopes["priority"] != 5 || scopes["fast"] != 6 || scopes[""] != 7 {
		t.Errorf("%+v", r.Buckets)
	}
	// A spend cap that has no code but this one.
	r = readSound(t, dialect.Anthropic, head(429), `{"type":"error","error":{"type":"rate_limit_error","message":"x","details":{"error_code":"enforced_spend_limit_reached"}}}`)
	if r.Class != dialect.QuotaExhausted || r.Told {
		t.Errorf("%+v", r)
	}
	r = readSound(t, dialect.Anthropic, head(400), `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-11-01 at 00:00 UTC."}}`)
	if r.Class != dialect.QuotaExhausted || r.Wait != time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).Sub(noon) {
		t.Errorf("%+v", r)
	}
}

// Of a plan only the part that is spent is told.
func TestPlans(t *testing.T) {
	for _, c := range []struct {
		name   string
		d      *dialect.Dialect
		h      dialect.Head
		class  dialect.Class
		wait   time.Duration
		used   []float64
		empty  []bool
		resets []time.Duration
	}{
		{"plan with room", dialect.Anthropic, head(200, "Anthropic-Ratelimit-Unified-Status", "allowed",
			"Anthropic-Ratelimit-Unified-5h-Utilization", "0.42", "Anthropic-Ratelimit-Unified-5h-Reset", "1791118800",
			"Anthropic-Ratelimit-Unified-7d-Utilization", "0.3", "Anthropic-Ratelimit-Unified-7d-Reset", "2026-10-09T00:00:00Z"),
			dialect.OK, unsaid, []float64{0.42, 0.3}, []bool{false, false}, []time.Duration{time.Hour, 108 * time.Hour}},
		{"all spent, not refused", dialect.Anthropic, head(200, "Anthropic-Ratelimit-Unified-Status", "allowed_warning",
			"Anthropic-Ratelimit-Unified-5h-Utilization", "1.08", "Anthropic-Ratelimit-Unified-5h-Reset", "1791118800"),
			dialect.OK, unsaid, []float64{1.08}, []bool{true}, []time.Duration{time.Hour}},
		{"both windows refuse: both must open", dialect.Anthropic, head(429, "Anthropic-Ratelimit-Unified-Status", "rejected", "Retry-After", "3600",
			"Anthropic-Ratelimit-Unified-5h-Status", "rejected", "Anthropic-Ratelimit-Unified-5h-Reset", "1791118800", "Anthropic-Ratelimit-Unified-5h-Utilization", "1",
			"Anthropic-Ratelimit-Unified-7d-Status", "rejected", "Anthropic-Ratelimit-Unified-7d-Reset", "1791504000", "Anthropic-Ratelimit-Unified-7d-Utilization", "1"),
			dialect.QuotaExhausted, 108 * time.Hour, []float64{1, 1}, []bool{true, true}, []time.Duration{time.Hour, 108 * time.Hour}},
		{"refused under windows with room", dialect.Anthropic, head(429, "Anthropic-Ratelimit-Unified-Status", "allowed",
			"Anthropic-Ratelimit-Unified-5h-Status", "allowed", "Anthropic-Ratelimit-Unified-5h-Reset", "1791118800", "Anthropic-Ratelimit-Unified-5h-Utilization", "0.1"),
			dialect.RateLimited, unsaid, []float64{0.1}, []bool{false}, []time.Duration{time.Hour}},
		{"nonsense for a part", dialect.Anthropic, head(200, "Anthropic-Ratelimit-Unified-5h-Utilization", "NaN", "Anthropic-Ratelimit-Unified-5h-Reset", "1791118800"),
			dialect.OK, unsaid, []float64{-1}, []bool{false}, []time.Duration{time.Hour}},
		{"codex", dialect.Codex, head(200, "X-Codex-Primary-Used-Percent", "42", "X-Codex-Primary-Reset-At", "1791118800", "X-Codex-Primary-Window-Minutes", "300"),
			dialect.OK, unsaid, []float64{0.42}, []bool{false}, []time.Duration{time.Hour}},
		{"codex beside an API", dialect.OpenAI, head(200, "X-Codex-Primary-Used-Percent", "100", "X-Codex-Primary-Reset-After-Seconds", "60", "X-Codex-Primary-Reset-At", "1791118800"),
			dialect.OK, unsaid, []float64{1}, []bool{true}, []time.Duration{time.Minute}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := readSound(t, c.d, c.h, "")
			wait := unsaid
			if r.Told {
				wait = r.Wait
			}
			if r.Class != c.class || wait != c.wait || len(r.Buckets) != len(c.used) {
				t.Fatalf("%+v", r)
			}
			for i, b := range r.Buckets {
				used := -1.0
				if b.Used != nil {
					used = *b.Used
				}
				if !b.Percent || b.Limit != nil || used != c.used[i] || b.Empty() != c.empty[i] || !b.Recovery.At.Equal(noon.Add(c.resets[i])) {
					t.Errorf("%+v", b)
				}
			}
		})
	}
}

const unsaid = time.Duration(-1)

// How each provider's buckets fill again, and over what.
func TestRecovery(t *testing.T) {
	for _, c := range []struct {
		d            *dialect.Dialect
		name, window string
		kind         dialect.Recovers
	}{
		// OpenAI's are full-at snapshots, in L-99's and L-100's names.
		{dialect.OpenAI, "Requests", dialect.Minute, dialect.FullAt},
		{dialect.OpenAI, "Tokens", dialect.Minute, dialect.FullAt},
		{dialect.OpenAI, "Project-Tokens", dialect.Minute, dialect.FullAt},
		{dialect.Azure, "Requests", dialect.Minute, dialect.FullAt},
		{dialect.Groq, "Requests", dialect.Day, dialect.FullAt},
		{dialect.Groq, "Tokens", dialect.Minute, dialect.FullAt},
		{dialect.Cerebras, "Tokens-Hour", dialect.Hour, dialect.Continuous},
		{dialect.DigitalOcean, "Requests", dialect.Minute, dialect.Continuous},
		{dialect.DigitalOcean, "Tokens-Per-Day", dialect.Day, dialect.Continuous},
		{dialect.Mistral, "Req-Minute", dialect.Minute, dialect.StepAt},
		{dialect.Mistral, "Req-10-Second", dialect.Unknown, dialect.StepAt},
		{dialect.Mistral, "Tokens-Month", dialect.Month, dialect.StepAt},
		{dialect.OpenRouter, "", dialect.Unknown, dialect.StepAt},
		{dialect.GitHub, "", dialect.Hour, dialect.StepAt},
		{dialect.GitHub, "Requests", dialect.Minute, dialect.ResetAt},
		{dialect.Together, "", dialect.Second, dialect.ResetAt},
		{dialect.Fireworks, "Tokens-Prompt", dialect.Minute, dialect.ResetAt},
		{dialect.XAI, "Requests", dialect.Unknown, dialect.ResetAt},
		{dialect.Generic, "Requests", dialect.Unknown, dialect.ResetAt},
		{dialect.Generic, "Tokens-Day", dialect.Day, dialect.ResetAt},
	} {
		name := func(part string) string {
			if c.name == "" {
				return "X-Ratelimit-" + part
			}
			return "X-Ratelimit-" + part + "-" + c.name
		}
		r := readSound(t, c.d, head(200, name("Limit"), "86400", name("Remaining"), "80000", name("Reset"), "20"), "")
		if len(r.Buckets) != 1 {
			t.Fatalf("%s %s: %+v", c.d.Name, c.name, r.Buckets)
		}
		b := r.Buckets[0]
		if b.Window != c.window || b.Recovery.Kind != c.kind || !b.Recovery.At.Equal(noon.Add(20*time.Second)) {
			t.Errorf("%s %s: %+v", c.d.Name, c.name, b)
		}
		if rate := b.Recovery.PerSecond; (rate > 0) != (c.kind == dialect.Continuous) {
			t.Errorf("%s %s: %v a second", c.d.Name, c.name, rate)
		}
	}
	// A hub's fixed window turns as a whole; elsewhere t is the time to more.
	for d, kind := range map[*dialect.Dialect]dialect.Recovers{dialect.HuggingFace: dialect.StepAt, dialect.Cloudflare: dialect.ResetAt} {
		r := readSound(t, d, head(200, "Ratelimit", `"a";r=5;t=9`, "Ratelimit-Policy", `"a";q=500;w=300`), "")
		if b := r.Buckets[0]; b.Recovery.Kind != kind || b.Window != dialect.Unknown || *b.Limit != 500 {
			t.Errorf("%s: %+v", d.Name, b)
		}
	}
	// "Now" under an empty bucket proves nothing: no more may be counted on.
	r := readSound(t, dialect.Azure, head(429, "X-Ratelimit-Limit-Tokens", "5000", "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "0"), "")
	if b := r.Buckets[0]; b.Recovery.Kind != dialect.UnknownRecovery || r.Told {
		t.Errorf("%+v", r)
	}
	// A window that is told goes before the provider's usual one.
	for period, want := range map[string]string{"1": dialect.Second, "10": dialect.Unknown, "60": dialect.Minute, "86400": dialect.Day} {
		r := readSound(t, dialect.Azure, head(200, "X-Ratelimit-Remaining-Requests", "4", "X-Ratelimit-Renewalperiod-Requests", period), "")
		if got := r.Buckets[0].Window; got != want {
			t.Errorf("%s s is %s, want %s", period, got, want)
		}
	}
	for resource, want := range map[string]string{"core": dialect.Hour, "graphql": dialect.Hour, "search": dialect.Minute, "code_search": dialect.Minute, "": dialect.Hour} {
		r := readSound(t, dialect.GitHub, head(200, "X-Ratelimit-Remaining", "4", "X-Ratelimit-Resource", resource), "")
		if got := r.Buckets[0].Window; got != want {
			t.Errorf("%s is %s, want %s", resource, got, want)
		}
	}
}

// who is not described by anybody yields no snapshot of what he did not
// say, and R-32: who says several things yields several.
func TestSnapshotsAreWhatWasSaid(t *testing.T) {
	everyDialect(t, func(t *testing.T, d *dialect.Dialect) {
		if r := readSound(t, d, head(200, "Content-Type", "application/json", "X-Request-Id", "7", "X-Limit", "5"), ""); len(r.Buckets) != 0 {
			t.Errorf("%+v", r.Buckets)
		}
		r := readSound(t, d, head(200, "X-Ratelimit-Remaining-Requests", "5", "X-Ratelimit-Remaining-Tokens", "6"), "")
		if len(r.Buckets) != 2 {
			t.Errorf("%+v", r.Buckets)
		}
		// the head alone is enough, and what is malformed in it takes nothing
		// else with it.
		h := head(200, "X-Ratelimit-Remaining-Requests", "5", "X-Ratelimit-Limit-Requests", "many", "X-Ratelimit-Reset-Requests", "soon", "Retry-After", "???")
		if r := readSound(t, d, h, ""); len(r.Buckets) != 1 || *r.Buckets[0].Remaining != 5 || r.Buckets[0].Limit != nil {
			t.Errorf("%+v", r.Buckets)
		}
	})
}

// The names a client may pace by (S-34), and the forms of a reset.
func TestResetFamily(t *testing.T) {
	for _, names := range [][2]string{
		{"X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"}, {"X-Ratelimit-Remaining", "X-Ratelimit-Reset"}, {"Ratelimit-Remaining", "Ratelimit-Reset"},
	} {
		for value, want := range map[string]time.Duration{
			"20":                             20 * time.Second,       // S-37, L-103
			"6m0s":                           6 * time.Minute,        // S-38, L-102
			"300ms":                          300 * time.Millisecond, // S-39
			fmt.Sprint(noon.Unix() + 30):     30 * time.Second,       // S-40
			fmt.Sprint(noon.UnixMilli() + 9): 9 * time.Millisecond,   // S-43
			"1h30m":                          90 * time.Minute,       // S-41
			"1.5s":                           1500 * time.Millisecond,
			"soon":                           unsaid,
			"":                               unsaid,
			fmt.Sprint(noon.Unix() - 1):      unsaid, // past: this is no wait that could be told
			"2026-10-04T12:01:00Z":           time.Minute,
		} {
			r := readSound(t, dialect.Generic, head(429, names[0], "0", names[1], value), "")
			wait := unsaid
			if r.Told {
				wait = r.Wait
			}
			// S-11: without Retry-After the wait is the reset family's.
			if wait != want {
				t.Errorf("%s: %q is %v, want %v", names[1], value, wait, want)
			}
			// L-111: nothing left, and nobody says until when: there is nothing to do.
			if b := r.Buckets[0]; !b.Empty() || b.Recovery.At.IsZero() != (want == unsaid) {
				t.Errorf("%s: %q is %+v", names[1], value, b)
			}
			// S-10 and S-13: Retry-After is the wait, and wins.
			if r := readSound(t, dialect.Generic, head(429, names[0], "0", names[1], value, "Retry-After", "7"), ""); r.Wait != 7*time.Second && !(want > time.Hour) {
				t.Errorf("beside %q: %v", value, r.Wait)
			}
		}
	}
	// A hostile wait is reported as said, for whoever waits to judge.
	for value, want := range map[string]time.Duration{"86400": 24 * time.Hour, "31536000": 365 * 24 * time.Hour} {
		r := readSound(t, dialect.Generic, head(429, "Retry-After", value), "")
		if r.Wait != want || r.Class != dialect.QuotaExhausted {
			t.Errorf("%+v", r)
		}
	}
	// L-91: an HTTP date. S-18: a malformed one is nothing said.
	if r := readSound(t, dialect.Generic, head(429, "Retry-After", noon.Add(time.Minute).Format(http.TimeFormat)), ""); r.Wait != time.Minute {
		t.Errorf("%+v", r)
	}
	if r := readSound(t, dialect.Generic, head(429, "Retry-After", "Sun, 99 Oct 2026 12:00:30 GMT"), ""); r.Told {
		t.Errorf("%+v", r)
	}
	// L-104: of several empty budgets the one that binds longest counts.
	r := readSound(t, dialect.Anthropic, head(429,
		"Anthropic-Ratelimit-Requests-Remaining", "0", "Anthropic-Ratelimit-Requests-Reset", "2026-10-04T12:00:10Z",
		"Anthropic-Ratelimit-Tokens-Remaining", "0", "Anthropic-Ratelimit-Tokens-Reset", "2026-10-04T12:00:40Z",
		"Anthropic-Ratelimit-Output-Tokens-Remaining", "9", "Anthropic-Ratelimit-Output-Tokens-Reset", "2026-10-04T12:00:50Z"), "")
	if r.Wait != 40*time.Second {
		t.Errorf("%+v", r)
	}
}
