package stub

import (
	"fmt"
	"slices"
	"strings"
)

// The words of a configuration are typed strings. Each is a flag value (for
// the flag package and for pflag) and reads itself from text; what it does not
// know is an error that lists what it does. Text is taken in any case, without
// the spaces around it.

// A MeterKind is how a [Meter] counts. The empty kind does not count at all.
type MeterKind string

const (
	Rolling    MeterKind = "rolling"    // at most Limit in any span of Per
	Fixed      MeterKind = "fixed"      // at most Limit in each calendar-aligned Per
	Bucket     MeterKind = "bucket"     // Burst tokens, refilled evenly at Limit per Per
	Concurrent MeterKind = "concurrent" // at most Limit in service at once
)

// A RetryAfter is the form in which a refusal tells its wait.
type RetryAfter string

const (
	RetryAfterSeconds RetryAfter = "seconds" // Retry-After: whole seconds, rounded up
	RetryAfterDecimal RetryAfter = "decimal" // Retry-After: seconds with a fraction, rounded up to the millisecond
	RetryAfterMS      RetryAfter = "ms"      // retry-after-ms: milliseconds, rounded up
	RetryAfterDate    RetryAfter = "date"    // Retry-After: an HTTP date, rounded up to its second
	RetryAfterZero    RetryAfter = "zero"    // Retry-After: 0, whatever the wait
	RetryAfterNone    RetryAfter = "none"    // nothing
)

// Headers names whose budget headers a stub sends.
type Headers string

const (
	HeadersNone         Headers = "none"
	HeadersOpenAI       Headers = "openai"
	HeadersAnthropic    Headers = "anthropic"
	HeadersAzure        Headers = "azure"
	HeadersBedrock      Headers = "bedrock" // tells nothing; refuses as it does
	HeadersCerebras     Headers = "cerebras"
	HeadersClaudePlan   Headers = "claude-plan" // how much of a window of 5 h is spent
	HeadersCodex        Headers = "codex"       // how much of a plan's window is spent
	HeadersCohere       Headers = "cohere"
	HeadersFireworks    Headers = "fireworks"
	HeadersGemini       Headers = "gemini" // tells nothing; refuses as it does
	HeadersGitHub       Headers = "github"
	HeadersGroq         Headers = "groq" // requests per day, tokens per minute
	HeadersIETF         Headers = "ietf"
	HeadersLiteLLM      Headers = "litellm"
	HeadersMistral      Headers = "mistral"
	HeadersOllama       Headers = "ollama"     // tells nothing; refuses as it does
	HeadersOpenRouter   Headers = "openrouter" // tells in refusals
	HeadersTogether     Headers = "together"
	HeadersXAI          Headers = "xai"
	HeadersBrightData   Headers = "brightdata" // tells nothing; refuses as it does
	HeadersCloudflare   Headers = "cloudflare"
	HeadersDeepSeek     Headers = "deepseek"     // tells nothing; refuses as it does
	HeadersDigitalOcean Headers = "digitalocean" // resets are when a request fits
	HeadersGitHubModels Headers = "github-models"
	HeadersHuggingFace  Headers = "huggingface"
	HeadersLlamaCpp     Headers = "llamacpp"   // tells nothing; refuses as it does
	HeadersNvidia       Headers = "nvidia"     // tells nothing; refuses as it does
	HeadersPerplexity   Headers = "perplexity" // tells nothing; refuses as it does
	HeadersVertex       Headers = "vertex"     // tells nothing; refuses as it does
)

// Refusals is a way of refusing: any of the [Headers], for that provider's, or
// one of those that several have.
type Refusals string

const (
	RefusalsTooLarge   Refusals = "too-large"  // 413: no wait would make the request fit
	RefusalsQueueFull  Refusals = "queue-full" // 503 of a server that queues only so many
	RefusalsTGI        Refusals = "tgi"        // 429 of a text server that is full
	RefusalsOverloaded Refusals = "overloaded" // 529, whoever asks
)

// HeadersAt is the instant whose budget the headers tell. The two differ when
// a generation takes time before its head and others are admitted meanwhile.
type HeadersAt string

const (
	AtAdmission HeadersAt = "admission" // just after this request was counted
	AtHead      HeadersAt = "head"      // when the head is written
)

// A FaultKind is what goes wrong.
type FaultKind string

const (
	FaultReset     FaultKind = "reset"      // the connection is lost before the head
	FaultCut       FaultKind = "cut"        // the connection is lost half way through the answer
	FaultSilence   FaultKind = "silence"    // no answer at all until the client leaves
	FaultError     FaultKind = "error"      // a 200 that holds an error: as its body, or as the first event of its stream
	FaultLateError FaultKind = "late-error" // a 200 whose stream ends in an error half way; not streamed, an error for a body
	FaultStatus    FaultKind = "status"     // an error response
)

