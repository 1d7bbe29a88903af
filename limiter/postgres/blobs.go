package postgres

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// Get returns what is stored under a key, nil where nothing is.
func (l *Limiter) Get(ctx context.Context, key string) ([]byte, error) {
	data, _, err := l.blob(ctx, key)
	return data, err
}

// blob is what is stored and its version, 0 where nothing is.
func (l *Limiter) blob(ctx context.Context, key string) (data []byte, version int64, err error) {
	row, err := l.call(ctx, fmt.Sprintf("select version, encode(data, 'hex') from %s.blob where id = %s", l.schema, appendID(nil, idOf(key))))
	if err != nil || row == nil {
		return nil, 0, err
	}
	if version, err = strconv.ParseInt(string(row[0]), 10, 64); err == nil {
		data, err = hex.DecodeString(string(row[1]))
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%s: unexpected answer: %w", l.target, err)
	}
	return data, version, nil
}

// Update replaces what is stored by f of it. Where another was faster, f is asked
// again.
func (l *Limiter) Update(ctx context.Context, key string, f func(old []byte) []byte) error {
	for try := 1; ; try++ {
		old, version, err := l.blob(ctx, key)
		if err != nil {
			return err
		}
		row, err := l.call(ctx, fmt.Sprintf("select %s.replace(%s, %d, decode('%x', 'hex'))", l.schema, appendID(nil, idOf(key)), version, f(old)))
		if err != nil || len(row) == 1 && string(row[0]) == "t" {
			return err
		}
		// Several at once would go on getting in each other's way.
		select {
		case <-time.After(rand.N(time.Duration(min(try, 20)) * time.Millisecond)):
		case <-ctx.Done():
			return l.failed(ctx.Err())
		}
	}
}
