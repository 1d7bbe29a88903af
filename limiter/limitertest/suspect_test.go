package limitertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// A suspect keeps the contract by looking everything up in the oracle's lists,
// except for the one promise that its fault breaks.
type suspect struct {
	fault  string
	guest  bool // another host than the first
	closed *atomic.Bool

	*store
}

// A store is what hosts share.
type store struct {
	mu     sync.Mutex
	o      oracle
	serial int
	begun  map[string]time.Time // token buckets and fixed windows
	level  map[string]float64
	first  map[string]int // the numbers a bucket was first asked with
	opened string         // whom nobody can close again, the first
	blobs  map[string][]byte
}

func newSuspect(fault string) *suspect {
	return &suspect{
		fault: fault, closed: new(atomic.Bool), store: &store{
			o: oracle{closed: map[string]time.Time{}}, blobs: map[string][]byte{},
			begun: map[string]time.Time{}, level: map[string]float64{}, first: map[string]int{},
		},
	}
}

// host is a limiter of another host.
func (s *suspect) host() *suspect {
	h := *s
	if h.guest = true; !s.is("close closes the store") {
		h.closed = new(atomic.Bool)
	}
	if s.is("hosts count apart") {
		h.store = newSuspect("").store
	}
	return &h
}

var errClosed = errors.New("closed")

// lock keeps everybody else out, unless this host has left.
func (s *suspect) lock() error {
	if s.closed.Load() && !s.is("close closes nothing") {
		return errClosed
	}
	s.mu.Lock()
	return nil
}

func (s *suspect) Close() error {
	if s.closed.Swap(true) {
		return errClosed
	}
	if s.is("places end with their host") {
		s.o.held = nil
	}
	return nil
}

func (s *suspect) is(fault string) bool { return s.fault == fault }

func (s *suspect) Acquire(_ context.Context, r limiter.Request) (limiter.Decision, error) {
	if err := r.Validate(); err != nil && !s.is("takes impossible requests") {
		return limiter.Decision{}, err
	}
	if len(r.Limits) == 0 && s.is("wants limits") {
		return limiter.Decision{}, errors.New("no limits")
	}
	if err := s.lock(); err != nil {
		return limiter.Decision{}, err
	}
	defer s.mu.Unlock()
	return s.acquire(r), nil
}

func (s *suspect) acquire(r limiter.Request) limiter.Decision {
	r = s.misread(r)
	d := s.decide(r)
	if s.is("blocks") && !d.Granted {
		s.mu.Unlock()
		time.Sleep(d.RetryAfter())
		s.mu.Lock()
		d = s.decide(r)
	}
	if s.is("counts in a race") && d.Granted {
		s.mu.Unlock()
		time.Sleep(1)
		s.mu.Lock()
	}
	if d.Granted {
		s.serial++
		d.Permit = fmt.Sprint("permit ", s.serial)
		if s.is("repeats permits") {
			d.Permit = "permit"
		}
	}
	s.count(&d, r)
	if r.Hold == 0 || !hasPlaces(r) && !hasCosts(r) && !s.is("permits for nothing") {
		d.Permit = ""
	}
	return d
}

func (s *suspect) AcquireBatch(_ context.Context, rs []limiter.Request) ([]limiter.Decision, error) {
	if err := limiter.ValidateAll(rs); err != nil && !s.is("takes impossible requests") && !s.is("batch counts before it fails") {
		return nil, err
	}
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	ds := make([]limiter.Decision, len(rs))
	refused := map[string]limiter.Decision{}
	for i, r := range rs {
		if err := r.Validate(); err != nil && s.is("batch counts before it fails") {
			return nil, err
		}
		if s.is("throttles a batch by its first key") {
			r.Key = rs[0].Key
		}
		who := r.Key
		if s.is("a batch stops for everybody") {
			who = ""
		}
		if d, ok := refused[who]; ok && !s.is("a batch goes on") {
			ds[i] = d
			continue
		}
		if s.is("batches are judged at once") {
			ds[i] = s.decide(r)
			defer s.count(&ds[i], r)
		} else {
			ds[i] = s.acquire(r)
		}
		if !ds[i].Granted {
			refused[who] = ds[i]
		} else if s.is("a batch has one permit") {
			ds[i].Permit = ds[0].Permit
		}
	}
	if s.is("batches are answered backwards") {
		slices.Reverse(ds)
	}
	return ds, nil
}

