// Package postgres is the limiter that many hosts share through a PostgreSQL
// database, version 12 or later.
//
// Each acquire, and each batch of them, is one round trip: a function in a schema
// of the limiter's own, created when it is opened. It locks the buckets named,
// reads the server's clock, judges and counts. No lock outlives a round trip, and
// nothing depends on a session: a PgBouncer in transaction mode may stand between,
// and any isolation level may be the default. A refusal writes nothing.
//
// Up to 64 grants of a window are kept one by one; beyond that, grants that share
// a 63rd of the window become one, as old as the youngest instant they could have.
// At most 1.6 % of a rate is given up that way, and no window is exceeded. Instants
// are microseconds of the server's clock, which for a bucket never steps back.
//
// # What a crash costs
//
// Grants are committed without waiting for the disk, unless Options.Durable says
// otherwise: a crash of the server may lose those of the last moments (three times
// its wal_writer_delay, 0.6 seconds as it comes). That never lets a window be
// exceeded. The first to ask after a crash, or after a replica has taken over,
// notices. From then on windows of up to two minutes count as full for one span,
// and places as taken for the longest hold that was asked for. Longer windows go
// on: at most every 64th part of one is granted before a grant waits for the disk,
// and what may have been granted beyond that counts as granted. Throttles always
// wait for the disk. A server that is stopped in order loses nothing, and nothing
// is held up. A replica that lags behind loses by how much it lags.
package postgres

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/paceline-proxy/paceline/limiter"
)

// Options are how a limiter uses its database. The zero Options are usable. A
// URL's query can name schema, durable and migrate too, and is preferred.
type Options struct {
	// Schema is where the limiter keeps its tables and functions. Empty is
	// paceline_limiter. Limiters that name one schema of one database share their
	// counts.
	Schema string
	// Durable makes every grant wait until it is on the server's disk.
	Durable bool
	// Migrate says what to do where the schema is missing or older than this
	// package: "auto", or empty, creates and upgrades it, "check" makes that an
	// error, "off" does not look.
	Migrate string
	// Logger is told what Warnings says, when it happens. nil is silence.
	Logger *slog.Logger
}

const defaultSchema = "paceline_limiter"

// A Limiter counts in a database. Make one with Open.
type Limiter struct {
	pool    *pgxpool.Pool
	target  target
	schema  string // quoted
	durable bool
	logger  *slog.Logger

	life   context.Context // ends with Close
	end    context.CancelFunc
	closed sync.Once

	// lanes bound how many ask for one bucket at once. More would only wait for its
	// lock, with connections that others could use, and keep the server from
	// clearing the row's earlier versions away.
	lanes [64]chan struct{}

	// generation counts how often all connections were given up.
	generation atomic.Int64

	opened time.Time
	swept  atomic.Int64 // when the last sweep began, in ns since opened

	// lost is when the server, by its clock in µs, was found to have lost commits,
	// and heard when we heard of it.
	mu    sync.Mutex
	lost  int64
	heard time.Time
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

var errClosed = errors.New("the PostgreSQL limiter is closed")

// Open connects to the database that a URL names, as in
// postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=require, and sees to the
// schema. What the URL leaves out comes from the usual PG* environment variables.
// pool_max_conns in its query is how many connections are used at most, 4 where
// it says nothing.
//
// The role needs the right to create a schema in the database, once; where it has
// none, see SQL.
func Open(ctx context.Context, url string, o Options) (*Limiter, error) {
	c, o, err := parse(url, o)
	if err != nil {
		return nil, err
	}
	l := &Limiter{target: targetOf(c), schema: quote(o.Schema), durable: o.Durable, logger: o.Logger, opened: time.Now()}
	if l.logger == nil {
		l.logger = slog.New(slog.DiscardHandler)
	}
	for i := range l.lanes {
		l.lanes[i] = make(chan struct{}, 2)
	}
	c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		conn.PgConn().CustomData()["generation"] = l.generation.Load()
		l.warm(ctx, conn)
		return nil
	}
	l.life, l.end = context.WithCancel(context.Background())
	if l.pool, err = pgxpool.NewWithConfig(l.life, c); err != nil {
		return nil, l.target.explain(err)
	}
	if err := l.prepare(ctx, o); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// prepare sees to the schema and says there what we risk.
func (l *Limiter) prepare(ctx context.Context, o Options) error {
	found, lossy, err := l.look(ctx)
	if err != nil {
		return err
	}
	if o.Migrate != "off" {
		if err := l.migrate(ctx, o, found); err != nil {
			return err
		}
	}
	if l.durable || lossy {
		return nil
	}
	// That has to be known after a crash before anything of ours can be lost.
	_, err = l.call(ctx, "set local synchronous_commit = on; update "+l.schema+".meta set lossy = true where not lossy")
	return err
}

// Close gives back the connections. Whatever is under way ends with an error, and
// so does every later call.
func (l *Limiter) Close() error {
	l.closed.Do(func() {
		l.end()
		done := make(chan struct{})
		go func() {
			l.pool.Close()
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(time.Second): // a server that hangs is not waited for
		}
	})
	return nil
}

// Warnings says what an operator should know.
func (l *Limiter) Warnings() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.heard.IsZero() || time.Since(l.heard) > holdAfterLoss {
		return nil
	}
	return []string{l.lossOf(l.lost)}
}

// holdAfterLoss is for how long the longest of the windows that lost grants could
// overfill counts as full.
const holdAfterLoss = 2 * time.Minute

func (l *Limiter) lossOf(lost int64) string {
	return l.target.String() + " lost its latest commits (a crash, or a replica took over); noticed at " +
		time.UnixMicro(lost).UTC().Format(time.RFC3339) + ". Windows of up to two minutes count as full for one span since then."
}

// note hears from an answer when the server noticed that it had lost something.
func (l *Limiter) note(now, lost int64) {
	if lost == 0 {
		return
	}
	l.mu.Lock()
	news := lost != l.lost
	if news {
		l.lost, l.heard = lost, time.Now().Add(-time.Duration(now-lost)*time.Microsecond)
	}
	l.mu.Unlock()
	if news && time.Duration(now-lost)*time.Microsecond < holdAfterLoss {
		l.logger.Warn(l.lossOf(lost))
	}
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
