package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// A permit is a number drawn by who asks, so that no sequence which a crash could
// set back has to be kept.
func formatPermit(n int64) string { return fmt.Sprintf("%016x", n) }

// parsePermit is a permit's number, unless it is none of ours.
func parsePermit(permit string) (n int64, ok bool) {
	n, err := strconv.ParseInt(permit, 16, 64)
	return n, err == nil && formatPermit(n) == permit
}

// Release gives back the places of a permit.
func (l *Limiter) Release(ctx context.Context, permit string) error {
	n, ok := parsePermit(permit)
	if !ok {
		return l.alive()
	}
	_, err := l.call(ctx, fmt.Sprintf("select %s.release(%d)", l.schema, n))
	return err
}

// Renew makes each permit last for hold from now.
func (l *Limiter) Renew(ctx context.Context, permits []string, hold time.Duration) error {
	if hold <= 0 {
		return fmt.Errorf("%w: hold %v is not positive", limiter.ErrInvalid, hold)
	}
	var ns []int64
	for _, p := range permits {
		if n, ok := parsePermit(p); ok {
			ns = append(ns, n)
		}
	}
	if len(ns) == 0 {
		return l.alive()
	}
	_, err := l.call(ctx, fmt.Sprintf("select %s.renew(%s, %d, %t)", l.schema, appendNumbers(nil, ns...), micros(hold), l.durable))
	return err
}

// Settle puts right what a permit's call counts in buckets that its request named
// with a cost of a limit's own.
func (l *Limiter) Settle(ctx context.Context, permit string, costs []limiter.Cost) error {
	var ids []id
	var totals []int64
	for _, c := range costs {
		if c.Cost < 0 {
			return fmt.Errorf("%w: cost %d of %q is negative", limiter.ErrInvalid, c.Cost, c.Key)
		}
		i := slices.Index(ids, idOf(c.Key))
		if i < 0 {
			i = len(ids)
			ids, totals = append(ids, idOf(c.Key)), append(totals, 0)
		}
		totals[i] = int64(c.Cost) // the last one said stands
	}
	n, ok := parsePermit(permit)
	if !ok || len(costs) == 0 {
		return l.alive()
	}
	_, err := l.call(ctx, fmt.Sprintf("select %s.settle(%d, %s, %s, %t)", l.schema, n, appendIDs(nil, ids...), appendNumbers(nil, totals...), l.durable))
	return err
}
