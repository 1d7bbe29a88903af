package gate

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/policy"
)

// A line is the requests of one caller key that wait to be started. Its fields
// belong to the gate's lock.
type line struct {
	key     string
	lanes   map[string]*lane
	clients map[string]*client
	turns   []*turns       // of the last minute, in order
	away    []*client      // kept while others wait
	waiting [urgencies]int // by urgency
	turned  time.Time      // the latest
	active  int            // granted and not released
	// foreground is the latest start of a request that is not background.
	foreground time.Time
	// asking while a question is being answered, and until those that it has
	// let through have begun. One that joins in front meanwhile asks after it.
	asking    bool
	beginning int      // let through, and have not begun
	refused   *waiter  // by the last answer, nil for nobody
	looked    bool     // the head has looked meanwhile
	missed    []string // buckets of which something was given back meanwhile
	ended     uint64   // counts the requests that have ended
	most      int      // how many are asked for in one call
	block     block    // what the last ask met, in limits of the whole line
	// unjudged counts those who looked while nothing was known of how fast the
	// line moves.
	unjudged int
	// wondering counts those who are yet to learn what holds them up.
	wondering int
	// apart are those who wait by themselves for a request of this line to end.
	apart []*waiter
	// then are lines to wake once this one has asked.
	then []*line
}

// A block is what stands before whoever has asked.
type block struct {
	by    *waiter
	until time.Time // when it asks again, zero where only a waking tells
	// firm is the instant before which no start can come, pause the end of a
	// pause of the key, zero where there is none.
	firm    time.Time
	pause   time.Time
	closed  bool // the pause is not to be waited for
	quota   bool // the pause is of a spent quota
	ordered bool // the pause is an operator's
	full    bool // a request of this line has to end first
	why     string
	budget  *policy.Shortage // what until comes from, nil for something else
	refused []limiter.Refusal
	limits  []limiter.Limit // what everybody it stands before has to fit
}

// earliest is the first start of the waiter with n before it, if all of those
// are started: a window lets in so many per span at most.
func (b block) earliest(n int, now time.Time) time.Time {
	at := b.firm
	if at.Before(now) {
		at = now
	}
	wait := time.Duration(0)
	for _, l := range b.limits {
		if l.Calls > 0 && l.Cost == 0 { // tokens may be given back
			wait = max(wait, l.Per*min(time.Duration(n/l.Calls), math.MaxInt64/l.Per))
		}
	}
	return at.Add(wait)
}

// line returns the line of a caller key, made where there is none.
func (g *Gate) line(key string) *line {
	l := g.lines[key]
	if l == nil {
		if len(g.lines) >= g.sweepAt {
			g.sweep(time.Now())
		}
		l = &line{key: key, lanes: map[string]*lane{}, clients: map[string]*client{}, most: mostTogether}
		g.lines[key] = l
	}
	return l
}

// fewLines are too few to look for those that nobody misses.
const fewLines = 64

// sweep forgets lines that were kept for the turns their clients have had.
func (g *Gate) sweep(now time.Time) {
	for _, l := range g.lines {
		l.refresh(now)
		g.drop(l)
	}
	g.sweepAt = max(fewLines, 2*len(g.lines))
}

func (g *Gate) join(w *waiter) *line {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.line(w.ask.Key)
	g.joined++
	w.seq = g.joined
	if w.ask.Others != nil {
		g.roaming++
	}
	l.add(w)
	return l
}

// age makes a background request count as normal once it has waited long
// enough, and returns when it will have, zero for never.
func (g *Gate) age(l *line, w *waiter, now time.Time) (ages time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch ages = w.ask.Arrived.Add(agesAfter); {
	case w.priority != Background || w.out:
		return time.Time{}
	case now.Before(ages):
		return ages
	}
	l.remove(w)
	w.priority = Normal
	l.add(w)
	return time.Time{}
}

// leave takes a waiter out, unless it has been let through meanwhile.
func (g *Gate) leave(l *line, w *waiter) (grant Grant, granted bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if told := w.heed(); told != nil && told.granted {
		return told.grant, true
	}
	g.remove(l, w)
	now := time.Now()
	l.refresh(now)
	if head := l.head(now); head != nil {
		head.look()
	} else {
		l.handOn(now) // those who still wait sleep, and may do so for long
	}
	g.drop(l)
	return Grant{}, false
}

// remove takes a waiter out. The lock is held.
func (g *Gate) remove(l *line, w *waiter) {
	w.out = true
	if l.block.by == w {
		l.block = block{}
	}
	if w.unjudged {
		l.unjudged--
	}
	l.wonder(w, false)
	if w.ask.Others != nil {
		g.roaming--
	}
	l.remove(w)
	if l.length() == 0 {
		l.forgetAway()
	}
}

// drop forgets a line with nobody in it, nothing in flight and no turns to
// remember.
func (g *Gate) drop(l *line) {
	if l.length() == 0 && l.active == 0 && len(l.apart) == 0 && len(l.turns) == 0 && g.lines[l.key] == l {
		delete(g.lines, l.key)
	}
}

// A view is what a waiter sees of its line when its turn to ask has come.
type view struct {
	activity policy.Activity
	ended    uint64
}

