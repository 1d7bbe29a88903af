package paceline

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/paceline-proxy/paceline/budget"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/policy"
)

// A candidate is one of the credentials that a call may be made with. Those of
// one account are one: what holds for one of them holds for all.
type candidate struct {
	with   *configured
	as     callerKey
	name   string // of the caller key
	caller *budget.Caller
	// met is when its line asks again, as the call has seen it there: it knows
	// better than an outlook.
	met time.Time
}

// candidates are the credentials that the call may be made with.
func (c *call) candidates(now time.Time) (cs []candidate) {
	for i := range c.entry.keys {
		k := &c.entry.keys[i]
		as := c.callerAs(c.entry.accountOf(k), k.id)
		if !slices.ContainsFunc(cs, func(o candidate) bool { return o.as == as }) {
			name := as.String()
			cs = append(cs, candidate{with: k, as: as, name: name, caller: c.home.book.Caller(name, now)})
		}
	}
	return cs
}

// current is the candidate that the call is made with, nil for none.
func (c *call) current() *candidate {
	for i := range c.choices {
		if c.choices[i].name == c.name {
			return &c.choices[i]
		}
	}
	return nil
}

// A prospect is a candidate with what it promises now.
type prospect struct {
	*candidate
	policy.Outlook
	// busy is how many it has in hand, and recent what it was given in the last
	// minute, by its weight.
	busy, recent float64
}

// prospects are the candidates with what they promise now.
func (c *call) prospects(now time.Time) []prospect {
	ps := make([]prospect, len(c.choices))
	for i := range c.choices {
		ps[i] = c.prospect(&c.choices[i], now)
	}
	return ps
}

func (c *call) prospect(k *candidate, now time.Time) prospect {
	p := prospect{candidate: k}
	a := c.home.gate.Activity(k.name)
	a.Waiting = max(a.Waiting, c.home.coming.of(k.name))
	c.look(k.caller, k.name, now, func(s *budget.State, starts *budget.Starts) {
		p.Outlook = c.rules.Outlook(s, starts, now, a)
		p.recent = float64(starts.Within(time.Minute, now)) / p.weight()
	})
	if k.met.After(p.Opens) {
		p.Opens = k.met
	}
	return p
}

func (p *prospect) weight() float64 { return float64(max(1, p.with.Weight)) }

// open reports whether a request could start at once.
func (p *prospect) open(now time.Time) bool { return !p.Full && !p.Opens.After(now) }

// compare orders prospects: those that are open by what they have left, the
// others by when they open; of equals, the less busy one.
func (p prospect) compare(o prospect, now time.Time) int {
	order := p.Opens.Compare(o.Opens)
	switch open := p.open(now); {
	case open != o.open(now):
		if open {
			return -1
		}
		return 1
	case open:
		order = cmp.Compare(o.Headroom, p.Headroom)
	}
	return cmp.Or(order, cmp.Compare(p.busy, o.busy), cmp.Compare(p.recent, o.recent))
}

// loyal is how much longer a conversation waits for its turn with its own key,
// whose provider has the conversation in a cache, than with another.
const loyal = time.Minute

// keeps reports whether the call stays with a key for its conversation's sake.
func (c *call) keeps(p *prospect, now time.Time) bool {
	return !p.Aside && p.Headroom > 0 && p.Opens.Sub(now) <= loyal && (c.deadline.IsZero() || !p.Opens.After(c.deadline)) &&
		c.transport.conversations.of(c.conversation()) == p.as.account
}

// best returns the candidate that the call does best with now.
func (c *call) best(ps []prospect, now time.Time) *candidate {
	best := &ps[0]
	for i := range ps {
		p := &ps[i]
		if c.keeps(p, now) {
			return p.candidate
		}
		if p.compare(*best, now) < 0 {
			best = p
		}
	}
	return best.candidate
}