var (
	meterKinds   = []MeterKind{Rolling, Fixed, Bucket, Concurrent}
	retryAfters  = []RetryAfter{RetryAfterSeconds, RetryAfterDecimal, RetryAfterMS, RetryAfterDate, RetryAfterZero, RetryAfterNone}
	headersWords = []Headers{
		HeadersNone, HeadersOpenAI, HeadersAnthropic, HeadersAzure, HeadersBedrock, HeadersBrightData, HeadersCerebras,
		HeadersClaudePlan, HeadersCloudflare, HeadersCodex, HeadersCohere, HeadersDeepSeek, HeadersDigitalOcean, HeadersFireworks,
		HeadersGemini, HeadersGitHub, HeadersGitHubModels, HeadersGroq, HeadersHuggingFace, HeadersIETF, HeadersLiteLLM,
		HeadersLlamaCpp, HeadersMistral, HeadersNvidia, HeadersOllama, HeadersOpenRouter, HeadersPerplexity, HeadersTogether,
		HeadersVertex, HeadersXAI,
	}
	refusalsWords = append(refusalsOf(headersWords), RefusalsTooLarge, RefusalsQueueFull, RefusalsTGI, RefusalsOverloaded)
	headersAts    = []HeadersAt{AtAdmission, AtHead}
	faultKinds    = []FaultKind{FaultReset, FaultCut, FaultSilence, FaultError, FaultLateError, FaultStatus}
)

// Set reads a kind from text.
func (k *MeterKind) Set(text string) error { return setWord(k, text, meterKinds) }

// Set reads a form from text.
func (r *RetryAfter) Set(text string) error { return setWord(r, text, retryAfters) }

// Set reads a dialect's name from text.
func (h *Headers) Set(text string) error { return setWord(h, text, headersWords) }

// Set reads the name of a way of refusing from text.
func (r *Refusals) Set(text string) error { return setWord(r, text, refusalsWords) }

// refusalsOf are the providers' own ways.
func refusalsOf(headers []Headers) (rs []Refusals) {
	for _, h := range headers {
		rs = append(rs, Refusals(h))
	}
	return rs
}

// Set reads a rule from text.
func (c *Charge) Set(text string) error { return setWord(c, text, charges) }

// Set reads a unit from text.
func (u *Unit) Set(text string) error { return setWord(u, text, units) }

func (c Charge) String() string { return string(c) }
func (u Unit) String() string   { return string(u) }

// Type names the value in a command's help.
func (c Charge) Type() string { return alternatives(charges, "|") }

// Type names the value in a command's help.
func (u Unit) Type() string { return alternatives(units, "|") }

// Set reads an instant's name from text.
func (h *HeadersAt) Set(text string) error { return setWord(h, text, headersAts) }

func (k MeterKind) String() string  { return string(k) }
func (r RetryAfter) String() string { return string(r) }
func (h Headers) String() string    { return string(h) }
func (r Refusals) String() string   { return string(r) }
func (h HeadersAt) String() string  { return string(h) }

// Type names the value in a command's help.
func (k MeterKind) Type() string { return alternatives(meterKinds, "|") }

// Type names the value in a command's help.
func (r RetryAfter) Type() string { return alternatives(retryAfters, "|") }

// HeadersWords lists the words for Headers.
func HeadersWords() string { return alternatives(headersWords, ", ") }

// RefusalsWords lists the words for Refusals that are no provider's.
func RefusalsWords() string { return alternatives(refusalsWords[len(headersWords):], ", ") }

// Type names the value in a command's help.
func (h Headers) Type() string { return "PROVIDER" }

// Type names the value in a command's help.
func (r Refusals) Type() string { return "WHOSE" }

// Type names the value in a command's help.
func (h HeadersAt) Type() string { return alternatives(headersAts, "|") }

// UnmarshalText reads a kind from text.
func (k *MeterKind) UnmarshalText(text []byte) error { return k.Set(string(text)) }

// UnmarshalText reads a form from text.
func (r *RetryAfter) UnmarshalText(text []byte) error { return r.Set(string(text)) }

// UnmarshalText reads a dialect's name from text.
func (h *Headers) UnmarshalText(text []byte) error { return h.Set(string(text)) }

// UnmarshalText reads the name of a way of refusing from text.
func (r *Refusals) UnmarshalText(text []byte) error { return r.Set(string(text)) }

// UnmarshalText reads an instant's name from text.
func (h *HeadersAt) UnmarshalText(text []byte) error { return h.Set(string(text)) }

func setWord[T ~string](to *T, text string, words []T) error {
	word := T(strings.ToLower(strings.TrimSpace(text)))
	if !slices.Contains(words, word) {
		return unknown(text, words)
	}
	*to = word
	return nil
}

// known passes the empty word, which always means the default.
func known[T ~string](word T, words []T) error {
	if word == "" || slices.Contains(words, word) {
		return nil
	}
	return unknown(string(word), words)
}

func unknown[T ~string](text string, words []T) error {
	return fmt.Errorf("unknown word %q: use %s", text, alternatives(words, ", "))
}

func alternatives[T ~string](words []T, between string) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = string(w)
	}
	return strings.Join(all, between)
}
