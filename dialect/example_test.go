package dialect_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline/dialect"
)

// Reading a refusal: what kind it is, how long to wait, what is left.
func Example() {
	head := dialect.Head{
		Status:   http.StatusTooManyRequests,
		Received: time.Date(2026, 8, 20, 0, 0, 0, 0, time.UTC),
		Header: http.Header{
			"Retry-After":                    {"56"},
			"X-Ratelimit-Limit-Requests":     {"60"},
			"X-Ratelimit-Remaining-Requests": {"0"},
			"X-Ratelimit-Reset-Requests":     {"1s"},
		},
	}
	body := []byte(`{"error":{"type":"requests","code":"rate_limit_exceeded"}}`)

	r := dialect.ByHost("api.openai.com").ReadHead(head, body)
	fmt.Println(r.Class, r.Wait)
	for _, b := range r.Buckets {
		fmt.Println(*b.Remaining, "of", *b.Limit, b.Unit, "per", b.Window, "full at", b.Recovery.At.Format(time.TimeOnly))
	}
	// Output:
	// rate_limited 56s
	// 0 of 60 requests per minute full at 00:00:01
}

// What is left, read from any response: the head alone is enough for that.
func ExampleDialect_ReadHead() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Ratelimit-Limit-Tokens", "40000")
		w.Header().Set("X-Ratelimit-Remaining-Tokens", "38500")
	}))
	defer server.Close()

	res, err := http.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	r := dialect.OpenAI.ReadHead(dialect.Head{Status: res.StatusCode, Header: res.Header, Received: time.Now()}, nil)
	for _, b := range r.Buckets {
		fmt.Println(r.Class, *b.Remaining, "of", *b.Limit, b.Unit)
	}
	// Output: ok 38500 of 40000 tokens
}

// No wait helps against an empty purse, whatever the status says.
func ExampleDialect_ReadHead_billing() {
	head := dialect.Head{Status: http.StatusTooManyRequests, Received: time.Now()}
	body := []byte(`{"error":{"type":"insufficient_quota","code":"credit_balance_exhausted"}}`)

	r := dialect.OpenAI.ReadHead(head, body)
	fmt.Println(r.Class, r.Told)
	// Output: billing false
}

// What a request may cost is known before it is sent.
func ExampleDialect_DemandOf() {
	body := `{"model":"claude-x","max_tokens":1024,"stream":true,"messages":[]}`
	req := httptest.NewRequest("POST", "https://api.anthropic.com/v1/messages", strings.NewReader(body))

	d := dialect.Anthropic.DemandOf(req, []byte(body))
	fmt.Println(d.Model, d.Stream, d.Input, d.Output)
	// Output: claude-x true 16 1024
}

// What an answer cost counts in its provider's buckets as that provider says:
// what Anthropic reads from its cache is free.
func ExampleDialect_Charged() {
	u := dialect.Usage{Input: 20_000, CachedInput: 19_000, Output: 300}
	_, input, output := dialect.Anthropic.Charged(u)
	fmt.Println(input, output)
	// Output: 1000 300
}
