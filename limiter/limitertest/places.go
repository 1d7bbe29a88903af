package limitertest

import (
	"context"
	"fmt"

	"github.com/paceline-proxy/paceline/limiter"
)

var places = []Case{
	{"places refuse at their number", []string{"CC-12", "L-54", "L-55"},
		"a provider refuses the call beyond its number of connections", checkPlaces},
	{"a rate and places in one limit", []string{"L-56"},
		"both must have room, and each refuses by itself", checkBothInOne},
	{"release frees a place at once", []string{"CC-13", "L-75"},
		"a place stays idle no longer than it must", checkRelease},
	{"release frees every place of the permit", []string{"L-75"},
		"a permit is one thing, however many buckets it holds a place of", checkReleaseAll},
	{"release does not give back the call", []string{"CC-16", "L-76"},
		"the provider has counted it", checkReleaseKeepsCall},
	{"release is harmless when repeated", []string{"L-77"},
		"a late or a second release must not free somebody else's place", checkReleaseTwice},
	{"a permit lapses", []string{"CC-14", "L-58", "L-59", "L-60"},
		"a holder that died gives its places back all the same", checkLapse},
	{"retryAt of places", []string{"CC-15", "L-70"},
		"the next lapse is the latest instant at which asking again makes sense", checkPlacesRetry},
	{"each permit lapses by itself", []string{"L-58", "L-70"},
		"holds are of different lengths", checkHolds},
	{"renewal", []string{"L-58"},
		"a long call keeps its places, if somebody says that it still lives", checkRenew},
	{"hold without places", []string{"L-65"},
		"nothing is held, so nothing needs to lapse", checkNoHold},
}

func (s *Subject) release(permit string) error {
	if err := s.Release(context.Background(), permit); err != nil {
		return fmt.Errorf("release of %q: %w", permit, err)
	}
	return nil
}

func holding(r limiter.Request, s *Subject, units float64) limiter.Request {
	r.Hold = s.Units(units)
	return r
}

func checkPlaces(s *Subject) error {
	r := s.By("c", s.Places("p", 3))
	permits := map[string]bool{}
	for range 3 {
		d, err := s.Granted("a place", r)
		if err != nil {
			return err
		}
		if d.Permit == "" || permits[d.Permit] {
			return fmt.Errorf("permit %q is none of its own", d.Permit)
		}
		permits[d.Permit] = true
	}
	d, err := s.Refused("the fourth of 3", r, limiter.Concurrent)
	if err != nil {
		return err
	}
	if len(d.Refused) != 1 || d.Refused[0].Key != s.Key("p") {
		return fmt.Errorf("refused by %s: want the places alone", causes(d))
	}
	return nil
}

func checkBothInOne(s *Subject) error {
	limit := s.Rate("a", 2, 20)
	limit.Concurrent = 1
	r := s.By("c", limit)
	first, err := s.Granted("the first", r)
	if err != nil {
		return err
	}
	if _, err := s.Refused("no place", r, limiter.Concurrent); err != nil {
		return err
	}
	if err := s.release(first.Permit); err != nil {
		return err
	}
	second, err := s.Granted("the second", r)
	if err != nil {
		return err
	}
	if err := s.release(second.Permit); err != nil {
		return err
	}
	_, err = s.Refused("no call left", r, limiter.Rate)
	return err
}

func checkRelease(s *Subject) error {
	r := s.By("c", s.Places("p", 1))
	for range 5 {
		d, err := s.Granted("a free place", r)
		if err != nil {
			return err
		}
		if _, err := s.Refused("a taken place", r, limiter.Concurrent); err != nil {
			return err
		}
		if err := s.release(d.Permit); err != nil {
			return err
		}
	}
	return nil
}

func checkReleaseAll(s *Subject) error {
	names := []string{"p", "q", "r", "s", "t", "u"}
	var limits []limiter.Limit
	for _, name := range names {
		limits = append(limits, s.Places(name, 1))
	}
	for range 3 {
		d, err := s.Granted("all places", s.By("c", limits...))
		if err != nil {
			return err
		}
		for _, l := range limits {
			if _, err := s.Refused(l.Key, s.By("c", l), limiter.Concurrent); err != nil {
				return err
			}
		}
		if err := s.release(d.Permit); err != nil {
			return err
		}
	}
	for _, l := range limits {
		if _, err := s.Granted(l.Key, s.By("c", l)); err != nil {
			return err
		}
	}
	return nil
}

func checkReleaseKeepsCall(s *Subject) error {
	r := s.By("c", s.Rate("a", 1, 20), s.Places("p", 2))
	d, err := s.Granted("the only call", r)
	if err != nil {
		return err
	}
	if err := s.release(d.Permit); err != nil {
		return err
	}
	again, err := s.Refused("a second call", r, limiter.Rate)
	if err != nil {
		return err
	}
	return s.At("a second call", again, d.Now.Add(s.Units(20)))
}