// beginAsk reports whether it is this waiter's turn to ask.
func (g *Gate) beginAsk(l *line, w *waiter) (turn bool, seen view) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	l.refresh(now)
	head := l.head(now)
	if l.asking {
		l.looked = l.looked || head == w
		return false, view{}
	}
	if head != w {
		// The turn may have passed to it with time alone.
		if head != nil && head != l.block.by {
			head.look()
		}
		return false, view{}
	}
	l.asking, l.refused, l.looked, l.missed = true, nil, false, l.missed[:0]
	seen = view{l.activity(), l.ended}
	seen.activity.Background, seen.activity.Anyway = w.priority == Background, w.anyway()
	return true, seen
}

// endAsk ends a question that let nobody through.
func (g *Gate) endAsk(l *line) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ready(l)
}

// begun is told of a waiter that was let through and has begun.
func (g *Gate) begun(l *line) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.beginning--; l.beginning == 0 {
		g.ready(l)
	}
}

// ready lets others ask: those that have joined in front, those behind who was
// let through, and the lines woken after this one. The lock is held.
func (g *Gate) ready(l *line) {
	now := time.Now()
	l.asking = false
	l.refresh(now)
	if head := l.head(now); head != nil && (head != l.refused || l.looked) {
		head.look()
	}
	l.handOn(now)
	g.drop(l)
}

// blocked remembers what the head met.
func (g *Gate) blocked(l *line, w *waiter, b block, own bool, ended uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.met(w, b, own, ended) {
		w.look()
	}
}

// met remembers what a waiter met. It reports whether what that lacked may have
// been given back since it asked, when ended requests of the line had ended.
func (l *line) met(w *waiter, b block, own bool, ended uint64) (missed bool) {
	b.by, l.refused = w, w
	news, judged := false, false
	if own {
		w.queue.lane.block = b
	} else {
		news, judged = !b.pause.Equal(l.block.pause), b.limits != nil
		l.block = b
	}
	if news || judged && l.unjudged > 0 || l.wondering > 0 {
		// Those behind the head may be less patient than it is.
		l.each(func(o *waiter) {
			if o != w && (news || judged && o.unjudged || o.wonders) {
				o.look()
			}
		})
	}
	return b.full && l.ended != ended || b.lacks(l.missed)
}

// letThrough lets a waiter through that has asked by itself.
func (g *Gate) letThrough(l *line, w *waiter, grant Grant) answer {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.begin(l, w, grant)
	return answer{came: true, granted: true, grant: grant}
}

// begin books a grant and takes the waiter out. Others may ask when it has
// begun. The lock is held.
func (g *Gate) begin(l *line, w *waiter, grant Grant) {
	l.active++
	w.queue.client.active++
	l.block, w.queue.lane.block = block{}, block{}
	l.turn(w, grant.At)
	if w.ask.Priority != Background {
		l.foreground = grant.At
	}
	g.keep(grant)
	g.remove(l, w)
	l.beginning++
}

// behind returns the refusal of a waiter that cannot bear what stands before
// the line or its lane, or before itself where it is the last.
func (g *Gate) behind(l *line, w *waiter) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.out {
		return nil // it has been let through
	}
	now := time.Now()
	own := w.queue.lane.block
	if err := w.bears(l.block, now); err != nil {
		return err
	}
	if w.ask.Deadline.IsZero() || w.judged || l.head(now) == w {
		return nil
	}
	judged := l.block.limits != nil || own.limits != nil
	if w.unjudged == judged {
		if w.unjudged = !judged; judged {
			l.unjudged--
		} else {
			l.unjudged++
		}
	}
	if !judged {
		return nil
	}
	w.judged = true
	n, ahead := l.before(w, now)
	at, why := l.block.earliest(n, now), l.block.why
	if in := own.earliest(ahead, now); in.After(at) {
		at, n, why = in, ahead, own.why
	}
	if at.After(w.ask.Deadline) {
		return &Refused{Reason: Deadline, Until: at, Why: fmt.Sprintf("%d wait before it, and %s", n, why)}
	}
	return nil
}

func (l *line) activity() policy.Activity {
	return policy.Activity{InFlight: l.active, Waiting: l.length(), Foreground: l.foreground}
}

func (l *line) length() (n int) {
	for _, m := range l.waiting {
		n += m
	}
	return n
}

// head is who may ask, nil where nobody waits but for limits of its own.
func (l *line) head(now time.Time) (first *waiter) {
	for _, a := range l.lanes {
		if w := a.head(); w != nil && !a.asleep(now) && (first == nil || w.goesBefore(first)) {
			first = w
		}
	}
	return first
}

func (l *line) wakeHead(now time.Time) {
	if w := l.head(now); w != nil {
		w.look()
	}
}

// handOn wakes the lines that were to follow this one.
func (l *line) handOn(now time.Time) {
	then := l.then
	l.then = nil
	wakeInTurn(then, now)
}

// wakeInTurn wakes the first line that has a head; the others follow when it
// has asked, so that what was freed goes to who has waited longest.
func wakeInTurn(lines []*line, now time.Time) {
	for i, l := range lines {
		if w := l.head(now); w != nil {
			l.then = append(l.then, lines[i+1:]...)
			w.look()
			return
		}
	}
}

// miss notes what is given back while the line asks.
func (l *line) miss(holds []string) {
	for _, key := range holds {
		if !slices.Contains(l.missed, key) {
			l.missed = append(l.missed, key)
		}
	}
}

// unblock reports whether what blocks the line is a place or tokens of one of
// these buckets, and ends the sleep of lanes that one of them blocks.
func (l *line) unblock(held []string) bool {
	found := l.block.lacks(held)
	for _, a := range l.lanes {
		if a.block.lacks(held) {
			a.block, found = block{}, true
		}
	}
	return found
}
