// Package dialect reads what providers say about their limits. It is pure: no
// clock, no state, no I/O. One file holds one provider; what several share is
// in the value parsers.
//
// The class of an answer is decided before its wait: a refusal that no clock
// helps must not be waited for, whatever else it says.
package dialect

import (
	"net/http"
	"net/url"
	"time"
)

// A Dialect is how one provider speaks. Fields left nil mean the usual thing,
// so a provider is mostly data.
type Dialect struct {
	// Name as the configuration writes it: "openai".
	Name string
	// BaseURL is where the provider is reached; with it, there is a built-in
	// entry of this name.
	BaseURL string
	// Names are others that people write for it: "azure-openai".
	Names []string
	// Hosts whose requests speak this dialect when nobody says otherwise: a name,
	// ".domain" for those below it, or one with a star for a part.
	Hosts []string
	// Reports is true where ordinary answers carry budgets.
	Reports bool
	// Read says what one response means. body is the bounded beginning of a
	// refusal's body, decoded; it is nil for a success.
	Read func(h Head, body []byte) Reading
	// Demand says what a request may cost. body is the request's, nil where it
	// could not be read.
	Demand func(r *http.Request, body []byte) Demand
	// Kind says whether a request generates something, lists a catalogue or
	// does something else. nil: by the usual paths.
	Kind func(r *http.Request) Kind
	// Credential returns what is stable in the credential a request carries,
	// empty where there is none. It is a secret: hash it before it leaves the
	// process. nil: an API key in one of the usual places.
	Credential func(h http.Header, u *url.URL) string
	// KeyHeader returns the header that an API key goes in, for a URL. nil: the
	// bearer token of Authorization.
	KeyHeader func(u *url.URL, key string) string
	// KeyVariables are the environment variables that its keys are kept in by
	// custom. nil: NAME_API_KEY.
	KeyVariables []string
	// ChatPath is where chat completions are asked for below the base URL, empty
	// for /v1/chat/completions; and MaxTokens the field that bounds an answer
	// there, empty for max_tokens.
	ChatPath, MaxTokens string
	// KeyPrefixes are the beginnings by which its keys tell whose they are.
	KeyPrefixes []string
	// API is whose API it is, and so in whose shape its clients expect errors.
	API API
	// Tells is a line for the documentation: what is read in its answers.
	Tells string
	// Metering is what its limits are counted per, and how it charges.
	Metering Metering
	// Account returns whom the provider says that it meters, from an answer's
	// headers, empty where they do not say. nil: it is never told.
	Account func(h http.Header) string
}

// An API is one that several providers speak.
type API int

// The APIs that differ in the shape of their errors.
const (
	OpenAIAPI API = iota
	AnthropicAPI
	GeminiAPI
)

// A Head is what is known of a response when its headers have arrived.
type Head struct {
	Status int
	Header http.Header
	// Received is when the head arrived, on our clock.
	Received time.Time
	// Date is the provider's clock then, from its Date header; zero where it
	// sent none. It only turns absolute resets into durations.
	Date time.Time
	// Model the request asked for.
	Model string
}

// now is the instant from which the provider's absolute times are measured.
func (h Head) now() time.Time {
	if !h.Date.IsZero() {
		return h.Date
	}
	return h.Received
}

// A Class says what kind of answer a response is, and so what follows from it.
type Class string

// The classes of an answer.
const (
	OK             Class = "ok"
	RateLimited    Class = "rate_limited"    // a clock helps, soon
	Overloaded     Class = "overloaded"      // the provider is full, whoever asks
	Unavailable    Class = "unavailable"     // any other 5xx, or a lost connection
	QuotaExhausted Class = "quota_exhausted" // a day, month or plan is spent
	Billing        Class = "billing"         // no clock helps
	Rejected       Class = "rejected"        // any other 4xx: the request is wrong
)

// A Reading is what one response said.
type Reading struct {
	Class Class
	// Told is whether the provider said how long to wait, and Wait what it
	// said, from the head's arrival, rounded up to the millisecond. A told 0
	// is "now". One beyond MaxWait is a mistake for whoever waits.
	Told bool
	Wait time.Duration
	// Turns is how long a spent window runs yet by the provider's calendar, where
	// nobody told how long to wait; 0 is not known. Least is the shortest wait
	// that the provider's rules allow then, 0 for any.
	Turns, Least time.Duration
	// Buckets are the budgets the response reported.
	Buckets []Snapshot
	// TooLarge: the request alone exceeds the limit. Waiting cannot help.
	TooLarge bool
	// Concurrent: the limit is on how many requests run at once.
	Concurrent bool
	// Named is true where a refusal says which limit refused: the window or
	// unit in a code, a header or a sentence.
	Named bool
	// Why says in a few words which field decided.
	Why string
}

