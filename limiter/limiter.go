// Package limiter is the slot: what keeps calls inside limits, whoever stores
// the counts.
//
// A [Limiter] answers at once and never waits. Whoever asks does the waiting,
// with the instant the answer names. Everything a decision needs travels in
// the [Request], so a limiter holds no configuration and a new limit needs no
// restart.
//
// # The contract
//
// Windows roll. A granted call counts in its window from the instant of its
// grant for Per, then leaves it: inside any span of length Per the summed cost
// stays at or under Calls, for every spacing of the asks. A limiter may book a
// grant later than it happened, never earlier, so it may give up a little of a
// rate but cannot exceed one.
//
// All or none. A grant counts in all limits of its request at once; a refusal
// counts in none of them.
//
// A bucket is its key. Two limits that name one bucket share one count, whoever
// asks. The history of a bucket is kept for the longest Per it has been asked
// with, until it is empty, and each window is judged by the numbers of the
// request at hand. One bucket named with two different Per is two windows over
// one history. A request that names a bucket only for its places counts in none
// of its windows.
//
// A cost above Calls waits for an empty window and then counts as Calls, in
// each window by itself.
//
// A cost that a limit has of its own can be settled ([Settler]) where the
// limiter can do that.
//
// Places. A permit holds one place in each bucket that its request named with
// Concurrent, until it is released or its Hold has passed.
//
// A throttle closes a caller's key to every request that names it, whatever
// its limits, until an instant. A later instant wins, a past one does nothing,
// and permits already held stay held.
//
// RetryAt is exact: asked again at that instant, with nothing granted
// meanwhile, the call is granted; asked before it, a call refused for a rate or
// a throttle is refused again. It reserves nothing.
//
// [github.com/paceline-proxy/paceline/limiter/limitertest] holds any
// implementation to this text.
package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrInvalid is wrapped by the error of an Acquire whose request says
// something impossible. Nothing was counted.
var ErrInvalid = errors.New("invalid limiter request")

// A Limiter keeps calls inside limits. No method waits for room. All methods
// may be called at the same time.
//
// An error means that the question could not be put or made no sense; being
// refused is an answer, not an error.
type Limiter interface {
	// Acquire asks for one call.
	Acquire(ctx context.Context, r Request) (Decision, error)

	// Release gives back the places a permit holds. The calls it counted stay
	// counted. An unknown, lapsed or already released permit is no error.
	Release(ctx context.Context, permit string) error

	// Throttle closes the caller's key until an instant of the caller's own
	// clock.
	Throttle(ctx context.Context, key string, until time.Time) error
}

// A Renewer is a Limiter that can prolong what permits hold, so that a long
// call keeps its places while a crashed holder loses them soon.
type Renewer interface {
	// Renew makes each permit last for hold from now. Unknown and lapsed
	// permits are passed over; a hold that is not positive is ErrInvalid.
	Renew(ctx context.Context, permits []string, hold time.Duration) error
}

// A Settler is a Limiter that can put right what a call counts in windows whose
// limits have a cost of their own: what it costs in tokens shows when it is
// answered, or while it is.
type Settler interface {
	// Settle says what a permit's call has cost so far, all in all, in buckets
	// that its request named with a cost of a limit's own. It may be called any
	// number of times while the permit lasts. Where the total is larger than what
	// counts, the difference counts from now on; where it is smaller, it is taken
	// off what the grant counted, and only then off what was settled since. A
	// total above Calls counts as Calls. What has left its window stays gone.
	//
	// Buckets that the request did not name so are passed over, and so are
	// unknown, lapsed and released permits. A negative total is ErrInvalid.
	Settle(ctx context.Context, permit string, costs []Cost) error
}

// A Cost is what a call costs in a bucket. 0 is nothing.
type Cost struct {
	Key  string
	Cost int
}

// An Opener is a Limiter that can end a throttle before its time.
type Opener interface {
	// Open ends the throttle of a caller's key. A key that is open stays open.
	Open(ctx context.Context, key string) error
}

// A Peeker is a Limiter that can say what it holds against a caller.
type Peeker interface {
	// Peek says how full limits are and until when the caller's key is closed.
	// It counts nothing and keeps nothing.
	Peek(ctx context.Context, key string, limits []Limit) (View, error)
}

// A View is what a limiter holds at one instant.
type View struct {
	// Now is the limiter's clock.
	Now time.Time
	// Throttled is until when the caller's key is closed; zero where it is open.
	Throttled time.Time
	// Usage is how full each limit is, in the order of the question.
	Usage []Usage
}

// Usage is how full one limit is.
type Usage struct {
	Used int // cost in the window of the limit's Per; 0 without one
	Held int // places of the limit's bucket that permits hold
}

// A Seeder is a Limiter that can be told of calls it did not grant itself, so
// that a new one knows what an earlier one has let through.
type Seeder interface {
	// Seed counts a call that was granted at an earlier instant of the caller's
	// clock, with the limits' own costs (0 is 1) and no places. An instant to
	// come counts as now. What is already counted stays counted: seeding a call
	// twice counts it twice.
	Seed(ctx context.Context, limits []Limit, at time.Time) error
}

