package paceline

import "time"

// A CallerStatus is what one caller key is doing now.
type CallerStatus struct {
	Provider   string `json:"provider"`
	Credential string `json:"credential,omitempty"` // a name such as openai#1
	Account    string `json:"account,omitempty"`
	Scope      string `json:"scope,omitempty"`

	Waiting Waiting `json:"waiting"`
	// Active requests are at the provider; Held places are those of requests
	// whose client has left, while the provider may work on.
	Active int `json:"active"`
	Held   int `json:"held"`
	// Binding is what binds the line now.
	Binding Binding `json:"binding"`

	PausedUntil  time.Time `json:"paused_until,omitzero"`
	PausedWhy    string    `json:"paused_why,omitempty"`
	PausedSource string    `json:"paused_source,omitempty"` // told, learned, operator

	// Limits are the declared ones, Effective what is left of them.
	Limits    LimitsStatus    `json:"limits"`
	Effective EffectiveStatus `json:"effective"`
	Sent60s   int             `json:"sent_60s"`
	Buckets   []BucketStatus  `json:"buckets,omitempty"`
}

// Waiting counts the requests in a line by their priority.
type Waiting struct {
	Interactive int `json:"interactive"`
	Normal      int `json:"normal"`
	Background  int `json:"background"`
}

// A Binding is what binds a line now: why its next request is not sent yet.
type Binding struct {
	// What is one of the Binds constants.
	What string `json:"what"`
	// Says is a short phrase with the figure: "15 per minute".
	Says string `json:"says"`
	// The figure, as far as it is one of these.
	Calls      int       `json:"calls,omitempty"`
	PerMs      int64     `json:"per_ms,omitempty"`
	Concurrent int       `json:"concurrent,omitempty"`
	Factor     float64   `json:"factor,omitempty"`
	Until      time.Time `json:"until,omitzero"`
}

// What may bind a line.
const (
	BindsClients = "clients" // nothing waits
	BindsLimit   = "limit"   // a declared rate
	BindsBudget  = "budget"  // what the provider told is left
	BindsPlaces  = "places"  // how many run at once
	BindsSpacing = "spacing" // starts kept apart after a refusal
	BindsRate    = "rate"    // a learned rate
	BindsFactor  = "factor"  // a declared rate, lowered by refusals
	BindsPause   = "pause"
)

// LimitsStatus are declared limits.
type LimitsStatus struct {
	PerSecond     int     `json:"per_second,omitempty"`
	PerMinute     int     `json:"per_minute,omitempty"`
	PerHour       int     `json:"per_hour,omitempty"`
	PerDay        int     `json:"per_day,omitempty"`
	Concurrent    int     `json:"concurrent,omitempty"`
	Pacing        string  `json:"pacing,omitempty"`
	SafetyMargin  float64 `json:"safety_margin,omitempty"`
	WindowSlackMs int64   `json:"window_slack_ms,omitempty"`
	AbortHoldMs   int64   `json:"abort_hold_ms,omitempty"`
}

// EffectiveStatus is what holds now: declared limits with margin and factor,
// or learned and told ones. What does not limit is absent.
type EffectiveStatus struct {
	Factor     float64 `json:"factor"`
	PerSecond  float64 `json:"per_second,omitempty"`
	PerMinute  float64 `json:"per_minute,omitempty"`
	PerHour    float64 `json:"per_hour,omitempty"`
	Concurrent int     `json:"concurrent,omitempty"`
	SpacingMs  float64 `json:"spacing_ms,omitempty"` // the least time between starts
}

// A BucketStatus is a budget as the provider reported it last.
type BucketStatus struct {
	Unit      string    `json:"unit"`
	Window    string    `json:"window"`
	Scope     string    `json:"scope,omitempty"`
	Limit     *int64    `json:"limit,omitempty"`
	Remaining *int64    `json:"remaining,omitempty"`
	Projected *int64    `json:"projected,omitempty"`
	Floor     *int64    `json:"floor,omitempty"`
	ResetAt   time.Time `json:"reset_at,omitzero"`
}

// Status is what every caller key of this process is doing, in order of their
// names.
func (t *Transport) Status() []CallerStatus {
	t.once.Do(t.init)
	return nil
}
