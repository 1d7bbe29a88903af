package gate

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Priority orders a line. The zero value is Normal.
type Priority int8

// The priorities, the most urgent first.
const (
	Interactive Priority = -1
	Normal      Priority = 0
	Background  Priority = 1
)

func (p Priority) String() string {
	return [urgencies]string{"interactive", "normal", "background"}[p+1]
}

const (
	urgencies = 3
	// turnsFor is for how long starts count against whose turn is next.
	turnsFor = time.Minute
	// turnsTogether is how close starts of one client are noted as one.
	turnsTogether = turnsFor / 240
	// agesAfter is when a waiting background request counts as normal.
	agesAfter = 10 * time.Minute
	// mostAway bounds the clients that are kept while they are away.
	mostAway = 1024
)

// A lane is the requests of a line that have the same limits of their own. One
// that meets only those sleeps, and the next lane is asked.
type lane struct {
	own    string
	queues [urgencies]heapOf[*queue]
	block  block // what its head met in its own limits
}

// A queue is the requests of one client in a lane that are equally urgent.
type queue struct {
	client  *client
	lane    *lane
	urgency Priority
	waiting heapOf[*waiter]
	index   int
}

// A client takes turns with the others of its line.
type client struct {
	name   string
	active int // granted and not released
	starts int // in the last minute
	last   time.Time
	latest *turns
	queues []*queue
	away   bool // it is one of the line's
}

// turns are starts of a client at about one instant.
type turns struct {
	client *client
	at     time.Time
	n      int
}

func (q *queue) before(o *queue) bool { return q.compare(o) < 0 }
func (q *queue) at() *int             { return &q.index }

// compare puts the client with fewer starts first.
func (q *queue) compare(o *queue) int {
	return cmp.Or(cmp.Compare(q.client.starts, o.client.starts), q.compareEven(o))
}

// compareEven orders clients with as many starts: the one whose latest is
// longer ago, where less than one a minute is started, then who came first.
func (q *queue) compareEven(o *queue) int {
	return cmp.Or(q.client.last.Compare(o.client.last), q.waiting[0].compare(o.waiting[0]))
}

func (a *lane) head() *waiter {
	for _, qs := range a.queues {
		if len(qs) > 0 {
			return qs[0].waiting[0]
		}
	}
	return nil
}

// asleep reports whether the lane waits for limits of its own. Another head
// than the one that met them may be more urgent, and so have others.
func (a *lane) asleep(now time.Time) bool {
	return a.block.by != nil && a.block.by == a.head() && now.Before(a.block.until)
}

// add puts a waiter into its queue, made where there is none.
func (l *line) add(w *waiter) {
	a := l.lanes[w.ask.Lane]
	if a == nil {
		a = &lane{own: w.ask.Lane}
		l.lanes[w.ask.Lane] = a
	}
	l.client(w.ask.Client).queue(a, w.priority).put(w)
	l.waiting[w.priority+1]++
}

// remove takes a waiter out of its queue.
func (l *line) remove(w *waiter) {
	q := w.queue
	q.pull(w)
	if len(q.waiting) == 0 {
		l.forget(q.client)
		if q.lane.head() == nil {
			delete(l.lanes, q.lane.own)
		}
	}
	l.waiting[q.urgency+1]--
}

// put adds a waiter, and the queue to its lane where that is the first.
func (q *queue) put(w *waiter) {
	heap.Push(&q.waiting, w)
	w.queue = q
	qs := &q.lane.queues[q.urgency+1]
	if len(q.waiting) == 1 {
		q.client.queues = append(q.client.queues, q)
		heap.Push(qs, q)
	} else {
		heap.Fix(qs, q.index)
	}
}

// pull takes a waiter out, and the queue from its lane where that is the last.
func (q *queue) pull(w *waiter) {
	heap.Remove(&q.waiting, w.index)
	qs := &q.lane.queues[q.urgency+1]
	if len(q.waiting) > 0 {
		heap.Fix(qs, q.index)
	} else {
		heap.Remove(qs, q.index)
		q.client.forget(q)
	}
}

func (l *line) client(name string) *client {
	c := l.clients[name]
	if c == nil {
		c = &client{name: name}
		l.clients[name] = c
	}
	return c
}

// forget drops a client that neither waits nor runs nor was started of late.
// While others wait it is kept for when its latest start was: else it would
// come back before all who have waited since.
func (l *line) forget(c *client) {
	if len(c.queues) > 0 || c.starts > 0 || c.active > 0 || c.away {
		return
	}
	if l.length() > 0 && !c.last.IsZero() && len(l.away) < mostAway {
		c.away = true
		l.away = append(l.away, c)
		return
	}
	delete(l.clients, c.name)
}

