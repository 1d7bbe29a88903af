package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The first statements of each call. In one message with others they begin a
// transaction that ends with them, so that whatever the defaults of server, role
// and database are, a statement that follows a lock sees what earlier holders of
// the lock have committed. And a plan that was made while a table was small does
// not read all of it later.
const preamble = "set transaction isolation level read committed, read write; set local enable_seqscan = off; "

// leftAlone is for how long a call goes on that nobody waits for any more.
const leftAlone = 5 * time.Second

// call runs a statement in one round trip and returns the values of its first row;
// nil where there is none. There are no parameters: the statement needs neither to
// be prepared nor a second message, and PgBouncer never sees a name.
func (l *Limiter) call(ctx context.Context, statement string) ([][]byte, error) {
	return l.callUntil(ctx, statement, func(bool) {})
}

// callUntil is a call whose end is heard of: with true where it was made and its
// answer did not reach the caller. A caller that leaves does not break it off,
// which would cost the connection: the server needs longer for a new one than for
// most answers, and so would be late for whoever asks next, too.
func (l *Limiter) callUntil(ctx context.Context, statement string, ended func(missed bool)) ([][]byte, error) {
	conn, err := l.connection(ctx)
	if err != nil {
		ended(false)
		return nil, l.failed(err)
	}
	type answer struct {
		row [][]byte
		err error
	}
	answers := make(chan answer)
	left := make(chan struct{})
	go func() {
		row, err := l.run(conn, statement)
		select {
		case answers <- answer{row, err}:
			ended(err != nil)
		case <-left:
			ended(true)
		}
	}()
	select {
	case a := <-answers:
		if a.err != nil {
			return nil, l.failed(a.err)
		}
		l.sweepIfDue()
		return a.row, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-l.life.Done():
	}
	close(left)
	return nil, l.failed(err)
}

// connection takes one from the pool.
func (l *Limiter) connection(ctx context.Context) (*pgxpool.Conn, error) {
	if err := l.alive(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	return l.pool.Acquire(ctx)
}

// run runs a statement and gives the connection back.
func (l *Limiter) run(conn *pgxpool.Conn, statement string) (row [][]byte, err error) {
	defer conn.Release()
	ctx, cancel := context.WithTimeout(l.life, leftAlone)
	defer cancel()
	results, err := conn.Conn().PgConn().Exec(ctx, preamble+statement).ReadAll()
	if err != nil {
		if conn.Conn().IsClosed() && ctx.Err() == nil {
			l.giveUp(conn)
		}
		return nil, err
	}
	if rows := results[len(results)-1].Rows; len(rows) > 0 {
		row = rows[0]
	}
	return row, nil
}

// warm has a new connection compile what an acquire needs, by one that it takes
// back. Else the first who asks by it would do so with a bucket locked that others
// wait for. Where that fails there is no schema yet, or no server.
func (l *Limiter) warm(ctx context.Context, conn *pgx.Conn) {
	var own id
	binary.BigEndian.PutUint64(own[:], rand.Uint64())
	ids := appendIDs(nil, own)
	asks := appendNumbers(nil, 1, 1, 1, rand.Int64N(1<<62), 1, 1, 1, 1, 1, 1, 0)
	_, _ = conn.PgConn().Exec(ctx, fmt.Sprintf("%sselect %s.acquire(%s, %s, %s, false); rollback", preamble, l.schema, ids, ids, asks)).ReadAll()
}

func (l *Limiter) failed(err error) error {
	if closed := l.alive(); closed != nil {
		return closed
	}
	return l.target.explain(err)
}

// alive is an error where the limiter has been closed.
func (l *Limiter) alive() error {
	if l.life.Err() != nil {
		return errClosed
	}
	return nil
}

// giveUp closes all connections that are as old as one that was lost: the server
// has most likely been restarted.
func (l *Limiter) giveUp(lost *pgxpool.Conn) {
	born, _ := lost.Conn().PgConn().CustomData()["generation"].(int64)
	if l.generation.CompareAndSwap(born, born+1) {
		l.pool.Reset()
	}
}

// numbers calls a function that answers with an array of them.
func (l *Limiter) numbers(ctx context.Context, statement string) ([]int64, error) {
	row, err := l.call(ctx, statement)
	if err != nil {
		return nil, err
	}
	return l.numbersIn(row)
}

func (l *Limiter) numbersIn(row [][]byte) (ns []int64, err error) {
	if len(row) == 1 {
		ns, err = parseArray(row[0])
	} else {
		err = errors.New("no row")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: unexpected answer: %w", l.target, err)
	}
	return ns, nil
}

// isCode says whether an error is the server's, of one of some SQLSTATEs.
func isCode(err error, codes ...string) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains(codes, pe.Code)
}
