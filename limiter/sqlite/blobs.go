package sqlite

import (
	"bytes"
	"context"
)

// Get returns what is stored under a key, nil where nothing is.
func (l *Limiter) Get(ctx context.Context, key string) (value []byte, err error) {
	err = l.view(ctx, func(v *visit) error {
		value, err = v.blob(key)
		return err
	})
	if err != nil {
		return nil, err
	}
	return value, nil
}

// Update replaces what is stored under a key by f of it, atomically. f is called
// once, while the file is locked, so it must be quick and not use the limiter. A
// nil result removes what is stored.
func (l *Limiter) Update(ctx context.Context, key string, f func(old []byte) []byte) error {
	return l.update(ctx, func(v *visit) error {
		old, err := v.blob(key)
		if err != nil {
			return err
		}
		switch value := f(bytes.Clone(old)); {
		case value == nil && old != nil:
			return v.set(endBlob, key)
		case value != nil && (old == nil || !bytes.Equal(old, value)):
			return v.set(setBlob, key, value)
		}
		return nil
	})
}

func (v *visit) blob(key string) (value []byte, err error) {
	ok, err := v.l.row(getBlob, []any{key}, &value)
	if ok && value == nil {
		value = []byte{} // stored, and empty
	}
	return value, err
}
