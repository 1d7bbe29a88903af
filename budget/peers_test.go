package budget_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/budget"
)

// A shelf is a store that several books have open.
type shelf struct {
	mu     sync.Mutex
	stored []byte
	broken error
}

func (s *shelf) Get(context.Context, string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stored, s.broken
}

func (s *shelf) Update(_ context.Context, _ string, f func([]byte) []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		s.stored = f(s.stored)
	}
	return s.broken
}

// Of eight processes that all see a pause end, one has the probe, until it is
// sent or two seconds have passed; and each knows how many there are.
func TestOneOfManyProbes(t *testing.T) {
	store := &shelf{}
	var all []*budget.Caller
	for range 8 {
		b := &budget.Book{Store: store}
		c := b.Caller("p/a/", now)
		c.Use(now, func(s *budget.State, _ *budget.Starts) bool {
			s.Close(now, now.Add(time.Second), budget.RateLimit, budget.Told)
			return true
		})
		all = append(all, c)
	}
	claims := func(at time.Time) (n int) {
		for _, c := range all {
			if c.Claim(at) {
				n++
			}
		}
		return n
	}
	if n := claims(now.Add(time.Second - 1)); n != 0 {
		t.Errorf("%d may probe within the pause", n)
	}
	over := now.Add(time.Second)
	if n := claims(over); n != 1 {
		t.Errorf("%d may probe, want 1", n)
	}
	if n := claims(over.Add(2*time.Second - 1)); n != 1 {
		t.Errorf("%d may probe a moment later, want the one", n)
	}
	if n := claims(over.Add(2 * time.Second)); n != 1 {
		t.Errorf("%d may probe after the first has not, want 1", n)
	}
	all[0].Use(over.Add(time.Minute/2), func(s *budget.State, _ *budget.Starts) bool {
		if n := s.Peers(over.Add(time.Minute / 2)); n != 8 {
			t.Errorf("%d processes, want 8", n)
		}
		if n := s.Peers(over.Add(2 * time.Minute)); n != 1 {
			t.Errorf("%d processes long after, want 1", n)
		}
		return false
	})
	// a store that does not work holds nobody up.
	store.broken = errors.New("no disk")
	for _, c := range all {
		if !c.Claim(over.Add(10 * time.Second)) {
			t.Error("a broken store keeps a probe from being sent")
		}
	}
}
