package redis

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/paceline-proxy/paceline/limiter"
)

// Acquire asks for one call.
func (l *Limiter) Acquire(ctx context.Context, r limiter.Request) (limiter.Decision, error) {
	if err := r.Validate(); err != nil {
		return limiter.Decision{}, err
	}
	if err := few(r.Limits); err != nil {
		return limiter.Decision{}, err
	}
	ds, err := l.acquire(ctx, []limiter.Request{r})
	if err != nil {
		return limiter.Decision{}, err
	}
	return ds[0], nil
}

// AcquireBatch asks for calls in order, in one round trip for the usual number
// of them. Equal requests in a row cost Redis hardly more than one.
func (l *Limiter) AcquireBatch(ctx context.Context, rs []limiter.Request) ([]limiter.Decision, error) {
	if err := limiter.ValidateAll(rs); err != nil {
		return nil, err
	}
	for _, r := range rs {
		if err := few(r.Limits); err != nil {
			return nil, err
		}
	}
	return l.acquire(ctx, rs)
}

// few is an error where there are more limits than a script takes.
func few(limits []limiter.Limit) error {
	if len(limits) > mostLimits {
		return fmt.Errorf("%w: %d limits, of which redis takes %d", limiter.ErrInvalid, len(limits), mostLimits)
	}
	return nil
}

func (l *Limiter) acquire(ctx context.Context, rs []limiter.Request) ([]limiter.Decision, error) {
	ds := make([]limiter.Decision, len(rs))
	refused := map[string]limiter.Decision{}
	for next := 0; next < len(rs); {
		q := question{l: l, rs: rs, ds: ds, refused: refused, keys: []string{l.tag + "epoch"}}
		next = q.put(next)
		if err := q.ask(ctx); err != nil {
			l.giveBack(ds[:next])
			return nil, err
		}
	}
	return ds, nil
}

// giveBack gives back the places of what was granted to nobody, and does not wait
// for it.
func (l *Limiter) giveBack(ds []limiter.Decision) {
	for _, d := range ds {
		if p, ok := permitOf(d.Permit); ok {
			l.releases.add(p, l.giveBackAll)
		}
	}
}

// A question is as many requests as travel together.
type question struct {
	l       *Limiter
	rs      []limiter.Request
	ds      []limiter.Decision
	refused map[string]limiter.Decision // by caller's key, in this batch

	runs    []run
	keys    []string // the epoch, throttles and buckets
	seen    map[string]int
	body    []byte // the runs, but for where their records are
	records []string
}

// A run is of equal requests, one after the other.
type run struct {
	first, n int
	number   uint32 // of its first permit
	settles  bool   // its permits have records
	places   []hash // buckets in which its permits hold places
}

// How much one script is asked, so that it does not keep others waiting: runs,
// requests of a run, limits of a request, and keys of all.
const (
	mostRuns   = 128
	mostEqual  = 1024
	mostLimits = 1000
	mostKeys   = 4000
)

// put takes requests from the next on, and says which is the next then.
func (q *question) put(next int) int {
	for next < len(q.rs) && len(q.runs) < mostRuns && len(q.keys)+len(q.records) < mostKeys {
		r := q.rs[next]
		if d, ok := q.refused[r.Key]; ok {
			q.ds[next] = d
			next++
			continue
		}
		n := 1
		for n < mostEqual && next+n < len(q.rs) && r.Equal(q.rs[next+n]) {
			n++
		}
		q.add(r, next, n)
		next += n
	}
	return next
}

