package slothttp

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
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

// A call is what is posted.
type call struct {
	ProtocolVersion string `json:"protocolVersion"`
	Method          string `json:"method"`
	Params          any    `json:"params"`
}

// An answer is what comes back.
type answer struct {
	OK     bool   `json:"ok"`
	Result any    `json:"result,omitempty"`
	Error  *fault `json:"error,omitempty"`
}

// A fault is an error on the wire.
type fault struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
}

// What is posted is read with pointers, so that a 0 differs from what is not
// there.
type (
	wireLimit struct {
		Key        *string `json:"key"`
		Calls      *int64  `json:"calls,omitempty"`
		PerMs      *int64  `json:"perMs,omitempty"`
		Concurrent *int64  `json:"concurrent,omitempty"`
		Cost       *int64  `json:"cost,omitempty"`
	}
	wireRequest struct {
		Key    *string      `json:"key"`
		Limits *[]wireLimit `json:"limits"`
		Cost   *int64       `json:"cost,omitempty"`
		HoldMs *int64       `json:"holdMs,omitempty"`
	}
	wireCost struct {
		Key  *string `json:"key"`
		Cost *int64  `json:"cost"`
	}
	batchParams struct {
		Requests *[]wireRequest `json:"requests"`
	}
	permitParams struct {
		Permit *string     `json:"permit"`
		Costs  *[]wireCost `json:"costs,omitempty"`
	}
	renewParams struct {
		Permits *[]string `json:"permits"`
		HoldMs  *int64    `json:"holdMs"`
	}
	throttleParams struct {
		Key   *string  `json:"key"`
		Until *instant `json:"until"`
		ForMs *int64   `json:"forMs,omitempty"`
	}
	keyParams struct {
		Key *string `json:"key"`
	}
	openParams struct {
		Settings map[string]string `json:"settings"`
	}
	seedParams struct {
		Limits *[]wireLimit `json:"limits"`
		AgoMs  *int64       `json:"agoMs"`
	}
	swapParams struct {
		Key *string `json:"key"`
		Old *[]byte `json:"old"`
		New *[]byte `json:"new"`
	}
)

type (
	decision struct {
		Granted      bool      `json:"granted"`
		Permit       *string   `json:"permit,omitempty"`
		Now          *instant  `json:"now,omitempty"`
		RetryAt      *instant  `json:"retryAt,omitempty"`
		RetryAfterMs *int64    `json:"retryAfterMs,omitempty"`
		Refused      []refusal `json:"refused,omitempty"`
	}
	refusal struct {
		Key     string        `json:"key"`
		Cause   limiter.Cause `json:"cause"`
		RetryAt *instant      `json:"retryAt"`
	}
	batchResult struct {
		Results []decision `json:"results"`
	}
	peekResult struct {
		Now       *instant `json:"now"`
		Throttled *instant `json:"throttled,omitempty"`
		Usage     []usage  `json:"usage"`
	}
	usage struct {
		Used int `json:"used"`
		Held int `json:"held"`
	}
	getResult struct {
		Value *[]byte `json:"value"`
	}
	swapResult struct {
		Swapped bool    `json:"swapped"`
		Value   *[]byte `json:"value,omitempty"`
	}
)

// An instant is on the wire with three decimals.
type instant time.Time

const instantForm = "2006-01-02T15:04:05.000Z"

// lastInstant is the latest that the form can say.
var lastInstant = time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC)

// at is an instant as the wire has it: rounded up, so that nobody asks early.
func at(t time.Time) *instant {
	if past := t.Nanosecond() % 1e6; past > 0 {
		t = t.Add(time.Millisecond - time.Duration(past))
	}
	if t.After(lastInstant) {
		t = lastInstant
	}
	i := instant(t.UTC())
	return &i
}

func (i instant) MarshalJSON() ([]byte, error) {
	return time.Time(i).AppendFormat(nil, `"`+instantForm+`"`), nil
}

func (i *instant) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("an instant is no text: write it as %s", instantForm)
	}
	t, err := time.Parse(instantForm, s)
	if err != nil || t.Format(instantForm) != s {
		return fmt.Errorf("the instant %.40q is not as %s", s, instantForm)
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
