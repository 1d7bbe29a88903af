package redis

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// Peek says how full limits are and until when a caller's key is closed. A window
// that counts as full for what may have been lost is shown so.
func (l *Limiter) Peek(ctx context.Context, key string, limits []limiter.Limit) (v limiter.View, err error) {
	if err := (limiter.Request{Limits: limits, Hold: 1}).Validate(); err != nil {
		return v, err
	}
	if err := few(limits); err != nil {
		return v, err
	}
	keys := []string{l.tag + "epoch", l.key(throttleKey, hashOf(key))}
	var list []byte
	for _, limit := range limits {
		list = l.refer(list, &keys, limit)
	}
	m, err := l.run(ctx, l.scripts.peek, keys, []string{string(list)})
	if err != nil {
		return v, err
	}
	text, err := m.ToString()
	if err != nil {
		return v, l.where.explain(err)
	}
	a := answer{text: text}
	clock := a.double()
	v.Now = instant(clock)
	if closed := a.double(); closed > 0 {
		v.Throttled = instant(clock + closed)
	}
	v.Usage = make([]limiter.Usage, len(limits))
	for i, limit := range limits {
		u := limiter.Usage{Used: int(a.double())}
		held, full := int(a.double()), a.uint(1) > 0
		if limit.Concurrent > 0 {
			u.Held = held
		}
		if full {
			u.Used = max(u.Used, limit.Calls)
		}
		v.Usage[i] = u
	}
	if a.short {
		return v, l.where.explain(errAnswer)
	}
	return v, nil
}

// refer appends a limit's bucket, as a place among keys, and its span.
func (l *Limiter) refer(list []byte, keys *[]string, limit limiter.Limit) []byte {
	key := l.key(bucketKey, hashOf(limit.Key))
	at := slices.Index(*keys, key)
	if at < 0 {
		at = len(*keys)
		*keys = append(*keys, key)
	}
	list = binary.LittleEndian.AppendUint16(list, uint16(at+1))
	return appendDouble(list, micros(limit.Per))
}

// Seed counts a call that was granted at an earlier instant of time.Now's clock.
func (l *Limiter) Seed(ctx context.Context, limits []limiter.Limit, at time.Time) error {
	r := limiter.Request{Limits: limits, Hold: 1}
	if err := r.Validate(); err != nil {
		return err
	}
	if err := few(limits); err != nil {
		return err
	}
	age := max(0, time.Since(at))
	var keys []string
	var list []byte
	for _, limit := range limits {
		if limit.Calls > 0 {
			list = l.refer(list, &keys, limit)
			list = appendDouble(list, min(count(r.CostOf(limit)), count(limit.Calls)))
		}
	}
	if len(keys) == 0 {
		return l.open()
	}
	_, err := l.run(ctx, l.scripts.seed, keys, []string{number(float64(age / time.Microsecond)), string(list)})
	return err
}