func checkReleaseTwice(s *Subject) error {
	r := s.By("c", s.Places("p", 2))
	first, second, err := s.Fill(2, r)
	if err != nil {
		return err
	}
	if err := s.release(first.Permit); err != nil {
		return err
	}
	third, err := s.Granted("the place released", r)
	if err != nil {
		return err
	}
	for _, stranger := range []string{first.Permit, first.Permit, "", "no permit at all", third.Permit + "x"} {
		if err := s.release(stranger); err != nil {
			return err
		}
		if _, err := s.Refused(fmt.Sprintf("after releasing %q", stranger), r, limiter.Concurrent); err != nil {
			return err
		}
	}
	for _, permit := range []string{second.Permit, second.Permit, third.Permit} {
		if err := s.release(permit); err != nil {
			return err
		}
	}
	if _, _, err := s.Fill(2, r); err != nil {
		return err
	}
	_, err = s.Refused("the third of 2", r, limiter.Concurrent)
	return err
}

func checkLapse(s *Subject) error {
	r := holding(s.By("c", s.Places("p", 1)), s, 3)
	first, err := s.Granted("the first", r)
	if err != nil {
		return err
	}
	s.Sleep(s.Units(2))
	d, err := s.Ask(r)
	if err != nil {
		return err
	}
	if held := d.Now.Sub(first.Now); d.Granted && held < s.Units(3) {
		return fmt.Errorf("granted %v after a hold of %v began", held, s.Units(3))
	}
	if d.Granted {
		return nil // so late that the first has lapsed
	}
	s.Sleep(first.Now.Add(s.Units(3)).Sub(d.Now) + s.Tolerance)
	second, err := s.Granted("after the hold", holding(r, s, 500))
	if err != nil {
		return err
	}
	// The first holder comes back from the dead.
	if err := s.release(first.Permit); err != nil {
		return err
	}
	if _, err := s.Refused("after a lapsed permit's release", r, limiter.Concurrent); err != nil {
		return err
	}
	if err := s.release(second.Permit); err != nil {
		return err
	}
	_, err = s.Granted("after the second's release", r)
	return err
}

func checkPlacesRetry(s *Subject) error {
	limit := s.Places("p", 2)
	if _, err := s.Granted("a long one", holding(s.By("c", limit), s, 200)); err != nil {
		return err
	}
	short, err := s.Granted("a short one", holding(s.By("c", limit), s, 4))
	if err != nil {
		return err
	}
	lapse := short.Now.Add(s.Units(4))
	for {
		d, err := s.Ask(s.By("c", limit))
		if err != nil {
			return err
		}
		if d.Granted {
			if early := lapse.Sub(d.Now); early > 0 {
				return fmt.Errorf("granted %v before the next lapse", early)
			}
			return nil
		}
		if late := d.RetryAt.Sub(lapse); late > s.Tolerance {
			return fmt.Errorf("retryAt is %v after the next lapse", late)
		}
		s.Until(d, 0) // the lapse, or an earlier look
	}
}

func checkHolds(s *Subject) error {
	limit := s.Places("p", 3)
	var last limiter.Decision
	for _, units := range []float64{200, 2, 4} {
		d, err := s.Granted("a hold", holding(s.By("c", limit), s, units))
		if err != nil {
			return err
		}
		last = d
	}
	s.Sleep(s.Units(2) + s.Tolerance)
	if _, err := s.Granted("after the shortest", s.By("c", limit)); err != nil {
		return err
	}
	d, err := s.Ask(s.By("c", limit))
	if err != nil {
		return err
	}
	if early := last.Now.Add(s.Units(4)).Sub(d.Now); d.Granted && early > 0 {
		return fmt.Errorf("granted %v before the second lapse", early)
	}
	return nil
}

func checkRenew(s *Subject) error {
	renewer, ok := s.Limiter.(limiter.Renewer)
	if !ok {
		return nil
	}
	limits := []limiter.Limit{s.Places("p", 1), s.Places("q", 1)}
	r := holding(s.By("c", limits...), s, 10)
	first, err := s.Granted("the first", r)
	if err != nil {
		return err
	}
	s.Sleep(s.Units(8))
	if err := renewer.Renew(context.Background(), []string{"stranger", first.Permit}, s.Units(10)); err != nil {
		return fmt.Errorf("renew: %w", err)
	}
	s.Sleep(s.Units(4)) // past the first hold, within the second
	for _, l := range limits {
		if _, err := s.Refused("while renewed", s.By("c", l), limiter.Concurrent); err != nil {
			return err
		}
	}
	s.Sleep(s.Units(6) + s.Tolerance)
	if err := renewer.Renew(context.Background(), []string{first.Permit}, s.Units(50)); err != nil {
		return fmt.Errorf("renew of a lapsed permit: %w", err)
	}
	_, err = s.Granted("after a renewal that came too late", r)
	return err
}

func checkNoHold(s *Subject) error {
	d, err := s.Granted("no places", holding(s.By("c", s.Rate("a", 1, 20)), s, 0))
	if err != nil {
		return err
	}
	if err := s.release(d.Permit); err != nil {
		return err
	}
	d, err = s.Granted("a hold of nothing", s.By("c", s.Rate("b", 1, 20)))
	if err == nil && d.Permit != "" {
		err = fmt.Errorf("permit %q for a grant that holds no place", d.Permit)
	}
	return err
}
