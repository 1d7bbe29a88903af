package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// Peek says how full limits are and until when a caller's key is closed.
func (l *Limiter) Peek(ctx context.Context, key string, limits []limiter.Limit) (v limiter.View, err error) {
	r := limiter.Request{Limits: limits, Hold: 1}
	if err := r.Validate(); err != nil {
		return v, err
	}
	buckets := bucketsOf(limits)
	answer, err := l.numbers(ctx, fmt.Sprintf("select %s.peek(%s, %s, %s)", l.schema,
		appendIDs(nil, buckets.ids...), appendID(nil, idOf(key)), appendNumbers(nil, appendLimits(nil, &buckets, r)...)))
	if err != nil {
		return v, err
	}
	if len(answer) != 2+2*len(limits) {
		return v, fmt.Errorf("%s: unexpected answer: usage of %d limits", l.target, len(answer)/2-1)
	}
	v.Now = time.UnixMicro(answer[0])
	if answer[1] > answer[0] {
		v.Throttled = time.UnixMicro(answer[1])
	}
	for i := range limits {
		v.Usage = append(v.Usage, limiter.Usage{Used: int(answer[2+2*i]), Held: int(answer[3+2*i])})
	}
	return v, nil
}

// Seed counts a call that was granted at an earlier instant of time.Now's clock.
func (l *Limiter) Seed(ctx context.Context, limits []limiter.Limit, at time.Time) error {
	r := limiter.Request{Limits: limits, Hold: 1}
	if err := r.Validate(); err != nil {
		return err
	}
	buckets := bucketsOf(limits)
	asked := time.Now()
	ago := max(0, asked.Sub(at))
	_, err := l.call(ctx, fmt.Sprintf("select %s.seed(%s, %s, %d)", l.schema,
		appendIDs(nil, buckets.ids...), appendNumbers(nil, appendLimits(nil, &buckets, r)...), ago.Microseconds()))
	return err
}

func bucketsOf(limits []limiter.Limit) (x index) {
	for _, l := range limits {
		x.add(l.Key)
	}
	return x
}
