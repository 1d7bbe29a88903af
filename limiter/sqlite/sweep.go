package sqlite

// Room is given back by those who write: after so many calls, the fewer the more
// new buckets they made, one of them looks at a stretch of the buckets. What keeps
// coming is thus always outpaced by what is looked at.
const (
	sweepAt       = 256
	newBucketDebt = 32
	sweepRows     = 64
)

// The file is made smaller, a few pages at a time, while so many of them hold
// nothing.
const sparePages = 64

// sweep forgets what counts nothing, if it is time to.
func (v *visit) sweep() error {
	l := v.l
	if l.debt++; l.debt < sweepAt {
		return nil
	}
	rows := l.debt / sweepAt * sweepRows
	l.debt %= sweepAt
	var to, seen, free int64
	if _, err := l.row(sweepTo, []any{l.hand, rows}, &to, &seen); err != nil {
		return err
	}
	if err := l.exec(sweepBuckets, l.hand, to, v.now); err != nil {
		return err
	}
	if l.hand = to; seen < int64(rows) {
		l.hand = 0 // from the start again
	}
	if err := l.exec(sweepThrottles, v.now); err != nil {
		return err
	}
	if _, err := l.row(freePages, nil, &free); err != nil || free < sparePages {
		return err
	}
	return l.exec(dropPages)
}
