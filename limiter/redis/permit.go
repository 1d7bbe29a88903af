package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// Release gives back the places a permit holds.
func (l *Limiter) Release(ctx context.Context, text string) error {
	p, ok := permitOf(text)
	if !ok {
		return l.open()
	}
	var keys []string
	for _, h := range p.buckets {
		keys = append(keys, l.key(bucketKey, h))
	}
	if p.record {
		keys = append(keys, l.recordOf(p.name))
	}
	_, err := l.run(ctx, l.scripts.release, keys, []string{strconv.Itoa(len(p.buckets)), string(p.name[:])})
	return err
}

// open is an error once the limiter is closed.
func (l *Limiter) open() error {
	if l.closed.Load() {
		return errClosed
	}
	return nil
}

// mostRenewed travel together.
const mostRenewed = 256

// Renew makes each permit last for hold from now, in one round trip for the
// usual number of them.
func (l *Limiter) Renew(ctx context.Context, permits []string, hold time.Duration) error {
	if hold <= 0 {
		return fmt.Errorf("%w: hold %v is not positive", limiter.ErrInvalid, hold)
	}
	if err := l.open(); err != nil {
		return err
	}
	for some := range slices.Chunk(permits, mostRenewed) {
		if err := l.renew(ctx, some, hold); err != nil {
			return err
		}
	}
	return nil
}

func (l *Limiter) renew(ctx context.Context, permits []string, hold time.Duration) error {
	var keys, records []string
	var places []byte
	at := map[hash]int{}
	for _, text := range permits {
		p, ok := permitOf(text)
		if !ok {
			continue
		}
		for _, h := range p.buckets {
			if at[h] == 0 {
				keys = append(keys, l.key(bucketKey, h))
				at[h] = len(keys)
			}
			places = binary.LittleEndian.AppendUint16(places, uint16(at[h]))
			places = append(places, p.name[:]...)
		}
		if p.record {
			records = append(records, l.recordOf(p.name))
		}
	}
	if len(keys)+len(records) == 0 {
		return nil
	}
	_, err := l.run(ctx, l.scripts.renew, append(keys, records...), []string{strconv.Itoa(len(keys)), number(micros(hold)), string(places)})
	return err
}

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