// elsewhere says whether the call does better in another line than its own,
// which asks again at until, and when that may be so.
func (c *call) elsewhere(now, until time.Time) (leave bool, again time.Time) {
	mine := c.current()
	if mine == nil {
		return c.choices != nil, time.Time{} // its key is not configured any more
	}
	if mine.met = until; until.IsZero() {
		mine.met = now.Add(time.Millisecond) // when nobody knows, but it is not open
	}
	own := c.prospect(mine, now)
	if own.Opens = until; until.IsZero() {
		own.Opens, own.Full = now, true
	}
	if c.keeps(&own, now) {
		return false, time.Time{}
	}
	for i := range c.choices {
		if k := &c.choices[i]; k != mine {
			p := c.prospect(k, now)
			if p.open(now) || (own.Aside || !own.Full && !p.Full) && p.Opens.Before(own.Opens) {
				return true, time.Time{}
			}
			again = sooner(again, p.Opens)
		}
	}
	if !again.After(now) {
		again = time.Time{} // full: the end of a request there wakes this one
	}
	return false, again
}

// rechoose has the call go on with the credential that is best now. It reports
// whether that is another than before.
func (c *call) rechoose(now time.Time) bool {
	if c.choices == nil {
		return false
	}
	c.arrive()
	k := c.home.coming.choose(c, c.prospects(now), now)
	c.coming = k.name
	c.transport.conversations.keep(c.conversation(), k.as.account)
	if k.name == c.name {
		return false
	}
	c.become(k.with)
	return true
}

// coming counts, by caller key, the calls that have chosen it and have not been
// started: those that choose at the same instant see each other.
type coming struct {
	mu sync.Mutex
	n  map[string]int
}

func (o *coming) of(name string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.n[name]
}

// choose counts a call for what is best of what it has seen a moment ago.
func (o *coming) choose(c *call, ps []prospect, now time.Time) *candidate {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range ps {
		p := &ps[i]
		a := c.home.gate.Activity(p.name)
		p.busy = float64(a.InFlight+max(a.Waiting, o.n[p.name])) / p.weight()
	}
	k := c.best(ps, now)
	if o.n == nil {
		o.n = make(map[string]int)
	}
	o.n[k.name]++
	return k
}

// arrive ends that the call is coming: it has been started, or goes elsewhere.
func (c *call) arrive() {
	if c.coming == "" {
		return
	}
	o := &c.home.coming
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n[c.coming]--; o.n[c.coming] == 0 {
		delete(o.n, c.coming)
	}
	c.coming = ""
}

// barred notes when a line that has refused the call opens, and reports whether
// the call has gone to another instead.
func (c *call) barred(until time.Time) bool {
	now := time.Now()
	mine := c.current()
	if mine == nil || !until.After(now) {
		return false
	}
	mine.met = until
	return c.rechoose(now)
}

// spares reports whether a refusal concerns the credential alone and another
// may do: no wait of the one is waited out then.
func (c *call) spares(a *attempt, v policy.Verdict) bool {
	switch g := a.reading; {
	case c.choices == nil || g.TooLarge || !c.payload.repeatable():
		return false
	case g.Class == dialect.RateLimited && !v.Again:
		return false // its tries are used up
	case g.Class != dialect.RateLimited && g.Class != dialect.QuotaExhausted && g.Class != dialect.Billing:
		return false
	}
	now := time.Now()
	return c.best(c.prospects(now), now).name != c.name
}

// conversation is what tells the call's conversation from others of its
// provider, empty where nothing does.
func (c *call) conversation() string {
	said := orElse(first(c.req.Header["X-Paceline-Run"]), c.demand.Conversation)
	if said == "" {
		return ""
	}
	return c.entry.Name + "\x00" + said
}

// conversations remember with which account each was last made. Those of longest
// ago are forgotten.
type conversations struct {
	mu          sync.Mutex
	seed        maphash.Seed
	recent, old map[uint64]string
}

// mostConversations are remembered at least, and twice as many at most.
const mostConversations = 1 << 13

func (v *conversations) of(conversation string) (account string) {
	if conversation == "" {
		return ""
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.recent == nil {
		return ""
	}
	key := maphash.String(v.seed, conversation)
	if account = v.recent[key]; account == "" {
		account = v.old[key]
	}
	return account
}

func (v *conversations) keep(conversation, account string) {
	if conversation == "" {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.recent == nil:
		v.seed, v.recent = maphash.MakeSeed(), make(map[uint64]string)
	case len(v.recent) >= mostConversations:
		v.recent, v.old = make(map[uint64]string), v.recent
	}
	v.recent[maphash.String(v.seed, conversation)] = account
}
