package limitertest

import (
	"slices"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// An oracle is the contract in its plainest form: a list of everything that was
// granted, looked through from the start at every question. It is told the
// instant, so that it can be asked about the answers of a limiter in real time.
type oracle struct {
	booked []booking
	held   []tenure
	closed map[string]time.Time
}

type booking struct {
	bucket string
	at     time.Time
	cost   int
	// Of a limit with a cost of its own: whose it is, and of how many calls.
	permit string
	calls  int
}

type tenure struct {
	bucket, permit string
	lapse          time.Time
}

// judge says when r would be granted if nothing else were, and which causes
// refuse it now. The zero time is now.
func (o *oracle) judge(now time.Time, r limiter.Request) (retryAt time.Time, causes map[limiter.Cause]bool) {
	causes = map[limiter.Cause]bool{}
	refuse := func(c limiter.Cause, until time.Time) {
		causes[c] = true
		if until.After(retryAt) {
			retryAt = until
		}
	}
	if until := o.closed[r.Key]; until.After(now) {
		refuse(limiter.Throttle, until)
	}
	for _, l := range r.Limits {
		if until, full := o.full(now, r, l); full {
			refuse(limiter.Rate, until)
		}
		if lapse, taken := o.taken(now, l); taken {
			refuse(limiter.Concurrent, lapse)
		}
	}
	return retryAt, causes
}

func (o *oracle) full(now time.Time, r limiter.Request, l limiter.Limit) (until time.Time, full bool) {
	if l.Calls == 0 {
		return now, false
	}
	cost := min(r.CostOf(l), l.Calls)
	used := 0
	for _, b := range o.booked {
		if b.bucket == l.Key && b.at.Add(l.Per).After(now) {
			used += b.cost
		}
	}
	for _, b := range o.booked {
		if used+cost <= l.Calls {
			break
		}
		if b.bucket == l.Key && b.at.Add(l.Per).After(now) {
			used -= b.cost
			until, full = b.at.Add(l.Per), true
		}
	}
	return until, full
}

func (o *oracle) taken(now time.Time, l limiter.Limit) (lapse time.Time, taken bool) {
	if l.Concurrent == 0 {
		return now, false
	}
	held := 0
	for _, h := range o.held {
		if h.bucket != l.Key || !h.lapse.After(now) {
			continue
		}
		if held++; held == 1 || h.lapse.Before(lapse) {
			lapse = h.lapse
		}
	}
	return lapse, held >= l.Concurrent
}

// book counts what was granted. A bucket counts a call once, however many of
// its windows the request names; patterns give them one cost.
func (o *oracle) book(d limiter.Decision, r limiter.Request) {
	seen := map[string]bool{}
	for _, l := range r.Limits {
		if l.Calls > 0 && !seen[l.Key] {
			seen[l.Key] = true
			b := booking{bucket: l.Key, at: d.Now, cost: min(r.CostOf(l), l.Calls)}
			if l.Cost > 0 {
				b.permit, b.calls = d.Permit, l.Calls
				o.held = append(o.held, tenure{unplaced, d.Permit, d.Now.Add(r.Hold)})
			}
			o.booked = append(o.booked, b)
		}
		if l.Concurrent > 0 {
			o.held = append(o.held, tenure{l.Key, d.Permit, d.Now.Add(r.Hold)})
		}
	}
}

func (o *oracle) release(permit string) {
	kept := o.held[:0]
	for _, h := range o.held {
		if h.permit != permit {
			kept = append(kept, h)
		}
	}
	o.held = kept
}

// unplaced is where those hold a place that can only be settled.
const unplaced = "\x00unplaced"

// settle makes what a permit's call counts in a bucket a total, by what is
// added now or taken off the earliest first.
func (o *oracle) settle(now time.Time, permit, bucket string, total int) {
	own := func(b booking) bool { return b.permit == permit && permit != "" && b.bucket == bucket }
	var first booking
	more := 0
	for _, b := range o.booked {
		if own(b) {
			if more -= b.cost; first.bucket == "" {
				first = b
			}
		}
	}
	live := slices.ContainsFunc(o.held, func(h tenure) bool { return h.permit == permit && h.lapse.After(now) })
	if first.bucket == "" || !live {
		return
	}
	if more += min(total, first.calls); more > 0 {
		first.at, first.cost = now, more
		o.booked = append(o.booked, first)
		return
	}
	for i := range o.booked {
		if b := &o.booked[i]; own(*b) {
			less := min(-more, b.cost)
			b.cost -= less
			more += less
		}
	}
}
