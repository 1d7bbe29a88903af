package memory

import (
	"context"
	"strings"
	"time"
)

// throttles are the closed caller keys of a shard.
type throttles struct {
	until map[string]int64
	ends  []end // a heap, the first to open first; one for each key
}

// An end is when a throttle may be over: a later one may have come since.
type end struct {
	at  int64
	key string
}

// Throttle closes a caller's key until an instant of time.Now's clock. A later
// instant wins; one that has passed changes nothing.
func (l *Limiter) Throttle(_ context.Context, key string, until time.Time) error {
	if !l.ready.Load() {
		l.start()
	}
	now := time.Now()
	remaining := int64(until.Sub(now)) // saturates
	if remaining <= 0 {
		return nil
	}
	// A wait that somebody stated is not cut short by a sleep we have not
	// noticed. Where the machine sleeps after now was read, the wait is longer.
	l.catchUp(true)

	hash := hashOf(key)
	set := uint64(1) << shardOf(hash)
	l.lock(set)
	from := l.clock.at(now)
	var written uint64
	if l.throttle(hash, key, from, after(from, remaining)) {
		written = l.caller(aThrottle, set, key, from, remaining)
	}
	l.unlock(set)
	l.commit(written)
	return nil
}

// throttle closes a key until an instant and says whether that is later than it
// was. Its shard is locked.
func (l *Limiter) throttle(hash uint64, key string, now, at int64) (later bool) {
	t := &l.shards[shardOf(hash)].throttles
	l.closed.Add(-t.lapse(now))
	known, ok := t.until[key]
	if at <= known {
		return false
	}
	if t.until == nil {
		t.until = make(map[string]int64)
	}
	if !ok {
		key = strings.Clone(key)
		t.push(end{at, key})
		l.closed.Add(1)
	}
	t.until[key] = at
	return true
}

// Open ends the throttle of a caller's key.
func (l *Limiter) Open(_ context.Context, key string) error {
	if !l.ready.Load() {
		l.start()
	}
	hash := hashOf(key)
	set := uint64(1) << shardOf(hash)
	l.lock(set)
	now, _ := l.clock.now()
	var written uint64
	if l.unthrottle(hash, key, now) {
		written = l.caller(anOpening, set, key, now, 0)
	}
	l.unlock(set)
	l.commit(written)
	return nil
}

// unthrottle opens a key and says whether it was closed. Its shard is locked.
func (l *Limiter) unthrottle(hash uint64, key string, now int64) bool {
	t := &l.shards[shardOf(hash)].throttles
	if _, ok := t.until[key]; !ok {
		return false
	}
	t.until[key] = now // its end in the heap brings it here
	for i := range t.ends {
		if t.ends[i].key == key {
			t.ends[i].at = now
			t.up(i)
			break
		}
	}
	l.closed.Add(-t.lapse(now))
	return true
}

// lapse forgets the throttles that are over and says how many.
func (t *throttles) lapse(now int64) (opened int64) {
	for len(t.ends) > 0 && t.ends[0].at <= now {
		first := t.ends[0]
		last := len(t.ends) - 1
		t.ends[0] = t.ends[last]
		t.ends[last] = end{}
		t.ends = t.ends[:last]
		t.down(0)
		if until := t.until[first.key]; until > now {
			t.push(end{until, first.key})
			continue
		}
		delete(t.until, first.key)
		opened++
	}
	if opened > 0 && len(t.until) == 0 {
		*t = throttles{} // a map never shrinks
	}
	return opened
}

func (t *throttles) push(e end) {
	t.ends = append(t.ends, e)
	t.up(len(t.ends) - 1)
}

func (t *throttles) up(at int) {
	for at > 0 {
		parent := (at - 1) / 2
		if t.ends[parent].at <= t.ends[at].at {
			break
		}
		t.ends[parent], t.ends[at] = t.ends[at], t.ends[parent]
		at = parent
	}
}

func (t *throttles) down(at int) {
	for {
		child := 2*at + 1
		if child >= len(t.ends) {
			return
		}
		if right := child + 1; right < len(t.ends) && t.ends[right].at < t.ends[child].at {
			child = right
		}
		if t.ends[at].at <= t.ends[child].at {
			return
		}
		t.ends[at], t.ends[child] = t.ends[child], t.ends[at]
		at = child
	}
}
