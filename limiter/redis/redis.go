// Package redis is the limiter on Redis 6.2 or later, or Valkey: any number of
// hosts share its counts, its places and its throttles.
//
// Each call is one script, which is one round trip: it reads every bucket of the
// request, and counts in all of them or in none. Time is the server's, and does
// not step back where the server's clock does. Up to 65 grants of a window are
// kept one by one; beyond that, grants that share a 64th of the window become
// one, as old as the youngest instant they could have. At most 1.6 % of a rate is
// given up that way, and no window is ever exceeded. Instants are in
// microseconds, numbers above 1<<52 count as 1<<52.
//
// A bucket is a short string that Redis forgets once nothing in it counts. All
// keys begin with one tag, {paceline}, so that a cluster keeps them together on
// one of its shards; several limiters on one Redis have several tags. What comes
// after the tag is a hash: Redis sees no names of accounts or models.
//
// # What Redis can lose
//
// Redis answers before what it knows is on a disk or on a replica. A limiter
// notices when a server has come up empty, was flushed, or is another process
// than before, which is what a failover and a restart are. What was counted last
// may be gone then, so for a while every window counts as full: for its own span,
// and for two minutes at most. Longer windows go on with what is there, and
// [Limiter.Warnings] says so. A value that Redis returns damaged begins anew in
// the same way, full for as long; a damaged throttle lasts for two minutes.
//
// A maxmemory-policy other than noeviction lets Redis drop counts whenever it
// runs out of memory, and nobody would notice. That is a warning, or with
// [Options.Strict] an error.
//
// # Rights
//
// A user needs the tag's keys and these commands:
//
//	user paceline on >PASSWORD ~{paceline}* +eval +evalsha +get +mget +set +del +pexpire +time +info +hello +ping
//
// and +cluster|slots +cluster|shards on a cluster.
package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/paceline-proxy/paceline/limiter"
)

// Options are what a URL's settings say as well: the URL has the last word.
type Options struct {
	// Tag begins every key; the part of it in braces decides which shard of a
	// cluster they live on. Braces are put around one that has none. Empty is
	// {paceline}. In a URL: tag=.
	Tag string
	// Strict makes Open refuse a server that may evict what it was told. In a
	// URL: strict=1.
	Strict bool
	// Logger is told of warnings as they arise. nil is silence.
	Logger *slog.Logger
}

