package paceline

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/paceline-proxy/paceline/dialect"
)

// A Record is the row of one attempt, or of a request that was refused before
// sending. It holds no prompt, no answer and no credential.
type Record struct {
	ID      string // of the request, the same for all its attempts
	Attempt int    // from 1; 0 where none was made

	Arrived time.Time
	Sent    time.Time // zero where nothing was sent
	Done    time.Time

	Provider   string
	Credential string // a name such as openai#1
	Account    string
	Scope      string
	Tier       string
	Model      string

	Status int
	Class  dialect.Class
	// Wait is what the provider said to wait; Told whether it said anything.
	Wait time.Duration
	Told bool
	// Queued is how long this attempt stood in our line.
	Queued time.Duration

	// Evidence is given with every refusal for a rate.
	Evidence *Evidence
	// Observed is given in the mode Observe, and where budgets are only logged
	// for what would have waited for one.
	Observed *Observed

	NotSent bool
	Timeout bool // cut by a duration cap
	Aborted bool // the client left
	Retry   bool // not the first attempt
	// What serves requests in other ways than sending them sets these two and
	// Tier. A Transport does not.
	Cache bool // answered from a cache
	Saved int  // requests saved by batching

	Client, Purpose, Run, Priority string

	InTokens, OutTokens int // 0 where they are not known

	Error string
}

// Evidence is what our own sending looked like when a refusal came.
type Evidence struct {
	// UnderLimit is whether our starts were within every configured rate.
	UnderLimit bool
	// Sent60s and Sent1s count our starts, the refused one included.
	Sent60s, Sent1s int
	// Factor is the adaptive factor in force after the refusal, Adapted
	// whether this refusal lowered it.
	Factor  float64
	Adapted bool
}

// OK reports whether the attempt brought an answer.
func (r *Record) OK() bool {
	return !r.NotSent && r.Status >= 200 && r.Status < 400 && r.Error == "" && !r.Aborted && !r.Timeout &&
		(r.Class == dialect.OK || r.Class == "")
}

// recordJSON is a record as logs and scripts see it: unknown is absent.
type recordJSON struct {
	ID          string        `json:"id,omitempty"`
	Attempt     int           `json:"attempt,omitempty"`
	Arrived     *instant      `json:"t_arrived,omitempty"`
	Sent        *instant      `json:"t_sent,omitempty"`
	Done        *instant      `json:"t_done,omitempty"`
	Provider    string        `json:"provider,omitempty"`
	Credential  string        `json:"credential,omitempty"`
	Account     string        `json:"account,omitempty"`
	Scope       string        `json:"scope,omitempty"`
	Tier        string        `json:"tier,omitempty"`
	Model       string        `json:"model,omitempty"`
	Status      int           `json:"status,omitempty"`
	Class       dialect.Class `json:"class,omitempty"`
	WaitMs      *int64        `json:"wait_ms,omitempty"`
	QueuedMs    int64         `json:"queued_ms"`
	UnderLimit  *bool         `json:"under_limit,omitempty"`
	Sent60s     *int          `json:"sent_60s,omitempty"`
	Sent1s      *int          `json:"sent_1s,omitempty"`
	RateFactor  *float64      `json:"rate_factor,omitempty"`
	RateAdapted bool          `json:"rate_adapted,omitempty"`
	ObservedMs  *int64        `json:"observed_ms,omitempty"`
	ObservedWhy string        `json:"observed_why,omitempty"`
	NotSent     bool          `json:"not_sent,omitempty"`
	Timeout     bool          `json:"timeout,omitempty"`
	Aborted     bool          `json:"aborted,omitempty"`
	Retry       bool          `json:"retry,omitempty"`
	Cache       bool          `json:"cache,omitempty"`
	Saved       int           `json:"saved,omitempty"`
	Client      string        `json:"client,omitempty"`
	Purpose     string        `json:"purpose,omitempty"`
	Run         string        `json:"run,omitempty"`
	Priority    string        `json:"priority,omitempty"`
	InTokens    int           `json:"in_tokens,omitempty"`
	OutTokens   int           `json:"out_tokens,omitempty"`
	Error       string        `json:"error,omitempty"`
}

