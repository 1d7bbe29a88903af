package dialect

import (
	"net/http"
	"testing"
)

// What an answer cost in tokens is not what it counts as.
func TestCharged(t *testing.T) {
	u := Usage{Input: 1000, CachedInput: 950, CacheWrites: 30, Output: 7}
	for d, want := range map[*Dialect][3]int{
		nil:       {1007, 1000, 7},
		OpenAI:    {1007, 1000, 7},
		Anthropic: {57, 50, 7},
		Groq:      {57, 50, 7},
		Gemini:    {1000, 1000, 0},
		Cerebras:  {1007, 1000, 7},
	} {
		tokens, input, output := d.Charged(u)
		if got := [3]int{tokens, input, output}; got != want {
			t.Errorf("%+v: %v, want %v", d, got, want)
		}
	}
	if _, input, _ := Anthropic.Charged(Usage{Input: 5, CachedInput: 9}); input != 0 {
		t.Errorf("%d input tokens charged", input)
	}
}

func TestAccountOf(t *testing.T) {
	h := http.Header{}
	h.Set("openai-organization", "org-1")
	h.Set("anthropic-organization-id", "uuid-1")
	for d, want := range map[*Dialect]string{OpenAI: "org-1", Anthropic: "uuid-1", Generic: "", nil: ""} {
		if got := d.AccountOf(h); got != want {
			t.Errorf("%+v: %q, want %q", d, got, want)
		}
	}
}

func TestGroupOf(t *testing.T) {
	family := &Dialect{Metering: Metering{PerModel: true, Group: func(string) string { return "family" }}}
	for model, want := range map[string]string{
		"claude-sonnet-4-5": "claude-sonnet-4.x", "claude-sonnet-4-20250514": "claude-sonnet-4.x", "Claude-Opus-4-8": "claude-opus-4.x",
		"claude-haiku-4-5": "claude-haiku-4-5", "claude-3-5-sonnet": "claude-3-5-sonnet", "": "",
	} {
		if got := Anthropic.GroupOf(model); got != want {
			t.Errorf("%s belongs to %q, want %q", model, got, want)
		}
	}
	for d, want := range map[*Dialect]string{nil: "", Generic: "", OpenAI: "m", family: "family"} {
		if got := d.GroupOf("m"); got != want {
			t.Errorf("%+v: %q, want %q", d, got, want)
		}
	}
}
