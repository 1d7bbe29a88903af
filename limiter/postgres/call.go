package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The first statements of each call. In one message with others they begin a
// transaction that ends with them, so that whatever the defaults of server, role
// and database are, a statement that follows a lock sees what earlier holders of
// the lock have committed. And a plan that was made while a table was small does
// not read all of it later.
const preamble = "set transaction isolation level read committed, read write; set local enable_seqscan = off; "

// call runs a statement in one round trip and returns the values of its first row;
// nil where there is none. There are no parameters: the statement needs neither to
// be prepared nor a second message, and PgBouncer never sees a name.
func (l *Limiter) call(ctx context.Context, statement string) ([][]byte, error) {
	if err := l.alive(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()

	conn, err := l.pool.Acquire(ctx)
	if err != nil {
		return nil, l.failed(err)
	}
	defer conn.Release()
	results, err := conn.Conn().PgConn().Exec(ctx, preamble+statement).ReadAll()
	if err != nil {
		if conn.Conn().IsClosed() && ctx.Err() == nil {
			l.giveUp(conn)
		}
		return nil, l.failed(err)
	}
	l.sweepIfDue()
	if rows := results[len(results)-1].Rows; len(rows) > 0 {
		return rows[0], nil
	}
	return nil, nil
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
	var ns []int64
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
