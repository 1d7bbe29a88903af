package paceline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline/budget"
)

// Cleared is what [Transport.Clear] forgets.
type Cleared string

// What can be forgotten.
const (
	ClearLearned Cleared = "learned" // factor, rate, spacing, places
	ClearBudget  Cleared = "budget"  // what the provider told is left
	ClearAll     Cleared = "all"     // both
)

// longestPause is the longest pause that a Store believes.
const longestPause = 35 * 24 * time.Hour

// Pause closes every caller key of a provider until an instant, those included
// that are seen for the first time later or, with a Store, by another process.
// Requests under way go on, others wait as they wait for their turn, however
// long the pause is. A zero until is as long as can be, 35 days. why is shown to
// those who wait.
func (t *Transport) Pause(provider string, until time.Time, why string) error {
	if err := t.operates(provider); err != nil {
		return err
	}
	now := time.Now()
	if until.IsZero() {
		until = now.Add(longestPause - time.Minute)
	}
	switch {
	case !until.After(now):
		return fmt.Errorf("paceline: a pause of %s until %s is over already: give a later instant", provider, until.Format(time.RFC3339))
	case until.Sub(now) > longestPause:
		return fmt.Errorf("paceline: a pause of %s until %s is too long: 35 days is the most", provider, until.Format(time.RFC3339))
	}
	var standing budget.Pause
	t.home.book.Caller(operatorKey(provider), now).Use(now, func(s *budget.State, _ *budget.Starts) bool {
		if standing = s.Pause; standing.Active(now) && !until.After(standing.Until) {
			return false
		}
		standing = budget.Pause{}
		return s.Close(now, until, reason(why), budget.Operator)
	})
	if !standing.Until.IsZero() && standing.Until.After(until) {
		return fmt.Errorf("paceline: %s is paused until %s already: resume it first to have it open sooner", provider, standing.Until.Format(time.RFC3339))
	}
	for key := range t.home.callersOf(provider) {
		t.home.hold(key, nil, time.Time{}) // the refusal of another pause
	}
	return t.home.order(provider, now)
}

// reason is what somebody says of a pause, in one line that fits a table.
func reason(why string) budget.Reason {
	why = strings.Join(strings.Fields(strings.ToValidUTF8(why, "")), " ")
	if r := []rune(why); len(r) > 200 {
		why = string(r[:200])
	}
	return budget.Reason(orElse(why, "paused"))
}

// Resume ends every pause of a provider: an operator's, a learned and a stated
// one. One request then looks whether the provider lets it through, and the
// others follow one by one.
func (t *Transport) Resume(provider string) error {
	return t.undo(provider, func(o *budget.Orders, now time.Time) { o.Open = now })
}

// Clear forgets what was learned or told of every caller key of a provider.
// Pauses stay: Resume ends them.
func (t *Transport) Clear(provider string, what Cleared) error {
	if what != ClearLearned && what != ClearBudget && what != ClearAll {
		return fmt.Errorf("paceline: %q cannot be cleared: use %s, %s or %s", what, ClearLearned, ClearBudget, ClearAll)
	}
	return t.undo(provider, func(o *budget.Orders, now time.Time) {
		if what != ClearBudget {
			o.Forget = now
		}
		if what != ClearLearned {
			o.Reread = now
		}
	})
}

// undo gives an order to a provider as a whole.
func (t *Transport) undo(provider string, f func(o *budget.Orders, now time.Time)) error {
	if err := t.operates(provider); err != nil {
		return err
	}
	now := time.Now()
	t.home.book.Caller(operatorKey(provider), now).Use(now, func(s *budget.State, _ *budget.Starts) bool {
		order := budget.State{Orders: s.Orders}
		f(&order.Orders, now)
		changed, _ := s.Obey(&order, now)
		return changed
	})
	return t.home.order(provider, now)
}

// operates reports whether a provider is one that can be operated: declared,
// built in, or seen.
func (t *Transport) operates(provider string) error {
	t.once.Do(t.init)
	es := t.entries.Load()
	if es == nil {
		return t.err
	}
	_, err := es.named(provider)
	if err != nil {
		for range t.home.callersOf(provider) {
			return nil
		}
	}
	return err
}

// A PausedStatus is a provider that an operator has paused.
type PausedStatus struct {
	Provider string    `json:"provider"`
	Until    time.Time `json:"until"`
	Why      string    `json:"why"`
}

// Paused lists the providers that operators have paused, as far as this process
// knows, by name.
func (t *Transport) Paused() (all []PausedStatus) {
	t.once.Do(t.init)
	now := time.Now()
	for key, c := range t.home.book.Callers() {
		name, orders := strings.CutSuffix(key, operatorKey(""))
		if provider, err := url.PathUnescape(name); orders && err == nil {
			c.Look(now, func(s *budget.State, _ *budget.Starts) {
				if p := s.Pause; p.Active(now) {
					all = append(all, PausedStatus{provider, p.Until.UTC(), string(p.Reason)})
				}
			})
		}
	}
	slices.SortFunc(all, func(a, b PausedStatus) int { return strings.Compare(a.Provider, b.Provider) })
	return all
}

// operatorKey is where the orders to a provider as a whole are kept, so that
// caller keys obey them which are seen for the first time later. It has one
// slash, a caller key two.
func operatorKey(provider string) string { return url.PathEscape(provider) + "/~operator" }

// orders are those that stand at now, under an operatorKey.
func (h *home) orders(key string, now time.Time) (provider budget.State) {
	h.book.Caller(key, now).Use(now, func(s *budget.State, _ *budget.Starts) bool {
		provider.Pause, provider.Orders = s.Pause, s.Orders
		return false
	})
	return provider
}

// order has every caller key of a provider that is known here obey.
func (h *home) order(provider string, now time.Time) error {
	orders := h.orders(operatorKey(provider), now)
	var errs []error
	for key, c := range h.callersOf(provider) {
		paused, open := false, false
		c.Use(now, func(s *budget.State, _ *budget.Starts) (changed bool) {
			paused = s.Pause.Active(now)
			changed, open = s.Obey(&orders, now)
			return changed
		})
		if open {
			h.hold(key, nil, time.Time{})
			if err := h.gate.Open(context.Background(), key); paused {
				errs = append(errs, err)
			}
		}
		h.gate.Wake(key)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("paceline: %s: %w", provider, err)
	}
	return nil
}

// callersOf yields the caller keys of a provider that are known here.
func (h *home) callersOf(provider string) iter.Seq2[string, *budget.Caller] {
	return func(yield func(string, *budget.Caller) bool) {
		for key, c := range h.book.Callers() {
			if k, ok := parseCallerKey(key); ok && k.provider == provider && !yield(key, c) {
				return
			}
		}
	}
}