// The units a bucket counts.
const (
	Requests     = "requests"
	Tokens       = "tokens"
	InputTokens  = "input_tokens"
	OutputTokens = "output_tokens"
)

// The windows a bucket may have. Any other length is Unknown.
const (
	Second  = "second"
	Minute  = "minute"
	Hour    = "hour"
	Day     = "day"
	Month   = "month"
	Unknown = "unknown"
)

// A Snapshot is one bucket as a provider reported it.
type Snapshot struct {
	Unit   string `json:"unit"`
	Window string `json:"window"`
	// Scope tells buckets of one unit and window apart: a model, a workspace,
	// a project. Empty where the provider meters the account.
	Scope string `json:"scope,omitempty"`
	// Limit and Remaining as reported; nil is "not said". A Limit of 0 is no
	// allowance at all.
	Limit     *int64   `json:"limit,omitempty"`
	Remaining *int64   `json:"remaining,omitempty"`
	Recovery  Recovery `json:"recovery"`
	// Rounding is how far off Remaining may be because the provider rounds.
	Rounding int64 `json:"rounding,omitempty"`
	// Percent is true where only the part that is spent is told, as of a
	// subscription's windows: Unit is a stand-in then, and the bucket gives no
	// floor and no spacing. Remaining is 0 where the window refuses or all of it
	// is spent, else nil.
	Percent bool `json:"percent,omitempty"`
	// Used is that part, from 0; above 1 it is overdrawn. nil is not said.
	Used *float64 `json:"used,omitempty"`
}

// Empty reports whether the snapshot says nothing is left.
func (s Snapshot) Empty() bool { return s.Remaining != nil && *s.Remaining <= 0 }

// A Recovery is how a bucket fills again.
type Recovery struct {
	Kind Recovers `json:"kind,omitempty"`
	// At is the instant of a FullAt, StepAt or ResetAt, on our clock. Beside a
	// rate it is the reset that was told as well. It may stand beside an unknown
	// kind: a reset of "now" under an empty bucket was told, and proves nothing.
	At time.Time `json:"at,omitzero"`
	// Turns is when a window of the provider's wall clock turns that told no
	// instant.
	Turns time.Time `json:"turns,omitzero"`
	// Relative is true where At was told as a time from when the answer was
	// made, which may be long before its head came.
	Relative bool `json:"relative,omitempty"`
	// PerSecond is the rate of a Continuous recovery.
	PerSecond float64 `json:"per_second,omitempty"`
}

// Recovers names a way of filling.
type Recovers string

// The ways a bucket fills again.
const (
	UnknownRecovery Recovers = ""           // nothing may be added
	FullAt          Recovers = "full_at"    // evenly, full at the instant
	StepAt          Recovers = "step_at"    // nothing before, all at the instant
	Continuous      Recovers = "continuous" // PerSecond, capped at the limit
	ResetAt         Recovers = "reset_at"   // at the instant, in a way not told
	Rolls           Recovers = "rolls"      // what was taken comes back a window later
)

// A Kind is what a request is for.
type Kind int

// The kinds of request.
const (
	Inference Kind = iota // generates an answer: limited, counted, logged
	Catalog               // lists models or asks for health: only sent
	Other                 // counts tokens, moves files, polls batches
)

// A Demand is what a request may cost, before it is sent.
type Demand struct {
	// Model asked for, empty where the request names none.
	Model string
	// Job is whether the request begins something that is kept and goes on
	// without its client, and so must not be begun twice.
	Job bool
	// Stream is whether the answer is asked for as events.
	Stream bool
	// Input and Output are tokens: an uncalibrated estimate of the input, and
	// what the request lets the answer grow to (0: not said).
	Input, Output int
	// Later is true for a request of a conversation that has begun: an answer of
	// the model's, or a reference to one, is in it.
	Later bool
	// Conversation is what keeps the requests of one conversation together, as
	// the client says it: a key of the provider's cache, or who asks. Empty
	// where the client does not say.
	Conversation string
	// Account is whose request it is, where its credential is a token that is
	// replaced and only the body says whose it is. It stands in for what is stable
	// in the credential, and is as secret.
	Account string
}

// A Usage is what an answer said it cost, in tokens. CachedInput is the part of
// the Input that was read from the provider's cache, CacheWrites the part that
// was written to it.
type Usage struct {
	Input, CachedInput, CacheWrites, Output int
}
