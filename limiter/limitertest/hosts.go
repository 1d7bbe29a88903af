package limitertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

var hosts = []Case{
	{"hosts share counts", []string{"CC-26", "L-27", "L-45"},
		"the provider counts what all of them send", checkHostsCount},
	{"hosts agree on instants", []string{"CC-26", "L-28"},
		"whoever is told to wait may ask from any host", checkHostsAgree},
	{"hosts share places", []string{"CC-26", "L-60"},
		"a host that is gone gives its places back when their hold has passed", checkHostsPlaces},
	{"hosts share throttles", []string{"CC-26", "L-80"},
		"a stated wait is for everybody who uses the key", checkHostsThrottle},
	{"hosts share blobs", []string{"CC-26"},
		"what one of them has learned is for all", checkHostsBlobs},
	{"a crowd on two hosts does not overshoot", []string{"CC-25", "CC-26"},
		"acquires of several hosts are counted one after the other", checkHostsCrowd},
	{"closed and opened again", []string{"CC-28"},
		"hosts come and go while others use the store, and one that is closed must not seem to answer", checkHostsClose},
}

// another is a host beside this one, over the same store.
func (s *Subject) another() (*Subject, error) {
	if s.host == nil {
		return nil, ErrNotPromised
	}
	other := *s
	other.Limiter = s.host(s.Limiter)
	return &other, nil
}

func checkHostsCount(s *Subject) error {
	other, err := s.another()
	if err != nil {
		return err
	}
	both := s.By("c", s.Rate("a", 4, 20), s.Rate("b", 9, 40))
	for range 2 {
		if _, err := s.Granted("here", both); err != nil {
			return err
		}
		if _, err := other.Granted("there", other.By("elsewhere", s.Rate("a", 4, 20))); err != nil {
			return err
		}
	}
	for _, h := range []*Subject{s, other} {
		if _, err := h.Refused("the fifth of 4", both, limiter.Rate); err != nil {
			return err
		}
		if _, _, err := h.Fill(3, h.By("c", s.Rate("b", 9, 40))); err != nil {
			return err
		}
	}
	if _, err := other.Refused("the ninth of 8", other.By("c", s.Rate("b", 8, 40)), limiter.Rate); err != nil {
		return err
	}
	if s.settler() != nil {
		return nil
	}
	// What is settled at one host makes room at another.
	d, err := s.Granted("60 of 100", s.costly("tokens", 100, 60))
	if err != nil {
		return err
	}
	if _, err := other.Refused("60 more there", s.costly("tokens", 100, 60), limiter.Rate); err != nil {
		return err
	}
	if err := s.settle(d.Permit, "tokens", 30); err != nil {
		return err
	}
	_, err = other.Granted("60 beside 30", s.costly("tokens", 100, 60))
	return err
}

func checkHostsAgree(s *Subject) error {
	other, err := s.another()
	if err != nil {
		return err
	}
	r := s.By("c", s.Rate("a", 2, 3))
	first, _, err := s.Fill(2, r)
	if err != nil {
		return err
	}
	for _, h := range []*Subject{s, other} {
		d, err := h.Refused("full", r, limiter.Rate)
		if err != nil {
			return err
		}
		if err := s.At("of either host", d, first.Now.Add(s.Units(3))); err != nil {
			return err
		}
	}
	d, err := s.Refused("full", r, limiter.Rate)
	if err != nil {
		return err
	}
	_, err = other.Opens(d, r)
	return err
}

func checkHostsPlaces(s *Subject) error {
	gone, err := s.another()
	if err != nil {
		return err
	}
	short, long := holding(s.By("c", s.Places("p", 2)), s, 6), s.By("c", s.Places("p", 2))
	lapses, err := gone.Granted("a place there", short)
	if err != nil {
		return err
	}
	held, err := s.Granted("a place here", long)
	if err != nil {
		return err
	}
	for _, h := range []*Subject{s, gone} {
		if _, err := h.Refused("a third of 2", long, limiter.Concurrent); err != nil {
			return err
		}
	}
	if err := s.release(held.Permit); err != nil {
		return err
	}
	if _, err := gone.Granted("the one released here", long); err != nil {
		return err
	}
	if c, ok := gone.Limiter.(io.Closer); ok {
		if err := c.Close(); err != nil {
			return fmt.Errorf("close: %w", err)
		}
	}
	d, err := s.Refused("held by one that is gone", long, limiter.Concurrent)
	if err != nil {
		return err
	}
	s.Sleep(lapses.Now.Add(s.Units(6)).Sub(d.Now) + s.Tolerance)
	if _, err := s.Granted("lapsed", long); err != nil {
		return err
	}
	_, err = s.Refused("not lapsed", long, limiter.Concurrent)
	return err
}