func (s *suspect) Get(_ context.Context, key string) ([]byte, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return s.blobs[s.spelled("hosts keep blobs apart", key)], nil
}

func (s *suspect) Update(_ context.Context, key string, f func([]byte) []byte) error {
	if err := s.lock(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if s.is("a blob ends its namesake's throttle") {
		delete(s.o.closed, key)
	}
	key = s.spelled("hosts keep blobs apart", key)
	old := s.blobs[key]
	if s.is("loses updates") {
		s.mu.Unlock()
		time.Sleep(1)
		s.mu.Lock()
	}
	s.blobs[key] = f(old)
	return nil
}

// spelled is what a host calls a key.
func (s *suspect) spelled(fault, key string) string {
	if s.guest && s.is(fault) {
		key += " of a guest"
	}
	return key
}

func hasPlaces(r limiter.Request) bool {
	for _, l := range r.Limits {
		if l.Concurrent > 0 {
			return true
		}
	}
	return false
}

func hasCosts(r limiter.Request) bool {
	for _, l := range r.Limits {
		if l.Cost > 0 {
			return true
		}
	}
	return false
}

// misread is what a request becomes in the hands of some.
func (s *suspect) misread(r limiter.Request) limiter.Request {
	r.Limits = append([]limiter.Limit(nil), r.Limits...)
	if s.is("ignores cost") {
		r.Cost = 1
	}
	if s.is("takes a missing cost for none") && r.Cost == 0 {
		r.Cost = 1 << 20
	}
	if s.is("never lapses") && r.Hold > 0 {
		r.Hold = 1 << 60
	}
	if s.is("lapses early") {
		r.Hold = r.Hold / 4
	}
	for i := range r.Limits {
		l := &r.Limits[i]
		switch {
		case s.is("ignores a limit's cost"):
			l.Cost = 0
		case s.is("overflows") && l.Calls > 0:
			l.Cost = int(int32(r.CostOf(*l)) % (1 << 20))
			if l.Cost <= 0 {
				l.Cost = 1
			}
		case s.is("counts by caller"):
			l.Key += r.Key
		case s.is("folds keys"):
			l.Key = strings.ToLower(l.Key)
		case s.is("one bucket for all"):
			l.Key = ""
		case s.is("history by span") && l.Calls > 0:
			l.Key += l.Per.String()
		case s.is("keeps the first numbers") && l.Calls > 0:
			if n, ok := s.first[l.Key]; ok {
				l.Calls = n
			}
			s.first[l.Key] = l.Calls
		case s.is("spans of a minute at most") && l.Per > time.Minute*2:
			l.Per = 2 * time.Minute
		}
	}
	if s.is("looks at the first limit only") && len(r.Limits) > 1 {
		r.Limits = r.Limits[:1]
	}
	return r
}

func (s *suspect) decide(r limiter.Request) limiter.Decision {
	now := time.Now()
	d := limiter.Decision{Now: now}
	refuse := func(key string, at time.Time, cause limiter.Cause) {
		switch {
		case s.is("early retryAt") && cause == limiter.Rate:
			at = now.Add(max(1, at.Sub(now)/2))
		case s.is("late retryAt"), s.guest && s.is("hosts disagree"):
			at = at.Add(time.Millisecond)
		}
		for i := range d.Refused {
			if f := &d.Refused[i]; f.Key == key && f.Cause == cause {
				if at.After(f.RetryAt) {
					f.RetryAt = at
				}
				return
			}
		}
		d.Refused = append(d.Refused, limiter.Refusal{Key: key, RetryAt: at, Cause: cause})
	}
	for _, l := range r.Limits {
		if at, full := s.full(now, r, l); full {
			refuse(l.Key, at, limiter.Rate)
		}
		if at, taken := s.taken(now, l); taken {
			refuse(l.Key, at, limiter.Concurrent)
		}
	}
	for key, until := range s.o.closed {
		if until.After(now) && (key == s.spelled("hosts throttle apart", r.Key) || s.is("throttles everybody")) && !(s.is("throttles a bucket") && len(r.Limits) == 0) {
			refuse(key, until, limiter.Throttle)
		}
	}
	for i, f := range d.Refused {
		later := f.RetryAt.After(d.RetryAt)
		if s.is("soonest retryAt") {
			later = f.RetryAt.Before(d.RetryAt)
		}
		if i == 0 || later {
			d.RetryAt = f.RetryAt
		}
	}
	if s.is("soonest retryAt") {
		for i := range d.Refused {
			d.Refused[i].RetryAt = d.RetryAt
		}
	}
	d.Granted = len(d.Refused) == 0
	return d
}

func (s *suspect) full(now time.Time, r limiter.Request, l limiter.Limit) (time.Time, bool) {
	cost := r.CostOf(l)
	key := l.Key + l.Per.String()
	switch {
	case l.Calls == 0:
		return now, false
	case s.is("token bucket"):
		if at, ok := s.begun[key]; ok {
			s.level[key] = min(float64(l.Calls), s.level[key]+float64(now.Sub(at))*float64(l.Calls)/float64(l.Per))
		} else {
			s.level[key] = float64(l.Calls)
		}
		s.begun[key] = now
		lack := float64(min(cost, l.Calls)) - s.level[key]
		return now.Add(time.Duration(lack*float64(l.Per)/float64(l.Calls)) + 1), lack > 1e-9
	case s.is("fixed window"), s.is("fixed window by the clock"):
		begun, ok := s.begun[key]
		if !ok || now.Sub(begun) >= l.Per {
			begun = now
			if !s.is("fixed window") {
				begun = now.Truncate(l.Per)
			}
			s.begun[key], s.level[key] = begun, 0
		}
		return begun.Add(l.Per), s.level[key]+float64(min(cost, l.Calls)) > float64(l.Calls)
	case s.is("refuses what can never fit") && cost > l.Calls:
		return now.Add(l.Per), true
	case s.is("lets the oversized in at once") && cost > l.Calls:
		r.Cost, l.Cost = 1, 0
	case s.is("opens a little late"):
		at, full := s.o.full(now.Add(-1), r, l)
		return at, full && at.Add(1).After(now)
	case s.is("opens a little early"):
		return s.o.full(now.Add(time.Millisecond), r, l)
	case s.is("waits for an empty window"):
		r.Cost = 1 << 30
		if used, full := s.o.full(now, r, l); full {
			r.Cost = cost
			if _, full := s.o.full(now, r, l); full {
				return used, true
			}
		}
		return now, false
	}
	return s.o.full(now, r, l)
}

func (s *suspect) taken(now time.Time, l limiter.Limit) (time.Time, bool) {
	at, taken := s.o.taken(now, l)
	if s.is("places of the last to lapse") && taken {
		for _, h := range s.o.held {
			if h.bucket == l.Key && h.lapse.After(at) {
				at = h.lapse
			}
		}
	}
	if s.is("one place more") && l.Concurrent > 0 {
		l.Concurrent++
		_, taken = s.o.taken(now, l)
	}
	return at, taken
}

// count books a decision.
func (s *suspect) count(d *limiter.Decision, r limiter.Request) {
	now := d.Now
	if !d.Granted {
		switch {
		case s.is("spends on refusal"):
			s.o.book(*d, r)
		case s.is("spends when throttled") && refusedFor(*d, limiter.Throttle):
			s.o.book(*d, r)
		case s.is("books what had room"):
			for _, l := range r.Limits {
				_, full := s.full(now, r, l)
				if _, taken := s.taken(now, l); !full && !taken {
					s.o.book(*d, limiter.Request{Limits: []limiter.Limit{l}, Cost: r.Cost, Hold: r.Hold})
				}
			}
		case s.is("asking postpones"):
			for i := range s.o.booked {
				for _, l := range r.Limits {
					if b := &s.o.booked[i]; b.bucket == l.Key && b.at.Add(l.Per).After(now) {
						b.at = b.at.Add(time.Millisecond)
					}
				}
			}
		case s.is("reserves") && !refusedFor(*d, limiter.Throttle):
			later := *d
			later.Now = d.RetryAt.Add(-1)
			for _, l := range r.Limits {
				if l.Calls > 0 {
					s.o.booked = append(s.o.booked, booking{bucket: l.Key, at: later.Now, cost: r.CostOf(l)})
				}
			}
		}
		return
	}
	for _, l := range r.Limits {
		s.level[l.Key+l.Per.String()] += float64(min(r.CostOf(l), l.Calls)) * map[bool]float64{true: -1, false: 1}[s.is("token bucket")]
	}
	if s.is("counts in the first limit only") && len(r.Limits) > 1 {
		r.Limits = r.Limits[:1]
	}
	s.o.book(*d, r)
	if n := len(s.o.booked); n > 0 && s.is("oversized counts in full") {
		s.o.booked[n-1].cost = max(s.o.booked[n-1].cost, r.Cost)
	}
	if s.is("leaves together") {
		for i := range s.o.booked {
			for _, l := range r.Limits {
				if b := &s.o.booked[i]; b.bucket == l.Key {
					b.at = now
				}
			}
		}
	}
}

func (s *suspect) Release(_ context.Context, permit string) error {
	if err := s.lock(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	known := -1
	for i, h := range s.o.held {
		if h.permit == permit && h.lapse.After(time.Now()) {
			known = i
			break
		}
	}
	switch {
	case known < 0 && s.is("unknown permits are errors"):
		return errors.New("unknown permit")
	case known < 0 && s.is("release frees twice") && len(s.o.held) > 0:
		s.o.held = s.o.held[1:]
	case s.is("release frees nothing"):
		return nil
	case known >= 0 && s.is("release frees the first place only"):
		s.o.held = append(s.o.held[:known:known], s.o.held[known+1:]...)
		return nil
	case known >= 0 && s.is("release gives back the call") && len(s.o.booked) > 0:
		s.o.booked = s.o.booked[:len(s.o.booked)-1]
	}
	s.o.release(permit)
	return nil
}

func (s *suspect) Throttle(_ context.Context, key string, until time.Time) error {
	if err := s.lock(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	key = s.spelled("hosts throttle apart", key)
	now := time.Now()
	if s.is("throttle without end wraps") && until.Sub(now) > 1<<62 {
		return nil
	}
	if s.is("throttle ends early") {
		until = until.Add(-time.Millisecond)
	}
	if s.is("throttle revokes") {
		s.o.held = nil
	}
	switch {
	case key == s.opened && key != "":
	case s.is("past throttle opens") && !until.After(now):
		delete(s.o.closed, key)
	case s.is("past throttle closes") && !until.After(now):
		s.o.closed[key] = now.Add(time.Hour)
	case s.is("latest throttle stands") && until.After(now), until.After(s.o.closed[key]):
		s.o.closed[key] = until
	}
	return nil
}

func (s *suspect) Renew(_ context.Context, permits []string, hold time.Duration) error {
	if err := s.lock(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	now := time.Now()
	if s.is("does not renew") {
		return nil
	}
	for _, permit := range permits {
		for i := range s.o.held {
			h := &s.o.held[i]
			if h.permit == permit && (h.lapse.After(now) || s.is("renews the dead")) {
				h.lapse = now.Add(hold)
				if s.is("renews the first place only") {
					break
				}
			}
		}
	}
	return nil
}

func (s *suspect) Settle(_ context.Context, permit string, costs []limiter.Cost) error {
	if err := s.lock(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	now := time.Now()
	for _, c := range costs {
		if c.Cost < 0 && !s.is("settles a negative total") {
			return limiter.ErrInvalid
		}
		before := len(s.o.booked)
		switch {
		case s.is("settles nothing"):
			continue
		case s.is("settles nobody's calls"):
			for i := range s.o.booked {
				if b := &s.o.booked[i]; b.bucket == c.Key && b.calls > 0 {
					b.permit = permit
				}
			}
		case s.is("settles the dead"):
			s.o.held = append(s.o.held, tenure{unplaced, permit, now.Add(1)})
		case s.is("settles in full"):
			for i := range s.o.booked {
				if b := &s.o.booked[i]; b.permit == permit && permit != "" {
					b.calls = c.Cost
				}
			}
		case s.is("settles on top"):
			for _, b := range s.o.booked {
				if b.permit == permit && b.bucket == c.Key && c.Cost > 0 {
					c.Cost += b.cost
				}
			}
		}
		s.o.settle(now, permit, c.Key, c.Cost)
		if s.is("settles as of the grant") && len(s.o.booked) > before {
			for _, b := range s.o.booked {
				if b.permit == permit {
					s.o.booked[before].at = b.at
					break
				}
			}
		}
		if s.is("settles as of now") {
			for i := range s.o.booked {
				if b := &s.o.booked[i]; b.permit == permit && permit != "" {
					b.at = now
				}
			}
		}
	}
	return nil
}

func (s *suspect) Open(_ context.Context, key string) error {
	if err := s.lock(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	switch {
	case s.is("opens nothing"):
	case s.is("opens everybody"):
		clear(s.o.closed)
	case s.is("opened stays open"):
		if s.opened == "" {
			s.opened = key
		}
		delete(s.o.closed, key)
	default:
		delete(s.o.closed, key)
	}
	return nil
}

func (s *suspect) Peek(_ context.Context, key string, limits []limiter.Limit) (limiter.View, error) {
	if err := (limiter.Request{Limits: limits, Hold: 1}).Validate(); err != nil {
		return limiter.View{}, err
	}
	if err := s.lock(); err != nil {
		return limiter.View{}, err
	}
	defer s.mu.Unlock()
	now := time.Now()
	v := limiter.View{Now: now, Usage: make([]limiter.Usage, len(limits))}
	if !s.is("peeks at no throttle") {
		v.Throttled = s.o.closed[key]
	}
	for i, l := range limits {
		for _, b := range s.o.booked {
			if b.bucket == l.Key && (b.at.Add(l.Per).After(now) || s.is("peeks at what has left")) {
				if s.is("peeks at calls, not at cost") {
					b.cost = 1
				}
				v.Usage[i].Used += b.cost
			}
		}
		for _, h := range s.o.held {
			if h.bucket == l.Key && h.lapse.After(now) {
				v.Usage[i].Held++
			}
		}
	}
	if s.is("peeking counts") {
		s.o.book(limiter.Decision{Now: now}, limiter.Request{Limits: limits, Hold: 1})
	}
	return v, nil
}

func (s *suspect) Seed(_ context.Context, limits []limiter.Limit, at time.Time) error {
	if err := s.lock(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case s.is("seeds nothing"):
		return nil
	case s.is("seeds as of now"), at.After(now) && !s.is("seeds what is to come later"):
		at = now
	}
	s.o.book(limiter.Decision{Now: at}, limiter.Request{Limits: limits})
	return nil
}

// restart is what a process finds that comes after this one.
func (s *suspect) restart() *suspect {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.is("restart forgets windows"):
		s.o.booked = nil
	case s.is("restart forgets places"):
		s.o.held = nil
	case s.is("restart forgets settling"):
		for i := range s.o.booked {
			if b := &s.o.booked[i]; b.calls > 0 && b.cost > 0 {
				b.cost = 60
			}
		}
	case s.is("restart forgets throttles"):
		clear(s.o.closed)
	case s.is("restart begins windows anew"):
		for i := range s.o.booked {
			s.o.booked[i].at = time.Now()
		}
	}
	return s
}