// A Batcher is a Limiter that answers several requests in one go, as shared
// ones do in one round trip.
type Batcher interface {
	// AcquireBatch asks for calls in order and answers each, as if it were alone
	// and those before it had been answered. Once a request of a caller's key is
	// refused, the later ones of that key in the batch are refused with the same
	// answer, unjudged. One that makes no sense fails the whole batch with
	// ErrInvalid: nothing is counted.
	AcquireBatch(ctx context.Context, rs []Request) ([]Decision, error)
}

// Blobs is a Limiter that keeps what its hosts want to know of each other
// beside its counts. It has the methods of a budget.Store, and its promises.
type Blobs interface {
	// Get returns what is stored, nil where nothing is.
	Get(ctx context.Context, key string) ([]byte, error)
	// Update replaces what is stored by f of it, atomically. f is given nil
	// where nothing is stored and may be called more than once.
	Update(ctx context.Context, key string, f func(old []byte) []byte) error
}

// A Request is one call somebody wants to make.
type Request struct {
	// Key is the caller, whom throttles close.
	Key string
	// Limits the call must fit, all of them. Empty: granted unless throttled.
	Limits []Limit
	// Cost is what the call counts in each window that does not say
	// otherwise. 0 is 1.
	Cost int
	// Hold is how long the permit keeps its places without a release or a
	// renewal, and for how long it can be settled. It may be 0 where no limit
	// names Concurrent; what is granted then cannot be settled.
	Hold time.Duration
}

// A Limit is a rate, a number of places, or both.
type Limit struct {
	// Key is the bucket the limit counts in: opaque, and shared by everyone
	// who names it.
	Key string
	// Calls and Per go together: at most Calls of cost in any span of Per.
	Calls int
	Per   time.Duration
	// Concurrent is how many permits may hold a place of this bucket at once.
	Concurrent int
	// Cost overrides the request's cost in this window, as tokens need. 0 is
	// the request's.
	Cost int
}

// A Decision answers an Acquire.
type Decision struct {
	Granted bool
	// Permit identifies a grant towards Release, Renew and Settle. It is empty
	// where the grant holds no place and no limit has a cost of its own, and
	// where the request has no Hold.
	Permit string
	// Now is the limiter's clock at the decision. Only its difference to
	// RetryAt means something to a caller.
	Now time.Time
	// RetryAt is the latest instant among Refused.
	RetryAt time.Time
	// Refused says what stood in the way, one entry a bucket or throttle.
	Refused []Refusal
}

// RetryAfter is how long after the decision it is worth asking again.
func (d Decision) RetryAfter() time.Duration { return d.RetryAt.Sub(d.Now) }

// A Refusal is one reason a call was not granted.
type Refusal struct {
	// Key is the bucket, or the caller's key where Cause is Throttle.
	Key     string
	RetryAt time.Time
	Cause   Cause
}

// A Cause is why a call was refused.
type Cause string

// The causes of a refusal.
const (
	Rate       Cause = "rate"       // a window is full
	Concurrent Cause = "concurrent" // every place is taken
	Throttle   Cause = "throttle"   // the caller's key is closed
	// Unreachable is the cause under which a host refuses whose shared limiter
	// does not answer. The refusal names the caller's key.
	Unreachable Cause = "unreachable"
)

// Validate reports everything impossible in a request, wrapping ErrInvalid.
func (r Request) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...)))
	}
	if r.Cost < 0 {
		bad("cost %d is negative", r.Cost)
	}
	if r.Hold < 0 {
		bad("hold %v is negative", r.Hold)
	}
	for i, l := range r.Limits {
		switch {
		case l.Calls < 0 || l.Per < 0 || l.Concurrent < 0 || l.Cost < 0:
			bad("limit %q has a negative number", l.Key)
		case (l.Calls > 0) != (l.Per > 0):
			bad("limit %q: calls and per go together", l.Key)
		case l.Calls == 0 && l.Concurrent == 0:
			bad("limit %q limits nothing", l.Key)
		case l.Concurrent > 0 && r.Hold == 0:
			bad("limit %q names concurrent, so the request needs a hold", l.Key)
		}
		for _, earlier := range r.Limits[:i] {
			if earlier.Key == l.Key && earlier.Per == l.Per {
				bad("bucket %q is named twice with per %v", l.Key, l.Per)
			}
		}
	}
	return errors.Join(errs...)
}

// CostOf is what a call of this request counts in a window of l, before the
// rule that a cost above Calls counts as Calls.
func (r Request) CostOf(l Limit) int {
	if l.Cost > 0 {
		return l.Cost
	}
	return max(1, r.Cost)
}

// Equal says whether two requests are the same, word for word: limits in another
// order make another request. Batches hold runs of equal ones, which a limiter can
// look up and be told of once.
func (r Request) Equal(o Request) bool {
	return r.Key == o.Key && r.Cost == o.Cost && r.Hold == o.Hold && slices.Equal(r.Limits, o.Limits)
}