// MarshalJSON writes the row of a log: snake_case, durations in milliseconds,
// instants in RFC 3339 with milliseconds, and nothing where nothing is known.
func (r Record) MarshalJSON() ([]byte, error) {
	j := recordJSON{
		ID: r.ID, Attempt: r.Attempt,
		Arrived: instantOf(r.Arrived), Sent: instantOf(r.Sent), Done: instantOf(r.Done),
		Provider: r.Provider, Credential: r.Credential, Account: r.Account, Scope: r.Scope,
		Tier: r.Tier, Model: r.Model, Status: r.Status, Class: r.Class,
		QueuedMs: r.Queued.Milliseconds(),
		NotSent:  r.NotSent, Timeout: r.Timeout, Aborted: r.Aborted, Retry: r.Retry,
		Cache: r.Cache, Saved: r.Saved,
		Client: r.Client, Purpose: r.Purpose, Run: r.Run, Priority: r.Priority,
		InTokens: r.InTokens, OutTokens: r.OutTokens, Error: r.Error,
	}
	if r.Told {
		ms := r.Wait.Milliseconds()
		j.WaitMs = &ms
	}
	if e := r.Evidence; e != nil {
		j.UnderLimit, j.Sent60s, j.Sent1s, j.RateFactor, j.RateAdapted =
			&e.UnderLimit, &e.Sent60s, &e.Sent1s, &e.Factor, e.Adapted
	}
	if o := r.Observed; o != nil {
		ms := o.Wait.Milliseconds()
		j.ObservedMs, j.ObservedWhy = &ms, o.Why
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Record) UnmarshalJSON(b []byte) error {
	var j recordJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*r = Record{
		ID: j.ID, Attempt: j.Attempt,
		Arrived: j.Arrived.time(), Sent: j.Sent.time(), Done: j.Done.time(),
		Provider: j.Provider, Credential: j.Credential, Account: j.Account, Scope: j.Scope,
		Tier: j.Tier, Model: j.Model, Status: j.Status, Class: j.Class,
		Queued:  fromMs(j.QueuedMs),
		NotSent: j.NotSent, Timeout: j.Timeout, Aborted: j.Aborted, Retry: j.Retry,
		Cache: j.Cache, Saved: j.Saved,
		Client: j.Client, Purpose: j.Purpose, Run: j.Run, Priority: j.Priority,
		InTokens: j.InTokens, OutTokens: j.OutTokens, Error: j.Error,
	}
	if j.WaitMs != nil {
		r.Told, r.Wait = true, fromMs(*j.WaitMs)
	}
	if j.ObservedMs != nil {
		r.Observed = &Observed{Wait: fromMs(*j.ObservedMs), Why: j.ObservedWhy}
	}
	if j.UnderLimit != nil {
		r.Evidence = &Evidence{UnderLimit: *j.UnderLimit, Adapted: j.RateAdapted}
		if j.Sent60s != nil {
			r.Evidence.Sent60s = *j.Sent60s
		}
		if j.Sent1s != nil {
			r.Evidence.Sent1s = *j.Sent1s
		}
		if j.RateFactor != nil {
			r.Evidence.Factor = *j.RateFactor
		}
	}
	return nil
}

// An instant is written with milliseconds, whether they are zero or not.
type instant time.Time

func instantOf(t time.Time) *instant {
	if t.IsZero() {
		return nil
	}
	return (*instant)(&t)
}

func (i *instant) time() time.Time {
	if i == nil {
		return time.Time{}
	}
	return time.Time(*i)
}

func (i instant) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Time(i).UTC().Format("2006-01-02T15:04:05.000Z"))
}

func (i *instant) UnmarshalJSON(b []byte) error {
	if err := (*time.Time)(i).UnmarshalJSON(b); err != nil {
		return err
	}
	// Beyond these years it could not be written again, in UTC.
	if y := time.Time(*i).UTC().Year(); y < 0 || y > 9999 {
		return fmt.Errorf("instant %s is beyond the years 0 to 9999 of UTC", b)
	}
	return nil
}

// fromMs is ms milliseconds, or the longest duration where that is longer.
func fromMs(ms int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Millisecond)
	return time.Duration(min(max(ms, -most), most)) * time.Millisecond
}
