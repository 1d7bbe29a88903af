package dialect

import "time"

// The bounds of what a slot's host throttles its key for.
const (
	LeastVendorWait = time.Second
	MostVendorWait  = 2 * time.Minute
)

// VendorWait is for how long the host of a [limiter.Limiter] closes its own key
// after a refusal: what the vendor said, but at least a second and at most two
// minutes; otherwise where it said nothing. The host calls Throttle with it,
// hands back its permit, and waits as for any refusal. What becomes of longer
// waits is asked again then.
//
// [limiter.Limiter]: https://pkg.go.dev/github.com/paceline-proxy/paceline/limiter#Limiter
func VendorWait(r Reading, otherwise time.Duration) time.Duration {
	if !r.Told {
		return otherwise
	}
	return min(max(r.Wait, LeastVendorWait), MostVendorWait)
}

// VendorBudget is for how long a host closes its own key after a success that
// was received at an instant: until the last reset among the budgets that it
// reports as empty, at most two minutes. It is 0 where there is nothing to do:
// all have something left, or nobody says when an empty one fills again.
func VendorBudget(r Reading, received time.Time) (closed time.Duration) {
	for _, b := range r.Buckets {
		if b.Empty() && !b.Recovery.At.IsZero() {
			closed = max(closed, b.Recovery.At.Sub(received))
		}
	}
	return min(closed, MostVendorWait)
}
