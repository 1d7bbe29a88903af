package dialect

import (
	"fmt"
	"testing"
)

// The forms the golden cases leave out: drafts before names, parameters nobody
// knows, partitions.
func TestIETF(t *testing.T) {
	for _, c := range []struct{ name, left, policy, want string }{
		{"dictionary of draft 07", "limit=100, remaining=50, reset=5", "100;w=60", "[requests minute 50/100]"},
		{"dictionary alone", "limit=100, remaining=50, reset=5", "", "[requests unknown 50/100]"},
		{"unknown parameters", `"a";r=1;t=2;x=3;y`, `"a";q=9;w=3600;comment="one; two, three"`, "[requests hour 1/9]"},
		{"partitions", `"a";r=1;pk=:AA==:`, `"a";q=5;w=60;pk=:AA==:,"a";q=7;w=60;pk=:BB==:`, "[requests minute 1/5 requests minute ?/7]"},
		{"policy alone", "", `"a";q=5;w=1`, "[requests second ?/5]"},
		{"no window", `"a";r=1`, `"a";q=5`, "[requests unknown 1/5]"},
		{"tokens", `"a";r=1`, `"a";q=5;qu="tokens";w=60`, "[tokens minute 1/5]"},
		{"one malformed item spoils its field", `"a";r=1,"b";r=-1`, `"a";q=5;w=60`, "[requests minute ?/5]"},
		{"no quota in a policy", `"a";r=1`, `"a";w=60`, "[requests unknown 1/?]"},
		{"an open string", `"a;r=1`, "", "[]"},
		{"an empty member", `"a";r=1,`, "", "[]"},
	} {
		h := answerTo(200)
		if c.left != "" {
			h.Header.Set("RateLimit", c.left)
		}
		if c.policy != "" {
			h.Header.Set("RateLimit-Policy", c.policy)
		}
		var got []string
		for _, b := range Generic.ReadHead(h, nil).Buckets {
			got = append(got, fmt.Sprintf("%s %s %s/%s", b.Unit, b.Window, said(b.Remaining), said(b.Limit)))
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}

func said(n *int64) string {
	if n == nil {
		return "?"
	}
	return fmt.Sprint(*n)
}

// Every answer is read before a byte of it goes on.
func BenchmarkReadHead(b *testing.B) {
	h := answerTo(200, "Content-Type", "application/json", "Date", "x", "Server", "x", "X-Request-Id", "x",
		"X-Ratelimit-Limit-Requests", "5000", "X-Ratelimit-Remaining-Requests", "4999", "X-Ratelimit-Reset-Requests", "12ms",
		"X-Ratelimit-Limit-Tokens", "160000", "X-Ratelimit-Remaining-Tokens", "159976", "X-Ratelimit-Reset-Tokens", "9ms")
	b.ReportAllocs()
	for b.Loop() {
		OpenAI.ReadHead(h, nil)
	}
}
