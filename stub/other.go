package stub

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An Other is another client with the same key, inside the stub: it takes a
// share of what every meter admits, in bursts, the whole share of a period at
// one instant. What is refused to it is not sent again. The zero Other is
// nobody.
//
// Its first burst comes within a period of the first request, at an instant
// drawn by the seed, and it takes no places: its answers are there at once.
type Other struct {
	Share float64       // from 0 to 1
	Every time.Duration // from one burst to the next
}

const otherSyntax = "SHARE/PERIOD such as 40%/20s, with a share above 0 and up to 100% and a period from 1ms on"

// ParseOther reads one from text, such as "40%/20s".
func ParseOther(text string) (Other, error) {
	share, every, _ := strings.Cut(strings.TrimSpace(text), "/")
	percent, is := strings.CutSuffix(share, "%")
	n, err := strconv.ParseFloat(percent, 64)
	d, wrong := time.ParseDuration(every)
	o := Other{Share: n / 100, Every: d}
	if !is || err != nil || wrong != nil || o.Share == 0 || o.validate() != nil {
		return Other{}, fmt.Errorf("other client %q: use %s", text, otherSyntax)
	}
	return o, nil
}

func (o Other) validate() error {
	switch {
	case !(o.Share >= 0 && o.Share <= 1):
		return fmt.Errorf("share is %v; it must be from 0 to 1", o.Share)
	case o.Share > 0 && o.Every < time.Millisecond:
		// Bursts are caught up with one by one.
		return fmt.Errorf("every is %v; it must be at least 1ms", o.Every)
	case o.Every < 0 || o.Share == 0 && o.Every > 0:
		return errors.New("a period needs a share, and must not be negative")
	}
	return nil
}

// Set reads another client from text.
func (o *Other) Set(text string) error {
	read, err := ParseOther(text)
	if err == nil {
		*o = read
	}
	return err
}

func (o Other) String() string {
	if o.Share == 0 {
		return ""
	}
	return strconv.FormatFloat(100*o.Share, 'g', -1, 64) + "%/" + o.Every.String()
}

// Type names the value in a command's help.
func (o Other) Type() string { return "SHARE/PERIOD" }

// UnmarshalText reads another client from text.
func (o *Other) UnmarshalText(text []byte) error { return o.Set(string(text)) }

// otherRequests is how many requests a burst has where no meter counts them.
const otherRequests = 10

// A burst is what the other client sends at one instant: so many requests
// that each cost so much.
type burst struct {
	n    int
	cost map[Unit]int
}

// burst is the share of a period.
func (s *Stub) burst() burst {
	o := s.config.Other
	b := burst{n: otherRequests, cost: map[Unit]int{Requests: 1}}
	share := func(of Meter) float64 {
		return o.Share * float64(of.Limit) * float64(o.Every) / float64(of.per())
	}
	for _, m := range s.config.Meters {
		if m.counts() && m.unit() == Requests {
			b.n = int(share(m))
			break
		}
	}
	for _, m := range s.config.Meters {
		if unit := m.unit(); m.counts() && unit != Requests && b.cost[unit] == 0 && b.n > 0 {
			b.cost[unit] = int(share(m) / float64(b.n))
		}
	}
	return b
}

// sendOther has the other client send a burst. It needs the lock.
func (s *Stub) sendOther(at time.Time) {
	for range s.other.n {
		admitted, _ := s.fits(at, s.other.cost)
		for i, m := range s.meters {
			switch n := s.other.cost[s.units[i]]; {
			case admitted:
				m.take(at, n)
			case s.config.Penalise:
				m.penalise(at, n)
			}
		}
		if admitted {
			s.counts.Other++
		}
		arrival := Arrival{At: at, Admitted: admitted, Other: true}
		if admitted {
			arrival.Charged = s.charged(s.other.cost)
		}
		s.arrivals.add(arrival)
	}
}

// charged is what a cost comes to in the first meter.
func (s *Stub) charged(cost map[Unit]int) int {
	if len(s.units) == 0 {
		return 1
	}
	return cost[s.units[0]]
}

// catchUp plays what happened by itself up to now, in order: what came due,
// and what the other client sent. It needs the lock.
func (s *Stub) catchUp(now time.Time) {
	if s.config.Other.Share > 0 && s.nextOther.IsZero() {
		phase := within(rand.New(rand.NewPCG(s.config.Seed, 4)), s.config.Other.Every)
		s.nextOther = now.Add(phase)
	}
	// After a long silence only what the meters can still hold counts.
	if skip := now.Sub(s.nextOther) - 2*slices.Max(append(s.spans, 0)); !s.nextOther.IsZero() && skip > 0 {
		s.nextOther = s.nextOther.Add(skip / s.config.Other.Every * s.config.Other.Every)
	}
	for {
		due := len(s.dues) > 0 && !s.dues[0].at.After(now)
		burst := !s.nextOther.IsZero() && !s.nextOther.After(now)
		switch {
		case due && (!burst || !s.nextOther.Before(s.dues[0].at)):
			s.settle(s.dues[0])
			s.dues = s.dues[1:]
		case burst:
			s.sendOther(s.nextOther)
			s.nextOther = s.nextOther.Add(s.config.Other.Every)
		default:
			return
		}
	}
}
