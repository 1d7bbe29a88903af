package redis

import (
	"context"

	"github.com/redis/rueidis"
)

// Get returns what is stored, nil where nothing is.
func (l *Limiter) Get(ctx context.Context, key string) ([]byte, error) {
	m, err := l.run(ctx, l.scripts.get, []string{l.key(blobKey, hashOf(key))}, nil)
	if err != nil {
		return nil, err
	}
	return l.blob(m)
}

// Update replaces what is stored by f of it, and removes it where f returns nil.
// Somebody else's change in between makes it call f again.
func (l *Limiter) Update(ctx context.Context, key string, f func(old []byte) []byte) error {
	old, err := l.Get(ctx, key)
	for err == nil {
		wanted := f(old)
		args := append(present(old), present(wanted)...)
		var m rueidis.RedisMessage
		m, err = l.run(ctx, l.scripts.swap, []string{l.key(blobKey, hashOf(key))}, args)
		if err != nil || m.IsNil() {
			return err
		}
		old, err = l.blob(m)
	}
	return err
}

// present says whether there is a blob, and which.
func present(b []byte) []string {
	if b == nil {
		return []string{"0", ""}
	}
	return []string{"1", string(b)}
}

// blob is the only element of a list, or nil.
func (l *Limiter) blob(m rueidis.RedisMessage) ([]byte, error) {
	list, err := m.ToArray()
	if err != nil || len(list) != 1 {
		return nil, l.where.explain(errAnswer)
	}
	if list[0].IsNil() {
		return nil, nil
	}
	s, err := list[0].ToString()
	if err != nil {
		return nil, l.where.explain(err)
	}
	return []byte(s), nil
}
