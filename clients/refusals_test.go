package clients

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/stub"
)

// A way is how a provider refuses, and in which form it tells the wait.
type way struct {
	dialect string // as the configuration names it
	manner  stub.Headers
	tells   stub.RetryAfter
}

func (w way) name() string { return fmt.Sprintf("like-%s-%s", w.manner, w.tells) }

var ways = map[string][]way{
	"chat": {
		{"openai", stub.HeadersOpenAI, stub.RetryAfterSeconds},
		{"openai", stub.HeadersOpenAI, stub.RetryAfterMS},
		{"openai", stub.HeadersOpenAI, stub.RetryAfterDate},
		{"openai", stub.HeadersOpenAI, stub.RetryAfterNone},
		{"azure", stub.HeadersAzure, stub.RetryAfterMS},
		{"groq", stub.HeadersGroq, stub.RetryAfterSeconds},
		{"cerebras", stub.HeadersCerebras, stub.RetryAfterSeconds},
		{"mistral", stub.HeadersMistral, stub.RetryAfterSeconds},
		{"openrouter", stub.HeadersOpenRouter, stub.RetryAfterSeconds},
		{"gemini", stub.HeadersGemini, stub.RetryAfterSeconds},
		{"github", stub.HeadersGitHubModels, stub.RetryAfterSeconds},
		{"xai", stub.HeadersXAI, stub.RetryAfterSeconds},
		{"codex", stub.HeadersCodex, stub.RetryAfterSeconds},
		{"ollama", stub.HeadersOllama, stub.RetryAfterSeconds},
	},
	"messages": {
		{"anthropic", stub.HeadersAnthropic, stub.RetryAfterSeconds},
		{"anthropic", stub.HeadersAnthropic, stub.RetryAfterZero},
		{"anthropic", stub.HeadersClaudePlan, stub.RetryAfterSeconds},
		{"bedrock", stub.HeadersBedrock, stub.RetryAfterSeconds},
		{"vertex", stub.HeadersVertex, stub.RetryAfterSeconds},
		{"litellm", stub.HeadersLiteLLM, stub.RetryAfterDate},
	},
}

// P-51, P-76 to P-78: however a provider refuses and in whatever form it tells
// the wait, a client of an SDK sees answers only, nothing is sent into the
// wait, and nothing is generated twice. The limit is told by nobody before the
// refusal, so each second request is refused.
func TestRefusalsOfEachProvider(t *testing.T) {
	const window = 2 * time.Second
	each(t, func(t *testing.T, s sdk) {
		var (
			config strings.Builder
			asks   []ask
			met    []*upstream
		)
		config.WriteString("listen: 127.0.0.1:0\nproviders:\n")
		for _, w := range ways[s.apis[0]] {
			u := newUpstream(t, stub.Config{
				Meters:   []stub.Meter{{Kind: stub.Rolling, Limit: 1, Per: window}},
				Refusals: stub.Refusals(w.manner), RetryAfter: w.tells,
			})
			met = append(met, u)
			fmt.Fprintf(&config, "  %s:\n    baseURL: %s\n    dialect: %s\n    %s\n", w.name(), u.url, w.dialect, exact)
		}
		p := serve(t, config.String())
		// All the first ones, then all the second, would find every window open.
		for _, w := range ways[s.apis[0]] {
			for _, what := range []string{"The first.", "The second, at once."} {
				a := s.say(what)
				a.Base = p.url + "/" + w.name()
				asks = append(asks, a)
			}
		}
		got := s.prepare(t, job{Base: p.url, Asks: asks})()
		for i, w := range ways[s.apis[0]] {
			for n, g := range got[2*i : 2*i+2] {
				if g.Error != "" || g.Text != generation(n+1) || statuses(g.Answers) != "200" {
					t.Errorf("%s: %q %s; answers %s", w.name(), g.Text, g.Error, statuses(g.Answers))
				}
			}
			c := met[i].stub.Counts()
			if c.Refused == 0 || c.Early > 0 || c.Repeated > 0 || c.Admitted != 2 {
				t.Errorf("%s: %+v", w.name(), c)
			}
		}
	})
}
