package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// Acquire asks for one call.
func (l *Limiter) Acquire(ctx context.Context, r limiter.Request) (limiter.Decision, error) {
	if err := r.Validate(); err != nil {
		return limiter.Decision{}, err
	}
	ds, err := l.acquire(ctx, []limiter.Request{r})
	if err != nil {
		return limiter.Decision{}, err
	}
	return ds[0], nil
}

// AcquireBatch asks for calls in order, all in one round trip.
func (l *Limiter) AcquireBatch(ctx context.Context, rs []limiter.Request) ([]limiter.Decision, error) {
	if err := limiter.ValidateAll(rs); err != nil {
		return nil, err
	}
	if len(rs) == 0 {
		return nil, l.alive()
	}
	return l.acquire(ctx, rs)
}

// A run is successive requests that are equal, which the server judges at once.
type run struct {
	limiter.Request
	count  int
	permit int64 // the first one's, if they are given any
}

func runsOf(rs []limiter.Request) []run {
	var runs []run
	for _, r := range rs {
		if n := len(runs); n > 0 && runs[n-1].Equal(r) {
			runs[n-1].count++
			continue
		}
		// Room for those that follow it.
		runs = append(runs, run{Request: r, count: 1, permit: rand.Int64N(1 << 62)})
	}
	return runs
}

// permitted says whether a grant is given a permit: there is something to hold or
// to settle.
func permitted(r limiter.Request) bool {
	return r.Hold > 0 && slices.ContainsFunc(r.Limits, func(l limiter.Limit) bool {
		return l.Concurrent > 0 || l.Calls > 0 && l.Cost > 0
	})
}

func (l *Limiter) acquire(ctx context.Context, rs []limiter.Request) ([]limiter.Decision, error) {
	runs := runsOf(rs)
	var buckets, callers index
	for _, r := range runs {
		callers.add(r.Key)
		for _, limit := range r.Limits {
			buckets.add(limit.Key)
		}
	}
	leave := func() {}
	if len(buckets.ids) > 0 {
		var err error
		if leave, err = l.enter(ctx, buckets.ids[0]); err != nil {
			return nil, err
		}
	}
	row, err := l.callUntil(ctx, l.question(runs, &buckets, &callers), func(missed bool) {
		leave()
		if missed {
			l.abandon(runs, &buckets)
		}
	})
	if err != nil {
		return nil, err
	}
	answer, err := l.numbersIn(row)
	if err != nil {
		return nil, err
	}
	ds, err := decide(answer, runs, &buckets)
	if err != nil {
		return nil, fmt.Errorf("%s: unexpected answer: %w", l.target, err)
	}
	l.note(answer[0], answer[1])
	return ds, nil
}

// enter waits until there is room in the lane of a bucket.
func (l *Limiter) enter(ctx context.Context, bucket id) (leave func(), err error) {
	lane := l.lanes[int(bucket[0])%len(l.lanes)]
	select {
	case lane <- struct{}{}:
		return func() { <-lane }, nil
	case <-ctx.Done():
		return nil, l.failed(ctx.Err())
	case <-l.life.Done():
		return nil, errClosed
	}
}

// question is the statement that asks for runs of requests.
func (l *Limiter) question(runs []run, buckets, callers *index) string {
	var asks []int64
	for _, r := range runs {
		hold := int64(0)
		if permitted(r.Request) {
			hold = micros(r.Hold)
		}
		asks = append(asks, callers.number(r.Key), int64(r.count), hold, r.permit, int64(len(r.Limits)))
		asks = appendLimits(asks, buckets, r.Request)
	}
	b := append([]byte("select "), l.schema...)
	b = append(b, ".acquire("...)
	b = appendIDs(b, buckets.ids...)
	b = append(b, ", "...)
	b = appendIDs(b, callers.ids...)
	b = append(b, ", "...)
	b = appendNumbers(b, asks...)
	b = append(b, ", "...)
	b = strconv.AppendBool(b, l.durable)
	return string(append(b, ')'))
}

// appendLimits writes the limits of a request as the server's functions read them.
func appendLimits(to []int64, buckets *index, r limiter.Request) []int64 {
	first := len(to)
	for _, l := range r.Limits {
		var own int64
		if l.Cost > 0 {
			own = 1
		}
		bucket, per := buckets.number(l.Key), micros(l.Per)
		for i := first; i < len(to); i += 6 {
			if l.Calls > 0 && to[i] == bucket && to[i+2] == per {
				per++ // it was another one before it was rounded
			}
		}
		to = append(to, bucket, int64(l.Calls), per, int64(l.Concurrent), int64(min(r.CostOf(l), max(l.Calls, 1))), own)
	}
	return to
}

var errShort = errors.New("it ends too soon")

// decide reads what the server answered to runs of requests.
func decide(answer []int64, runs []run, buckets *index) ([]limiter.Decision, error) {
	take := func(n int64) []int64 {
		if n < 0 || int64(len(answer)) < n {
			return nil
		}
		taken := answer[:n:n]
		answer = answer[n:]
		return taken
	}
	head := take(2)
	if head == nil {
		return nil, errShort
	}
	now := time.UnixMicro(head[0])
	var ds []limiter.Decision
	refused := make(map[string]limiter.Decision)
	for _, r := range runs {
		counts := take(2)
		if counts == nil {
			return nil, errShort
		}
		causes := take(3 * counts[1])
		if counts[1] > 0 && causes == nil {
			return nil, errShort
		}
		for i := range min(counts[0], int64(r.count)) {
			d := limiter.Decision{Granted: true, Now: now}
			if permitted(r.Request) {
				d.Permit = formatPermit(r.permit + i)
			}
			ds = append(ds, d)
		}
		if len(causes) > 0 {
			refused[r.Key] = refusal(now, r.Key, causes, buckets)
		}
		for range int64(r.count) - counts[0] {
			d, ok := refused[r.Key]
			if !ok {
				return nil, errors.New("a refusal without a cause")
			}
			ds = append(ds, d)
		}
	}
	return ds, nil
}

func refusal(now time.Time, caller string, causes []int64, buckets *index) limiter.Decision {
	d := limiter.Decision{Now: now}
	for c := range slices.Chunk(causes, 3) {
		f := limiter.Refusal{Key: caller, RetryAt: time.UnixMicro(c[1]), Cause: limiter.Throttle}
		if c[0] > 0 {
			f.Key = buckets.keys[c[0]-1]
			f.Cause = limiter.Rate
			if c[2] == 2 {
				f.Cause = limiter.Concurrent
			}
		}
		if f.RetryAt.After(d.RetryAt) {
			d.RetryAt = f.RetryAt
		}
		d.Refused = append(d.Refused, f)
	}
	return d
}

// abandonWithin is for how long it is tried to give places back.
const abandonWithin = 5 * time.Second

// abandon gives back, beside the caller who was told of an error, the places that
// may have been granted all the same. Where that fails they lapse.
func (l *Limiter) abandon(runs []run, buckets *index) {
	var permits []int64
	for _, r := range runs {
		if permitted(r.Request) {
			for i := range r.count {
				permits = append(permits, r.permit+int64(i))
			}
		}
	}
	if len(permits) == 0 || l.alive() != nil {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(l.life, abandonWithin)
		defer cancel()
		_, _ = l.call(ctx, fmt.Sprintf("select %s.abandon(%s, %s)", l.schema, appendIDs(nil, buckets.ids...), appendNumbers(nil, permits...)))
	}()
}
