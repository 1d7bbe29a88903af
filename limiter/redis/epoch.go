package redis

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"
)

// An epoch is what a limiter last knew of the time for which its Redis knows
// everything.
type epoch struct {
	value string // as it is stored
	dials int64  // connections that had been made before it was asked for
	asked time.Time

	policy      string // what the server does when its memory is full
	policyAsked time.Time
	blind       bool // the server's identity is not for this user to know
}

const (
	// A server that was a replica in between is not noticed by a new connection.
	epochLasts  = time.Second
	policyLasts = time.Minute
	// For so long after a loss the longest usual window may be less full than it
	// should be.
	lossMatters = 24 * time.Hour
)

// epochs is the latest epoch, and whose turn it is to ask for the next.
type epochs struct {
	latest atomic.Pointer[epoch]
	turn   chan struct{}
}

// name is the part of an epoch that tells it from others.
func (e *epoch) name() string {
	if len(e.value) < 16 {
		return ""
	}
	return e.value[:16]
}

// mark is when state was lost or may have been; the zero time where it never was.
func (e *epoch) mark() time.Time {
	if len(e.value) < 40 {
		return time.Time{}
	}
	us := math.Float64frombits(binary.LittleEndian.Uint64([]byte(e.value[32:40])))
	if us == 0 {
		return time.Time{}
	}
	return instant(us)
}

// epoch is one that was asked for since the last connection was made.
func (l *Limiter) epoch(ctx context.Context) (*epoch, error) {
	if e := l.epochs.latest.Load(); l.fresh(e) {
		return e, nil
	}
	select {
	case l.epochs.turn <- struct{}{}:
		defer func() { <-l.epochs.turn }()
	case <-ctx.Done():
		return nil, l.where.explain(ctx.Err())
	}
	e := l.epochs.latest.Load()
	if l.fresh(e) {
		return e, nil
	}
	return l.ask(ctx, e)
}

func (l *Limiter) fresh(e *epoch) bool {
	return e != nil && e.dials == l.dials.Load() && time.Since(e.asked) < epochLasts
}

// outdated says that an epoch is not the server's.
func (l *Limiter) outdated(e *epoch) {
	old := *e
	old.dials = -1
	l.epochs.latest.CompareAndSwap(e, &old)
}

// ask learns what the epoch is and makes it known. It is this caller's turn.
func (l *Limiter) ask(ctx context.Context, last *epoch) (*epoch, error) {
	e := &epoch{dials: l.dials.Load(), asked: time.Now()}
	seen := ""
	if last != nil {
		seen, e.policy, e.policyAsked = last.name(), last.policy, last.policyAsked
	}
	var name [8]byte
	rand.Read(name[:])
	memory := "0"
	if e.asked.Sub(e.policyAsked) > policyLasts {
		memory = "1"
	}
	m, err := l.run(ctx, l.scripts.epoch, []string{l.tag + "epoch"}, []string{seen, hex.EncodeToString(name[:]), memory})
	if err != nil {
		return nil, err
	}
	parts, err := m.AsStrSlice()
	if err != nil || len(parts) != 4 {
		return nil, l.where.explain(errAnswer)
	}
	server := parts[1]
	if err := l.supported(server); err != nil {
		return nil, err
	}
	if failed := parts[3]; failed != "" {
		return nil, l.where.explain(fmt.Errorf("writing the epoch: %s", failed))
	}
	e.value = parts[0]
	e.blind = runID.FindString(server) == ""
	if memory == "1" {
		e.policy, e.policyAsked = "", e.asked
		if p := memoryPolicy.FindStringSubmatch(parts[2]); p != nil {
			e.policy = p[1]
		}
	}
	l.epochs.latest.Store(e)
	l.tell(last, e)
	return e, nil
}

var (
	redisVersion = regexp.MustCompile(`redis_version:((\d+)\.(\d+)\S*)`)
	runID        = regexp.MustCompile(`run_id:\w+`)
	memoryPolicy = regexp.MustCompile(`maxmemory_policy:([\w-]+)`)
)

// supported is an error where the server is too old.
func (l *Limiter) supported(info string) error {
	v := redisVersion.FindStringSubmatch(info)
	if v == nil {
		return nil
	}
	major, _ := strconv.Atoi(v[2])
	minor, _ := strconv.Atoi(v[3])
	if major < 6 || major == 6 && minor < 2 {
		return fmt.Errorf("redis at %s: version %s is too old: the limiter needs Redis 6.2 or later, or Valkey", l.where.host, v[1])
	}
	return nil
}

// enter learns the first epoch, or begins one.
func (l *Limiter) enter(ctx context.Context, strict bool) error {
	e, err := l.epoch(ctx)
	if err != nil {
		return err
	}
	if strict && e.evicts() {
		return fmt.Errorf("redis at %s: %s", l.where.host, e.evictWarning())
	}
	return nil
}

func (e *epoch) evicts() bool { return e.policy != "" && e.policy != "noeviction" }

func (e *epoch) evictWarning() string {
	return fmt.Sprintf("maxmemory-policy is %s, so Redis may drop counts when its memory is full: set it to noeviction", e.policy)
}

func (e *epoch) lossWarning() string {
	return fmt.Sprintf("Redis may have lost counts at %s: windows longer than two minutes go on with what was left.",
		e.mark().UTC().Format(time.RFC3339))
}

// Warnings says, a sentence each, what an operator should know of the server.
func (l *Limiter) Warnings() (all []string) {
	e := l.epochs.latest.Load()
	if e == nil {
		return nil
	}
	if e.evicts() {
		w := e.evictWarning()
		all = append(all, "The "+w+".")
	}
	if m := e.mark(); !m.IsZero() && time.Since(m) < lossMatters {
		all = append(all, e.lossWarning())
	}
	if e.blind {
		all = append(all, "Redis does not let its user run INFO, so that a failover which loses counts goes unnoticed: give it +info.")
	}
	return all
}

// tell logs what is new.
func (l *Limiter) tell(last, e *epoch) {
	if last == nil {
		last = &epoch{}
	}
	if e.evicts() && e.policy != last.policy {
		l.log.Warn("redis: "+e.evictWarning(), "redis", l.where.host)
	}
	if m := e.mark(); !m.Equal(last.mark()) && !m.IsZero() && time.Since(m) < lossMatters {
		l.log.Warn("redis: "+e.lossWarning(), "redis", l.where.host)
	}
	if e.blind && !last.blind {
		l.log.Warn("redis: INFO is not allowed: a failover that loses counts goes unnoticed", "redis", l.where.host)
	}
}
