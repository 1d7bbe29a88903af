package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// Release gives back the places a permit holds. Those of others that wait to be
// given back travel along.
func (l *Limiter) Release(ctx context.Context, text string) error {
	p, ok := permitOf(text)
	if err := l.open(); err != nil || !ok {
		return err
	}
	if err := ctx.Err(); err != nil {
		return l.where.explain(err)
	}
	done := l.releases.add(p, l.giveBackAll)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return l.where.explain(ctx.Err())
	}
}

// open is an error once the limiter is closed.
func (l *Limiter) open() error {
	if l.closed.Load() {
		return errClosed
	}
	return nil
}

// releases are permits that wait while others are being given back: the next
// call of the script takes all of them.
type releases struct {
	mu      sync.Mutex
	waiting []release
	busy    bool
}

type release struct {
	permit permit
	done   chan error
}

// add has a permit given back, by begin unless somebody is about it.
func (r *releases) add(p permit, begin func()) (done chan error) {
	done = make(chan error, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, release{p, done})
	if !r.busy {
		r.busy = true
		go begin()
	}
	return done
}

// take are the next to be given back, or none, and then nobody is about it.
func (r *releases) take() []release {
	r.mu.Lock()
	defer r.mu.Unlock()
	some := r.waiting[:min(len(r.waiting), mostTogether)]
	r.waiting = r.waiting[len(some):]
	r.busy = len(some) > 0
	return some
}

// giveBackAll gives back until nobody waits. Whoever stops waiting is served all
// the same, so that it has to know by itself when to give up.
func (l *Limiter) giveBackAll() {
	for some := l.releases.take(); len(some) > 0; some = l.releases.take() {
		var h holdings
		for _, r := range some {
			h.add(l, r.permit)
		}
		ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
		_, err := l.run(ctx, l.scripts.release, h.keys(), []string{strconv.Itoa(len(h.buckets)), string(h.places)})
		cancel()
		for _, r := range some {
			r.done <- err
		}
	}
}

// mostTogether is how many permits travel together.
const mostTogether = 256

// Renew makes each permit last for hold from now, in one round trip for the
// usual number of them.
func (l *Limiter) Renew(ctx context.Context, permits []string, hold time.Duration) error {
	if hold <= 0 {
		return fmt.Errorf("%w: hold %v is not positive", limiter.ErrInvalid, hold)
	}
	if err := l.open(); err != nil {
		return err
	}
	for some := range slices.Chunk(permits, mostTogether) {
		var h holdings
		for _, text := range some {
			if p, ok := permitOf(text); ok {
				h.add(l, p)
			}
		}
		keys := h.keys()
		if len(keys) == 0 {
			continue
		}
		args := []string{strconv.Itoa(len(h.buckets)), number(micros(hold)), string(h.places)}
		if _, err := l.run(ctx, l.scripts.renew, keys, args); err != nil {
			return err
		}
	}
	return nil
}

// holdings are what permits hold: buckets, places in these, and records.
type holdings struct {
	buckets, records []string
	at               map[hash]int // of a bucket, from 1
	places           []byte
}

func (h *holdings) add(l *Limiter, p permit) {
	if h.at == nil {
		h.at = make(map[hash]int)
	}
	for _, b := range p.buckets {
		if h.at[b] == 0 {
			h.buckets = append(h.buckets, l.key(bucketKey, b))
			h.at[b] = len(h.buckets)
		}
		h.places = binary.LittleEndian.AppendUint16(h.places, uint16(h.at[b]))
		h.places = append(h.places, p.name[:]...)
	}
	if p.record {
		h.records = append(h.records, l.recordOf(p.name))
	}
}

func (h *holdings) keys() []string { return slices.Concat(h.buckets, h.records) }

// Settle puts right what a permit's call counts in buckets that its request
// named with a cost of a limit's own.
func (l *Limiter) Settle(ctx context.Context, text string, costs []limiter.Cost) error {
	for _, c := range costs {
		if c.Cost < 0 {
			return fmt.Errorf("%w: cost %d of %q is negative", limiter.ErrInvalid, c.Cost, c.Key)
		}
	}
	p, ok := permitOf(text)
	if !ok || !p.record || len(costs) == 0 {
		return l.open()
	}
	keys := []string{l.recordOf(p.name)}
	var totals []string
	for _, c := range costs {
		keys = append(keys, l.key(bucketKey, hashOf(c.Key)))
		totals = append(totals, number(count(c.Cost)))
	}
	_, err := l.run(ctx, l.scripts.settle, keys, totals)
	return err
}

// number is a whole number for a script.
func number(v float64) string { return strconv.FormatInt(int64(min(v, math.MaxInt64/2)), 10) }
