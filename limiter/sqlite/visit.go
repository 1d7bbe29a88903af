package sqlite

import (
	"context"
	"fmt"
)

// A visit is one transaction: the instant at which it sees the file, the buckets
// it has read, and what it will write.
type visit struct {
	l   *Limiter
	now int64

	clock clock
	due   bool // the clock has to be stored

	buckets []*bucket
	caller  *string // whose throttle has been read last
	until   int64

	written bool // something is
}

// update calls f within a transaction that nobody else writes in. What f changes
// is written unless it returns an error.
func (l *Limiter) update(ctx context.Context, f func(*visit) error) error {
	return l.visit(ctx, begin, func(v *visit) error {
		if err := f(v); err != nil {
			return err
		}
		return v.write()
	})
}

// view calls f within a transaction that sees the file as it was at one instant.
func (l *Limiter) view(ctx context.Context, f func(*visit) error) error {
	return l.visit(ctx, look, f)
}

func (l *Limiter) visit(ctx context.Context, how query, f func(*visit) error) error {
	if err := l.enter(ctx); err != nil {
		return err
	}
	defer l.leave()
	v := &visit{l: l}
	err := l.patiently(ctx, func() error { return v.begin(how) })
	if err == nil {
		err = v.end(f)
	}
	if err == nil {
		return nil
	}
	if code(err) != codeBusy {
		_ = l.shut() // the next call opens it again: most of what ails files passes
	}
	return l.fault(err)
}

// begin begins the transaction, or leaves none behind.
func (v *visit) begin(how query) error {
	if err := v.l.exec(how); err != nil {
		return err
	}
	c := &v.clock
	ok, err := v.l.row(getClock, nil, &c.run, &c.zero, &c.last, &c.wall)
	if err == nil && !ok {
		err = fmt.Errorf("its clock is missing: %w", errDamaged)
	}
	if err != nil {
		_ = v.l.exec(rollback) // SQLite may have done so itself
		return err
	}
	v.now, v.due = c.read(v.l.machine)
	return nil
}

// end calls f and ends the transaction.
func (v *visit) end(f func(*visit) error) error {
	committed := false
	defer func() { // also where f panics
		if !committed {
			_ = v.l.exec(rollback) // SQLite may have done so itself
		}
	}()
	if err := f(v); err != nil || !v.written {
		return err
	}
	err := v.l.exec(commit)
	committed = err == nil
	return err
}

// present is the instant by now, a little later than that of the visit. What was
// measured by the caller's clock before is never told too early by it.
func (v *visit) present() int64 {
	c := v.clock
	now, _ := c.read(v.l.machine)
	return now
}

// bucket is a key's bucket, an empty one where nothing is stored of it.
func (v *visit) bucket(key string) (*bucket, error) {
	for _, b := range v.buckets {
		if b.key == key {
			return b, nil
		}
	}
	b, err := v.read(getBucket, key)
	if b == nil && err == nil {
		b = &bucket{key: key}
		v.buckets = append(v.buckets, b)
	}
	return b, err
}

// stored is the bucket of a row, nil where there is none.
func (v *visit) stored(id int64) (*bucket, error) {
	for _, b := range v.buckets {
		if b.id == id {
			return b, nil
		}
	}
	return v.read(getRow, id)
}

func (v *visit) read(q query, arg any) (*bucket, error) {
	b := &bucket{}
	var raw []byte
	ok, err := v.l.row(q, []any{arg}, &b.id, &b.key, &raw)
	if !ok || err != nil {
		return nil, err
	}
	if err := b.decode(raw); err != nil {
		return nil, fmt.Errorf("bucket %q: %w: delete its row (DELETE FROM buckets WHERE id = %d) to begin it anew", b.key, err, b.id)
	}
	b.lapse(v.now)
	v.buckets = append(v.buckets, b)
	return b, nil
}

// addRow gives a bucket a row.
func (v *visit) addRow(b *bucket) error {
	if b.id != 0 {
		return nil
	}
	res, err := v.l.stmts[addBucket].ExecContext(context.Background(), b.key)
	if err != nil {
		return err
	}
	v.l.debt += newBucketDebt
	b.id, err = res.LastInsertId()
	return err
}

// write stores what has changed.
func (v *visit) write() error {
	for _, b := range v.buckets {
		idle := b.idle()
		if !b.changed || b.id == 0 && idle <= v.now {
			continue
		}
		if err := v.addRow(b); err != nil {
			return err
		}
		if err := v.set(setBucket, idle, b.encode(), b.id); err != nil {
			return err
		}
	}
	if v.due {
		c := &v.clock
		if err := v.set(setClock, c.run, c.zero, c.last, c.wall); err != nil {
			return err
		}
	}
	if v.written {
		return v.sweep()
	}
	return nil
}

// set writes something.
func (v *visit) set(q query, args ...any) error {
	v.written = true
	return v.l.exec(q, args...)
}