func checkHostsThrottle(s *Subject) error {
	other, err := s.another()
	if err != nil {
		return err
	}
	least, most, err := s.throttleWithin("c", 40)
	if err != nil {
		return err
	}
	if err := other.opensAt("closed there", s.By("c"), limiter.Throttle, least, most); err != nil {
		return err
	}
	if _, err := other.Granted("another key there", s.By("other")); err != nil {
		return err
	}
	opener, ok := other.Limiter.(limiter.Opener)
	if !ok {
		return nil
	}
	if err := opener.Open(context.Background(), s.Key("c")); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	_, err = s.Granted("opened there", s.By("c"))
	return err
}

func checkHostsBlobs(s *Subject) error {
	other, err := s.another()
	if err != nil {
		return err
	}
	here, err := s.blobs()
	if err != nil {
		return err
	}
	return s.countTogether(here, other.Limiter.(limiter.Blobs))
}

func checkHostsCrowd(s *Subject) error {
	other, err := s.another()
	if err != nil {
		return err
	}
	const calls = 60
	r := s.By("c", s.Rate("a", calls, 500))
	var n atomic.Int64
	err = crowd(16, func(i int) error {
		h := []*Subject{s, other}[i%2]
		for range 6 {
			d, err := h.Ask(r)
			if err != nil {
				return err
			}
			if d.Granted {
				n.Add(1)
			}
		}
		return nil
	})
	if n := n.Load(); err == nil && n != calls {
		err = fmt.Errorf("%d of 96 granted, want %d", n, calls)
	}
	return err
}

func checkHostsClose(s *Subject) error {
	first, err := s.another()
	if err != nil {
		return err
	}
	second, err := s.another()
	if err != nil {
		return err
	}
	closer, ok := first.Limiter.(io.Closer)
	if !ok {
		return ErrNotPromised
	}
	r := s.By("c", s.Rate("a", 3, 500), s.Places("p", 5))
	d, err := first.Granted("at the first", r)
	if err != nil {
		return err
	}
	if _, err := second.Granted("at the second", r); err != nil {
		return err
	}
	if err := closer.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	for method, call := range methods(first.Limiter, r, d.Permit) {
		if err := call(); err == nil || errors.Is(err, limiter.ErrInvalid) {
			return fmt.Errorf("%s of a closed limiter: %v", method, err)
		}
	}
	third, err := s.another()
	if err != nil {
		return err
	}
	if _, err := third.Granted("opened again", r); err != nil {
		return err
	}
	for _, h := range []*Subject{s, second, third} {
		if _, err := h.Refused("the fourth of 3", r, limiter.Rate); err != nil {
			return err
		}
	}
	return nil
}

// methods are calls of everything a limiter can do.
func methods(l limiter.Limiter, r limiter.Request, permit string) map[string]func() error {
	ctx := context.Background()
	calls := map[string]func() error{
		"Acquire":  func() error { _, err := l.Acquire(ctx, r); return err },
		"Release":  func() error { return l.Release(ctx, permit) },
		"Throttle": func() error { return l.Throttle(ctx, r.Key, time.Now().Add(time.Hour)) },
	}
	if l, ok := l.(limiter.Batcher); ok {
		calls["AcquireBatch"] = func() error { _, err := l.AcquireBatch(ctx, []limiter.Request{r}); return err }
	}
	if l, ok := l.(limiter.Renewer); ok {
		calls["Renew"] = func() error { return l.Renew(ctx, []string{permit}, time.Hour) }
	}
	if l, ok := l.(limiter.Settler); ok {
		calls["Settle"] = func() error { return l.Settle(ctx, permit, []limiter.Cost{{Key: r.Limits[0].Key}}) }
	}
	if l, ok := l.(limiter.Opener); ok {
		calls["Open"] = func() error { return l.Open(ctx, r.Key) }
	}
	if l, ok := l.(limiter.Peeker); ok {
		calls["Peek"] = func() error { _, err := l.Peek(ctx, r.Key, r.Limits); return err }
	}
	if l, ok := l.(limiter.Seeder); ok {
		calls["Seed"] = func() error { return l.Seed(ctx, r.Limits, time.Now()) }
	}
	if l, ok := l.(limiter.Blobs); ok {
		calls["Get"] = func() error { _, err := l.Get(ctx, r.Key); return err }
		calls["Update"] = func() error { return l.Update(ctx, r.Key, func([]byte) []byte { return nil }) }
	}
	return calls
}
