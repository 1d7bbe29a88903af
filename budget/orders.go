package budget

import (
	"slices"
	"time"
)

// Orders are what an operator has undone, each up to an instant: what comes
// after it counts again.
type Orders struct {
	// Open ends the pauses made until then.
	Open time.Time `json:"open,omitzero"`
	// Forget drops what was learned until then.
	Forget time.Time `json:"forget,omitzero"`
	// Reread drops the readings of requests sent until then.
	Reread time.Time `json:"reread,omitzero"`
}

// and is the orders of both.
func (o Orders) and(p Orders) Orders {
	return Orders{
		Open:   newer(o.Open, p.Open, o.Open, p.Open),
		Forget: newer(o.Forget, p.Forget, o.Forget, p.Forget),
		Reread: newer(o.Reread, p.Reread, o.Reread, p.Reread),
	}
}

// Obey takes in what an operator ordered of a provider as a whole: its pause,
// and what is undone. changed is whether others should know, open whether the
// key has yet to be opened in this process's limiter.
func (s *State) Obey(provider *State, now time.Time) (changed, open bool) {
	o := s.Orders.and(provider.Orders)
	if changed = o != s.Orders; changed {
		s.obey(o)
	}
	open = o.Open.After(s.Opened) && !s.Pause.Made.After(o.Open)
	s.Opened = o.Open
	if p := provider.Pause; p.Active(now) {
		changed = s.Close(now, p.Until, p.Reason, p.Source) || changed
	}
	return changed, open
}

// obey undoes what the orders say. What is forgotten carries the instant of
// the order, so that it is newer than what others remember of it.
func (s *State) obey(o Orders) {
	if o.Open.After(s.Orders.Open) && !s.Pause.Made.After(o.Open) {
		s.Pause = Pause{}
	}
	forget := func(changed time.Time) bool {
		return o.Forget.After(s.Orders.Forget) && !changed.After(o.Forget)
	}
	if forget(s.Episode.Changed) {
		s.Episode = Episode{Changed: o.Forget}
	}
	if forget(s.Factor.Changed) {
		s.Factor = Factor{Changed: o.Forget}
	}
	if forget(s.Rate.Changed) {
		s.Rate = Rate{Changed: o.Forget}
	}
	if forget(s.Spacing.Changed) {
		s.Spacing = Spacing{Changed: o.Forget}
	}
	if forget(s.Places.Changed) {
		s.Places = Places{Changed: o.Forget}
	}
	if o.Forget.After(s.Orders.Forget) {
		s.Overload = Overload{}
		s.Ratios = s.Ratios.since(o.Forget)
	}
	if o.Reread.After(s.Orders.Reread) {
		s.Readings = slices.DeleteFunc(slices.Clone(s.Readings), func(r Reading) bool { return !r.Sent.After(o.Reread) })
	}
	s.Orders = o
}
