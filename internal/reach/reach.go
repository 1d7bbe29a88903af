// Package reach is a shared limiter that its host can do without for a while.
//
// Every call of the shared limiter has a bounded time. After three failures in
// a row it is away: calls are then answered here, as [Options.OnFailure] says,
// until it answers again. What it has to know of that time it is told before it
// is asked again: what was granted, which waits providers stated, which places
// are taken and which are free.
package reach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/memory"
)

// What may hold while the shared limiter is away. Waits that providers stated
// hold always.
const (
	Local  = "local"  // this host's share of every limit
	Open   = "open"   // no limit
	Closed = "closed" // nothing is granted
)

// Options say which limiter is shared and how to do without it.
type Options struct {
	// Open opens the shared limiter. It is called again while it fails.
	Open func(context.Context) (limiter.Limiter, error)
	// OnFailure is Local, Open or Closed. Empty is Local.
	OnFailure string
	// Share is the part of each limit that is this host's under Local. 0: one
	// part for each host that was seen in the last ten minutes, at most a half.
	Share float64
	// Timeout bounds each call of the shared limiter. 0 is 250 ms.
	Timeout time.Duration
	// Host names this host among those that share the limiter.
	Host string
	// URL is what the log calls the shared limiter: without secrets.
	URL string
	// Logger hears when it goes away and when it is back. nil is silence.
	Logger *slog.Logger
}

const (
	usualTimeout = 250 * time.Millisecond
	openTimeout  = 5 * time.Second // schemas may have to be made
	mostFailures = 3               // in a row, then it is away
)

// A Limiter is a shared limiter, or what stands in for it. It keeps everything
// that this host was granted in memory, too. Besides a Limiter it is a Batcher,
// Settler, Renewer, Opener, Peeker, Seeder and Blobs; where the shared limiter
// lacks one of these, its methods return [errors.ErrUnsupported].
type Limiter struct {
	o      Options
	local  *memory.Limiter
	ctx    context.Context // of what is done for no caller
	end    context.CancelFunc
	ahead  atomic.Int64 // by how much the shared limiter's clock is ahead of ours
	hosts  atomic.Int64 // seen lately, 0 where that is not known
	alone  atomic.Int64 // calls granted here while it was away
	faults atomic.Int64 // calls that it did not answer

	mu        sync.Mutex
	shared    limiter.Limiter // nil until it could be opened
	away      bool
	returning bool // the last of what it has to know is on its way
	failures  int  // in a row, those of one moment being one
	failed    time.Time
	why       error
	since     time.Time
	granted   int64 // alone, when it went away
	backoff   time.Duration
	retry     *time.Timer   // looks for it, or pays what is owed
	grow      *time.Timer   // renews young permits
	beat      *time.Timer   // says that this host is there
	pause     time.Duration // between two beats
	permits   map[string]*permit
	sweepAt   int
	turns     uint64 // how often it has come back
	debts     debts
	closed    bool
}

var (
	_ limiter.Limiter = (*Limiter)(nil)
	_ limiter.Batcher = (*Limiter)(nil)
	_ limiter.Settler = (*Limiter)(nil)
	_ limiter.Renewer = (*Limiter)(nil)
	_ limiter.Opener  = (*Limiter)(nil)
	_ limiter.Peeker  = (*Limiter)(nil)
	_ limiter.Seeder  = (*Limiter)(nil)
	_ limiter.Blobs   = (*Limiter)(nil)
)

