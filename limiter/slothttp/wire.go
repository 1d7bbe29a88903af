package slothttp

import (
	"encoding/json"
	"fmt"
	"time"
)

// version is the protocol's. The slot has none of its own.
const version = "2"

// The codes of errors.
const (
	InvalidParams      = "invalid_params"
	NotOpen            = "not_open"
	Unavailable        = "unavailable"
	UnknownMethod      = "unknown_method"
	UnsupportedVersion = "unsupported_version"
	Unauthorized       = "unauthorized"
)

// A fault is an error on the wire.
type fault struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
}

// The results of the methods that are not asked for often. Bytes are base64 in
// JSON, and null where there are none.
type (
	peekResult struct {
		Now       instant  `json:"now"`
		Throttled *instant `json:"throttled,omitempty"`
		Usage     []usage  `json:"usage"`
	}
	usage struct {
		Used int `json:"used"`
		Held int `json:"held"`
	}
	getResult struct {
		Value []byte `json:"value"`
	}
	swapResult struct {
		Swapped bool   `json:"swapped"`
		Value   []byte `json:"value"` // what is stored, where it was not swapped
	}
)

// An instant is on the wire with three decimals.
type instant time.Time

const instantForm = "2006-01-02T15:04:05.000Z"

// lastInstant is the latest that the form can say.
var lastInstant = time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC)

// appendInstant rounds up, so that nobody asks early.
func appendInstant(b []byte, t time.Time) []byte {
	if past := t.Nanosecond() % 1e6; past > 0 {
		t = t.Add(time.Millisecond - time.Duration(past))
	}
	if t.After(lastInstant) {
		t = lastInstant
	}
	return t.UTC().AppendFormat(b, `"`+instantForm+`"`)
}

func parseInstant(s string) (time.Time, bool) {
	t, err := time.Parse(instantForm, s)
	return t, err == nil && t.Format(instantForm) == s
}

func (i instant) MarshalJSON() ([]byte, error) { return appendInstant(nil, time.Time(i)), nil }

func (i *instant) UnmarshalJSON(b []byte) error {
	var s string
	_ = json.Unmarshal(b, &s) // what is no text is no instant
	t, ok := parseInstant(s)
	if !ok {
		return fmt.Errorf("the instant %.40s is not as %s", b, instantForm)
	}
	*i = instant(t)
	return nil
}

// mostMs is the longest span there is.
const mostMs = int64(1<<63-1) / int64(time.Millisecond)

// ms is a span in milliseconds, rounded up as far as there are such spans.
func ms(d time.Duration) int64 {
	n := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		n++
	}
	return min(n, mostMs)
}

func span(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