// add puts a run of n requests.
func (q *question) add(r limiter.Request, first, n int) {
	run := run{first: first, n: n, number: q.l.names(n), settles: settles(r)}
	record := 0
	if run.settles {
		record = len(q.records) + 1
		for i := range n {
			q.records = append(q.records, q.l.recordOf(q.l.name(run.number+uint32(i))))
		}
	}
	caller, _ := q.place(throttleKey, r.Key)
	b := q.body
	b = binary.LittleEndian.AppendUint16(b, uint16(caller))
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	b = appendDouble(b, micros(r.Hold))
	b = binary.LittleEndian.AppendUint16(b, uint16(record))
	b = binary.LittleEndian.AppendUint32(b, run.number)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(r.Limits)))
	for _, limit := range r.Limits {
		at, h := q.place(bucketKey, limit.Key)
		if limit.Concurrent > 0 && !slices.Contains(run.places, h) {
			run.places = append(run.places, h)
		}
		calls := count(limit.Calls)
		b = binary.LittleEndian.AppendUint16(b, uint16(at))
		b = appendDouble(b, micros(limit.Per))
		b = appendDouble(b, calls)
		b = appendDouble(b, min(count(r.CostOf(limit)), calls)) // a cost above calls counts as calls
		b = appendDouble(b, count(limit.Concurrent))
		if run.settles && limit.Cost > 0 && limit.Calls > 0 {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	q.body = b
	q.runs = append(q.runs, run)
}

// settles says whether a grant of r can be settled.
func settles(r limiter.Request) bool {
	return r.Hold > 0 && slices.ContainsFunc(r.Limits, func(l limiter.Limit) bool { return l.Cost > 0 && l.Calls > 0 })
}

// place is where the key of a name is among the keys, from 1.
func (q *question) place(kind, name string) (at int, h hash) {
	h = hashOf(name)
	key := q.l.key(kind, h)
	for i := len(q.keys) - 1; i >= 0 && q.seen == nil; i-- {
		if q.keys[i] == key {
			return i + 1, h
		}
	}
	if at, ok := q.seen[key]; ok {
		return at, h
	}
	q.keys = append(q.keys, key)
	if len(q.keys) > 16 {
		if q.seen == nil {
			q.seen = make(map[string]int)
			for i, k := range q.keys {
				q.seen[k] = i + 1
			}
		}
		q.seen[key] = len(q.keys)
	}
	return len(q.keys), h
}

// ask puts the question and reads the answer. What a server granted that turns
// out to have lost its state is asked for again: it counts as full by then.
func (q *question) ask(ctx context.Context) error {
	if len(q.runs) == 0 {
		return nil
	}
	head := make([]byte, 0, 4+len(q.body))
	head = binary.LittleEndian.AppendUint16(head, uint16(len(q.keys)))
	head = binary.LittleEndian.AppendUint16(head, uint16(len(q.runs)))
	body := string(append(head, q.body...))
	keys := append(q.keys, q.records...)
	for range mostEpochs {
		e, err := q.l.epoch(ctx)
		if err != nil {
			return err
		}
		m, err := q.l.run(ctx, q.l.scripts.acquire, keys, []string{e.value, body, string(q.l.prefix[:])})
		if err != nil {
			return err
		}
		if m.IsArray() {
			q.l.outdated(e)
			continue
		}
		answer, err := m.ToString()
		if err == nil {
			err = q.read(answer)
		}
		if err != nil {
			return q.l.where.explain(err)
		}
		if e.dials == q.l.dials.Load() {
			return nil
		}
		since, err := q.l.epoch(ctx)
		if err == nil && since.value == e.value {
			return nil
		}
		for _, r := range q.runs {
			granted := q.ds[r.first : r.first+r.n]
			q.l.giveBack(granted)
			clear(granted)
			delete(q.refused, q.rs[r.first].Key)
		}
		if err != nil {
			return err
		}
	}
	return q.l.where.explain(errEpochs)
}

// mostEpochs is how often a question is put to a server that is another than it
// was a moment ago.
const mostEpochs = 10

var errEpochs = errors.New("it is another one each time it is asked: name one Redis, not a balancer over several")

// errAnswer is an answer that does not fit its question.
var errAnswer = errors.New("an answer that makes no sense")

// read takes an answer apart.
func (q *question) read(text string) error {
	a := answer{text: text}
	clock := a.double()
	now := instant(clock)
	for _, run := range q.runs {
		r := q.rs[run.first]
		granted, why := int(a.uint(4)), a.uint(2)
		if a.short || granted > run.n {
			return errAnswer
		}
		for i := range granted {
			d := limiter.Decision{Granted: true, Now: now}
			if run.settles || len(run.places) > 0 {
				name := q.l.name(run.number + uint32(i))
				d.Permit = permit{name, run.settles, run.places}.String()
			}
			q.ds[run.first+i] = d
		}
		if granted == run.n {
			continue
		}
		d, ok := q.refused[r.Key]
		if why != sameAsBefore {
			if d, ok = a.refusal(r, clock, int(why)); ok {
				d.Now = now
				q.refused[r.Key] = d
			}
		}
		if !ok {
			return errAnswer
		}
		for i := granted; i < run.n; i++ {
			q.ds[run.first+i] = d
		}
	}
	return nil
}

// sameAsBefore stands for the reasons of a run whose caller was refused before.
const sameAsBefore = 65535

// refusal reads what stands in the way: one entry for each bucket, the one that
// lasts longest, and one for the caller's throttle.
func (a *answer) refusal(r limiter.Request, clock float64, why int) (d limiter.Decision, ok bool) {
	for range why {
		at, places, left := int(a.uint(2)), a.uint(1), a.double()
		f := limiter.Refusal{Key: r.Key, RetryAt: instant(clock + left), Cause: limiter.Throttle}
		if a.short || at > len(r.Limits) {
			return d, false
		}
		if at > 0 {
			f.Key, f.Cause = r.Limits[at-1].Key, limiter.Rate
			if places > 0 {
				f.Cause = limiter.Concurrent
			}
		}
		same := func(o limiter.Refusal) bool {
			return o.Key == f.Key && (o.Cause == limiter.Throttle) == (f.Cause == limiter.Throttle)
		}
		switch i := slices.IndexFunc(d.Refused, same); {
		case i < 0:
			d.Refused = append(d.Refused, f)
		case f.RetryAt.After(d.Refused[i].RetryAt):
			d.Refused[i] = f
		}
		if f.RetryAt.After(d.RetryAt) {
			d.RetryAt = f.RetryAt
		}
	}
	return d, len(d.Refused) > 0
}

// An answer is read from its front. Once it was too short it stays so.
type answer struct {
	text  string
	short bool
}

func (a *answer) next(n int) string {
	if len(a.text) < n {
		a.short = true
		return strings.Repeat("\x00", n)
	}
	s := a.text[:n]
	a.text = a.text[n:]
	return s
}

func (a *answer) uint(bytes int) (v uint64) {
	for i, c := range []byte(a.next(bytes)) {
		v |= uint64(c) << (8 * i)
	}
	return v
}

func (a *answer) double() float64 { return math.Float64frombits(a.uint(8)) }

func appendDouble(b []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
}

// count is a number of calls as Lua has it: all of them are whole up to 1<<53,
// and sums of two must be.
func count(n int) float64 { return float64(min(int64(n), 1<<52)) }
