package budget

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"
)

// A Store keeps the State of each caller key as bytes, for every process that
// opens it. Keys may hold any characters and are never secret.
type Store interface {
	// Get returns what is stored, nil where nothing is.
	Get(ctx context.Context, key string) ([]byte, error)
	// Update replaces what is stored by f of it, atomically. f is given nil
	// where nothing is stored and may be called more than once.
	Update(ctx context.Context, key string, f func(old []byte) []byte) error
}

// longest is the longest pause that is believed: weekly and monthly windows
// are real, a longer one is a mistake or a clock.
const longest = 35 * 24 * time.Hour

// slowest is the least learned rate that is believed, in starts a second: what
// is slower than one an hour is a pause, not a rate.
const slowest = 1.0 / 3600

// Encode writes a state for a store.
func Encode(s State) ([]byte, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("writing state: %w", err)
	}
	return b, nil
}

// Decode reads a state from a store. What cannot be true at now is dropped:
// a clock that was wrong when the state was written, or is wrong now, must
// not close a key for ever or keep it from learning again.
func Decode(b []byte, now time.Time) (State, error) {
	if len(b) == 0 {
		return State{}, nil
	}
	var s State
	if err := json.Unmarshal(b, &s); err != nil {
		return State{}, fmt.Errorf("reading stored state: %w", err)
	}
	s.sane(now)
	return s, nil
}

// sane makes every part of a state possible at now.
func (s *State) sane(now time.Time) {
	if !s.Pause.Active(now) || s.Pause.Until.Sub(now) > longest {
		s.Pause = Pause{}
	}
	for _, t := range []*time.Time{
		&s.Episode.Began, &s.Episode.Ended, &s.Episode.Changed, &s.Episode.Since,
		&s.Factor.Changed, &s.Factor.Refused,
		&s.Rate.Changed, &s.Rate.Since, &s.Spacing.Changed, &s.Places.Changed, &s.Probe.Changed,
		&s.Pause.Made, &s.Orders.Open, &s.Orders.Forget, &s.Orders.Reread,
	} {
		if t.After(now) {
			*t = now
		}
	}
	if s.Probe.Sent.After(now) {
		s.Probe.Sent = time.Time{}
	}
	if s.Probe.Claimed.Sub(now) > claimFor {
		s.Probe.Claimed = time.Time{}
	}
	maps.DeleteFunc(s.Processes, func(_ string, at time.Time) bool { return at.After(now) })
	if s.Overload.Until.Sub(now) > time.Minute {
		s.Overload = Overload{}
	}
	if !(s.Factor.Value > 0 && s.Factor.Value < 1) {
		s.Factor.Value = 0
	}
	if !(s.Rate.PerSecond > slowest && s.Rate.PerSecond < 1e9) {
		s.Rate = Rate{Changed: s.Rate.Changed} // forgotten, for all
	}
	s.Rate.Refused = max(0, s.Rate.Refused)
	s.Rate.Admitted, s.Rate.Used = max(0, s.Rate.Admitted), max(0, s.Rate.Used)
	s.Spacing.Every = min(max(0, s.Spacing.Every), time.Minute)
	s.Overload.Every = min(max(0, s.Overload.Every), time.Minute)
	s.Places.N, s.Places.Admitted = max(0, s.Places.N), max(0, s.Places.Admitted)
	s.Episode.Refusals = min(max(0, s.Episode.Refusals), 1000)
	s.Episode.Admitted, s.Episode.Through = max(0, s.Episode.Admitted), max(0, s.Episode.Through)
	if len(s.Readings) > maxReadings {
		s.Readings = s.Readings[:maxReadings]
	}
	kept := s.Readings[:0]
	for _, r := range s.Readings {
		if !r.Sent.After(now) {
			kept = append(kept, r)
		}
	}
	s.Readings = kept
	s.Ratios = s.Ratios.sane(now)
}

// Merge joins what two processes know of one key: the longer pause, and of
// each lesson the one that changed last, after both have obeyed the orders of
// either.
func Merge(a, b State) State {
	orders := a.Orders.and(b.Orders)
	a.obey(orders)
	b.obey(orders)
	m := a
	m.Pause = newer(a.Pause, b.Pause, a.Pause.Until, b.Pause.Until)
	if a.Pause.Until.Equal(b.Pause.Until) {
		m.Pause.Look = newer(a.Pause.Look, b.Pause.Look, a.Pause.Look, b.Pause.Look)
	}
	m.Probe = newer(a.Probe, b.Probe, a.Probe.Changed, b.Probe.Changed)
	m.Episode = newer(a.Episode, b.Episode, a.Episode.Changed, b.Episode.Changed)
	m.Factor = newer(a.Factor, b.Factor, a.Factor.Changed, b.Factor.Changed)
	m.Factor.Refused = newer(a.Factor.Refused, b.Factor.Refused, a.Factor.Refused, b.Factor.Refused)
	m.Rate = newer(a.Rate, b.Rate, a.Rate.Changed, b.Rate.Changed)
	m.Spacing = newer(a.Spacing, b.Spacing, a.Spacing.Changed, b.Spacing.Changed)
	m.Places = newer(a.Places, b.Places, a.Places.Changed, b.Places.Changed)
	m.Overload = newer(a.Overload, b.Overload, a.Overload.Until, b.Overload.Until)
	for id, at := range b.Processes {
		if at.After(m.Processes[id]) {
			m.Processes = maps.Clone(m.Processes)
			if m.Processes == nil {
				m.Processes = map[string]time.Time{}
			}
			m.Processes[id] = at
		}
	}
	m.Readings = append([]Reading(nil), a.Readings...)
	for _, r := range b.Readings {
		if i := m.find(r.Snapshot); i < 0 {
			m.keep(r)
		} else if r.stands(m.Readings[i]) {
			m.Readings[i] = r
		}
	}
	m.Ratios = a.Ratios.merge(b.Ratios)
	return m
}

// newer is b where its instant is later than a's, else a.
func newer[T any](a, b T, at, bt time.Time) T {
	if bt.After(at) {
		return b
	}
	return a
}