// forgetAway forgets those who were kept while somebody waited.
func (l *line) forgetAway() {
	away := l.away
	l.away = nil
	for _, c := range away {
		c.away = false
		l.forget(c)
	}
}

func (c *client) queue(a *lane, p Priority) *queue {
	for _, q := range c.queues {
		if q.lane == a && q.urgency == p {
			return q
		}
	}
	return &queue{client: c, lane: a, urgency: p}
}

func (c *client) forget(q *queue) {
	for i := range c.queues {
		if c.queues[i] == q {
			c.queues = append(c.queues[:i], c.queues[i+1:]...)
			return
		}
	}
}

// holders says which clients run how many requests, those with the most first.
func (l *line) holders() string {
	var held []*client
	for _, c := range l.clients {
		if c.active > 0 && c.name != "" {
			held = append(held, c)
		}
	}
	slices.SortFunc(held, func(a, b *client) int { return cmp.Or(b.active-a.active, strings.Compare(a.name, b.name)) })
	var parts []string
	for _, c := range held[:min(len(held), 5)] {
		parts = append(parts, fmt.Sprintf("%s %d", c.name, c.active))
	}
	if parts == nil {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// turn counts a start against the client's next turn.
func (l *line) turn(w *waiter, at time.Time) {
	c := w.queue.client
	at = l.turnAt(at)
	if c.latest == nil || at.Sub(c.latest.at) >= turnsTogether {
		c.latest = &turns{client: c, at: at}
		l.turns = append(l.turns, c.latest)
	}
	c.latest.n++
	c.last = at
	c.count(1)
}

// turnAt is the instant of the next turn: each has its own, also where several
// are started at one.
func (l *line) turnAt(now time.Time) time.Time {
	l.turned = later(now, l.turned.Add(1))
	return l.turned
}

// refresh forgets the turns of more than a minute ago.
func (l *line) refresh(now time.Time) {
	for len(l.turns) > 0 && now.Sub(l.turns[0].at) >= turnsFor {
		t := l.turns[0]
		l.turns[0] = nil
		l.turns = l.turns[1:]
		if t.client.latest == t {
			t.client.latest = nil
		}
		t.client.count(-t.n)
		l.forget(t.client)
	}
}

func (c *client) count(n int) {
	c.starts += n
	for _, q := range c.queues {
		heap.Fix(&q.lane.queues[q.urgency+1], q.index)
	}
}

// each shows f everybody who waits.
func (l *line) each(f func(*waiter)) {
	for _, a := range l.lanes {
		for _, qs := range a.queues {
			for _, q := range qs {
				for _, w := range q.waiting {
					f(w)
				}
			}
		}
	}
}

// before counts those in the line, and those of them in its lane, who will
// start before a waiter if nobody else comes: at least, since the turns that
// its client has had are forgotten while it waits.
func (l *line) before(w *waiter, now time.Time) (line, own int) {
	rank := 0
	for _, o := range w.queue.waiting {
		if o.compare(w) < 0 {
			rank++
		}
	}
	urgency := w.priority
	if urgency == Background && !w.ask.Arrived.Add(agesAfter).After(w.ask.Deadline) {
		urgency = Normal // before it has to leave
	}
	for _, a := range l.lanes {
		if a != w.queue.lane && a.asleep(now) {
			continue
		}
		n := 0
		for i, qs := range a.queues {
			for _, q := range qs {
				switch p := Priority(i - 1); {
				case p < urgency:
					n += len(q.waiting)
				case q == w.queue:
					n += rank
				case p == urgency && rank > q.client.starts:
					n += min(len(q.waiting), rank-q.client.starts)
				case p == urgency && rank+q.client.starts == 0 && q.compareEven(w.queue) < 0:
					n++
				}
			}
		}
		line += n
		if a == w.queue.lane {
			own = n
		}
	}
	return line, own
}

// heapOf is a heap whose members know their place in it.
type heapOf[T member[T]] []T

type member[T any] interface {
	before(T) bool
	at() *int
}

var (
	_ member[*queue]  = (*queue)(nil)
	_ member[*waiter] = (*waiter)(nil)
)

func (h heapOf[T]) Len() int           { return len(h) }
func (h heapOf[T]) Less(i, j int) bool { return h[i].before(h[j]) }
func (h heapOf[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	*h[i].at(), *h[j].at() = i, j
}
func (h *heapOf[T]) Push(x any) {
	v := x.(T)
	*v.at() = len(*h)
	*h = append(*h, v)
}
func (h *heapOf[T]) Pop() any {
	old := *h
	var none T
	v := old[len(old)-1]
	old[len(old)-1] = none
	*h = old[:len(old)-1]
	return v
}