// A Limiter counts in Redis.
type Limiter struct {
	client  rueidis.Client
	scripts *scripts
	tag     string
	where   where
	log     *slog.Logger

	dials  *atomic.Int64 // connections made so far
	closed atomic.Bool

	prefix [8]byte       // of the names of this limiter's permits
	number atomic.Uint32 // of its latest permit

	epochs   epochs
	releases releases
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

// errClosed is the error of every method after Close.
var errClosed = errors.New("the limiter on redis is closed")

// errConnecting is the error of a call that waited for a connection that another
// began to make, and gave up.
var errConnecting = errors.New("not connected yet")

// Open connects to the Redis that a URL names:
//
//	redis://[USER:PASSWORD@]HOST[:PORT][/DB]     one server, or any node of a cluster
//	rediss://…                                   the same over TLS
//
// and may have the settings tag, strict, addr (another node, HOST:PORT; may be
// repeated), master_set (the hosts are Sentinels, and this is whom they watch),
// sentinel_user and sentinel_password, socket (the path of a Unix socket, in
// place of the host), db (in place of the path) and skip_verify (of TLS).
// What is special in a URL has to be percent-encoded in a password.
//
// The server must answer now. Later it may come and go: until it is back, methods
// return errors.
func Open(ctx context.Context, url string, o Options) (*Limiter, error) {
	t, err := parse(url, o)
	if err != nil {
		return nil, err
	}
	l := &Limiter{scripts: standard, tag: t.tag, where: t.where, log: o.Logger, dials: new(atomic.Int64)}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	rand.Read(l.prefix[:])
	l.epochs.turn = make(chan struct{}, 1)
	t.option.DialCtxFn = t.counting(l.dials)
	if l.client, err = connect(ctx, t.option); err != nil {
		return nil, l.where.explain(err)
	}
	if err := l.enter(ctx, t.strict); err != nil {
		l.client.Close()
		return nil, err
	}
	return l, nil
}

// connect waits for the first connection no longer than it should.
func connect(ctx context.Context, o rueidis.ClientOption) (rueidis.Client, error) {
	type result struct {
		client rueidis.Client
		err    error
	}
	done := make(chan result, 1)
	go func() {
		c, err := rueidis.NewClient(o)
		done <- result{c, err}
	}()
	select {
	case r := <-done:
		return r.client, r.err
	case <-ctx.Done():
		go func() {
			if r := <-done; r.err == nil {
				r.client.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// Close ends the connections. Every method returns an error from then on.
func (l *Limiter) Close() error {
	if l.closed.CompareAndSwap(false, true) {
		l.client.Close()
	}
	return nil
}

// run calls a script and waits for its answer no longer than ctx allows: where a
// connection has to be made first, the client may wait for somebody else's
// attempt.
func (l *Limiter) run(ctx context.Context, s *rueidis.Lua, keys, args []string) (m rueidis.RedisMessage, err error) {
	if l.closed.Load() {
		return m, errClosed
	}
	if err := ctx.Err(); err != nil {
		return m, l.where.explain(err)
	}
	done := make(chan rueidis.RedisResult, 1)
	go func() { done <- s.Exec(ctx, l.client, keys, args) }()
	select {
	case r := <-done:
		m, err = r.ToMessage()
	case <-ctx.Done():
		err = ctx.Err()
	}
	if ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		err = errConnecting // for somebody who has given up
	}
	if err != nil && !rueidis.IsRedisNil(err) {
		if l.closed.Load() {
			return m, errClosed
		}
		return m, l.where.explain(err)
	}
	return m, nil
}

// where is which Redis an error is about, and what it must not say.
type where struct {
	host    string
	user    string
	secrets []string
}

// explain makes an error name the Redis and what can be done.
func (w where) explain(err error) error {
	text, advice := err.Error(), ""
	var network net.Error
	isNetwork := errors.As(err, &network) && !errors.Is(err, context.DeadlineExceeded)
	re, isReply := rueidis.IsRedisErr(err)
	if isReply {
		text = re.Error()
	}
	switch {
	case strings.HasPrefix(text, "WRONGPASS"), strings.HasPrefix(text, "NOAUTH"), strings.Contains(text, "invalid password"),
		strings.Contains(text, "without any password configured"):
		advice = "check the user and the password in its URL"
	case strings.HasPrefix(text, "NOPERM"), strings.Contains(text, "ACL failure"),
		strings.Contains(text, "user executing the script"):
		advice = fmt.Sprintf("give user %q the rights that the documentation of limiter/redis lists", w.user)
	case strings.Contains(text, "CROSSSLOT"):
		advice = "the tag must have its braces"
	case strings.HasPrefix(text, "READONLY"):
		advice = "it is a replica: name the primary, or Sentinel"
	case strings.HasPrefix(text, "OOM"):
		advice = "raise its maxmemory"
	case isNetwork:
		advice = "check host and port, and that Redis runs there"
	}
	for _, s := range w.secrets {
		if strings.Contains(err.Error(), s) {
			err = errors.New(strings.ReplaceAll(err.Error(), s, "***"))
		}
	}
	if advice != "" {
		return fmt.Errorf("redis at %s: %w (%s)", w.host, err, advice)
	}
	return fmt.Errorf("redis at %s: %w", w.host, err)
}

// micros is a duration in whole microseconds, rounded up.
func micros(d time.Duration) float64 {
	us := d / time.Microsecond
	if d%time.Microsecond > 0 {
		us++
	}
	return float64(us)
}

// instant is a server's clock as a time.
func instant(us float64) time.Time { return time.UnixMicro(int64(us)) }