// New opens the shared limiter. Where it cannot be opened, the Limiter begins
// without it, which is logged and shown by [Limiter.Status].
func New(ctx context.Context, o Options) *Limiter {
	if o.OnFailure == "" {
		o.OnFailure = Local
	}
	if o.Timeout <= 0 {
		o.Timeout = usualTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Limiter{o: o, local: memory.New(), permits: make(map[string]*permit), sweepAt: fewPermits, debts: newDebts()}
	l.ctx, l.end = context.WithCancel(context.WithoutCancel(ctx))
	err := l.open(ctx)
	l.mu.Lock()
	if err != nil {
		l.leave(err)
	}
	l.mu.Unlock()
	l.greet()
	return l
}

// open opens the shared limiter, unless that has been done.
func (l *Limiter) open(ctx context.Context) error {
	l.mu.Lock()
	opened := l.shared != nil
	l.mu.Unlock()
	if opened {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	shared, err := l.o.Open(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		closeLimiter(shared)
		return errClosed
	}
	l.shared = shared
	return nil
}

func closeLimiter(l limiter.Limiter) error {
	if c, ok := l.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

var errClosed = errors.New("the limiter is closed")

// Close lets go of the shared limiter. What it is owed it is not told any more.
func (l *Limiter) Close() error {
	l.end()
	l.mu.Lock()
	shared, closed := l.shared, l.closed
	l.shared, l.closed, l.away = nil, true, true
	for _, t := range []*time.Timer{l.retry, l.grow, l.beat} {
		if t != nil {
			t.Stop()
		}
	}
	l.mu.Unlock()
	if closed || shared == nil {
		return nil
	}
	return closeLimiter(shared)
}

// errAway is the error of what cannot be asked while the shared limiter is
// away.
var errAway = errors.New("the shared limiter is out of reach")

// near returns the shared limiter where it is to be asked.
func (l *Limiter) near() (limiter.Limiter, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, errClosed
	case l.away:
		return nil, errAway
	}
	return l.shared, nil
}

// ask has the shared limiter do something within its time, and counts how often
// it has failed in a row.
func (l *Limiter) ask(ctx context.Context, do func(context.Context, limiter.Limiter) error) error {
	shared, err := l.near()
	if err != nil {
		return err
	}
	began := time.Now()
	err = bounded(ctx, l.o.Timeout, shared, do)
	late := time.Since(began) >= l.o.Timeout*9/10
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case answered(err):
		l.failures = 0
	case ctx.Err() != nil && !late: // its caller has left
	case began.Before(l.failed): // of the cause for which another failed meanwhile
		l.faults.Add(1)
	default:
		l.faults.Add(1)
		l.failed = time.Now()
		if l.failures++; l.failures >= mostFailures && !l.away && !l.closed {
			l.leave(err)
		}
	}
	return err
}

// as is what a shared limiter is to do that is a T as well; one that is not
// answers [errors.ErrUnsupported].
func as[T any](do func(context.Context, T) error) func(context.Context, limiter.Limiter) error {
	return func(ctx context.Context, shared limiter.Limiter) error {
		t, ok := shared.(T)
		if !ok {
			return errors.ErrUnsupported
		}
		return do(ctx, t)
	}
}

// answered reports whether an error, or none, is an answer.
func answered(err error) bool {
	return err == nil || errors.Is(err, limiter.ErrInvalid) || errors.Is(err, errors.ErrUnsupported)
}

// bounded has a shared limiter do something within some time.
func bounded(ctx context.Context, most time.Duration, shared limiter.Limiter, do func(context.Context, limiter.Limiter) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("no answer within %v", most))
	defer cancel()
	return do(ctx, shared)
}

// leave begins to do without the shared limiter. The lock is held.
func (l *Limiter) leave(why error) {
	l.away, l.why, l.since, l.failures = true, why, time.Now(), 0
	l.granted = l.alone.Load()
	l.backoff = firstRetry
	l.schedule(l.backoff)
	holds := map[string]string{
		Local:  fmt.Sprintf("this host goes on with %.3g of every limit", l.share()),
		Open:   "requests are sent without limits, but for the waits that providers state",
		Closed: "nothing is sent until it answers",
	}[l.o.OnFailure]
	l.o.Logger.Warn("the shared limiter is out of reach: "+holds, "url", l.o.URL, "error", why)
}
