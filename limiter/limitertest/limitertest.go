// Package limitertest holds implementations of limiter.Limiter to the contract.
//
// A backend's own test is a line:
//
//	limitertest.Run(t, limitertest.Harness{Open: open, Unit: 40 * time.Millisecond, Tolerance: time.Millisecond})
//
// The cases are a table: each has a name, the statements of the specification
// it proves, the reason for its rule, and a check that returns an error. So the
// kit itself can be run against limiters that break a promise, and is.
//
// Only the limiter's own instants are compared with each other. A limiter in
// real time is not blamed for a machine that stalls: a case that failed while
// its sleeps came back late is run again, more slowly and with other keys.
package limitertest

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// A Harness says how a limiter is to be tested.
type Harness struct {
	// Open returns the limiter for one case. It may be the same one each time:
	// no two cases name the same key.
	Open func(*testing.T) limiter.Limiter
	// Bubble runs each case in a testing/synctest bubble of its own. The limiter
	// must live by the bubble's clock.
	Bubble bool
	// Unit scales all durations of the cases. 0 is a second in a bubble and
	// 40 ms outside.
	Unit time.Duration
	// Tolerance is by how much a RetryAt may be later than exact, for a limiter
	// that rounds its instants. None may be earlier.
	Tolerance time.Duration
	// Reopen ends a limiter as a process may end, and opens one over the same
	// state. nil: nothing outlives the limiter.
	Reopen func(*testing.T, limiter.Limiter) limiter.Limiter
	// Host opens another limiter over the store of this one, as another host
	// would. Cases may close it, if it can be closed, so what cleans up after them
	// may close it a second time. nil: nobody shares the limiter's state.
	Host func(*testing.T, limiter.Limiter) limiter.Limiter
	// Outcome, where it is set, is told how each case ended: with nil where the
	// limiter kept the rule, with [ErrNotPromised], or with what it broke.
	Outcome func(Case, error)
}

// Run tests a limiter with every case, each as a subtest of its own.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, c := range Cases {
		t.Run(c.Name, func(t *testing.T) {
			if h.Bubble {
				synctest.Test(t, func(t *testing.T) { h.run(t, c) })
				return
			}
			h.run(t, c)
		})
	}
}

// How often a case is run because the machine was late, each time at half the
// pace.
const patience = 6

func (h Harness) run(t *testing.T, c Case) {
	t.Helper()
	for try := 1; ; try++ {
		s := h.subject(h.Open(t), c.Name)
		s.Unit <<= try - 1
		if h.Reopen != nil {
			s.reopen = func(l limiter.Limiter) limiter.Limiter { return h.Reopen(t, l) }
		}
		if h.Host != nil {
			s.host = func(l limiter.Limiter) limiter.Limiter { return h.Host(t, l) }
		}
		err := c.Check(s)
		if err != nil && err != ErrNotPromised && !h.Bubble && s.late() && try < patience {
			t.Logf("run again, since it was late: %v", err)
			continue
		}
		if h.Outcome != nil {
			h.Outcome(c, err)
		}
		switch err {
		case nil:
		case ErrNotPromised:
			t.Skip(err)
		default:
			t.Fatalf("%v\nrule: %s %v", err, c.Why, c.IDs)
		}
		return
	}
}

func (h Harness) subject(l limiter.Limiter, name string) *Subject {
	unit := h.Unit
	if unit == 0 {
		unit = 40 * time.Millisecond
		if h.Bubble {
			unit = time.Second
		}
	}
	return &Subject{Limiter: l, Unit: unit, Tolerance: h.Tolerance, prefix: name + "/" + fresh() + "/", begun: time.Now(), asleep: new(time.Duration)}
}

// A Case is one rule of the contract.
type Case struct {
	Name string
	// IDs are the statements of the specification the case proves.
	IDs []string
	// Why is the reason for the rule.
	Why string
	// Check asks a limiter that nobody else uses with the subject's keys and
	// says how it breaks the rule.
	Check func(*Subject) error
}

// ErrNotPromised is what a Check returns whose rule is for limiters that do
// more than this one.
var ErrNotPromised = errors.New("this limiter does not promise that")

// Cases are the rules, one by one, for a limiter used from one process. [Race] is
// for several.
var Cases = join(grants, windows, costs, places, throttling, answers, patterns, crowds, batches, upgrades, settling, blobs, hosts)

func join(groups ...[]Case) []Case {
	var all []Case
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}
