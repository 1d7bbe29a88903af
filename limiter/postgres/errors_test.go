package postgres_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/paceline-proxy/paceline/internal/servertest"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/postgres"
)

// Errors name PostgreSQL, where it is and what to do. L-24, L-21: the password that
// a URL holds is in none of them, however the URL is wrong.
func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	server := servertest.StartPostgres(t)
	execute(t, server.URL, "create role somebody login password 'other'")
	c, err := pgx.ParseConfig(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	at := net.JoinHostPort(c.Host, fmt.Sprint(c.Port))
	old := stubborn(t, "11.9", "110009")
	for what, test := range map[string]struct {
		url   string
		words []string
	}{
		"no URL at all":             {"sesame", []string{"postgres://USER"}},
		"another scheme":            {"mysql://root:sesame@localhost/x", []string{"postgres://USER"}},
		"a port of letters":         {"postgres://root:sesame@localhost:port/x", []string{"postgres://USER"}},
		"a slash in the password":   {"postgres://root:sesame/open@localhost/x", []string{"postgres://USER", "%XX"}},
		"a percent in the password": {"postgres://root:sesame%zz@localhost/x", []string{"postgres://USER"}},
		"a port too high":           {"postgres://root:sesame@localhost:99999/x", []string{"URL", "port"}},
		"an unknown mode":           {"postgres://root:sesame@localhost/x?sslmode=sesame", []string{"URL", "sslmode"}},
		"durable of what":           {"postgres://root:sesame@localhost/x?durable=perhaps", []string{"durable is true or false"}},
		"an unknown option":         {"postgres://postgres:sesame@" + at + "/postgres?sslmode=disable&scheme=x", []string{at, "scheme"}},
		"nobody there":              {"postgres://root:sesame@127.0.0.1:1/x?sslmode=disable", []string{"PostgreSQL at 127.0.0.1:1, database x", "cannot be reached", "is it running"}},
		"no such host":              {"postgres://root:sesame@nowhere.invalid/x", []string{"PostgreSQL at nowhere.invalid:5432", "cannot be reached"}},
		"no such role":              {"postgres://nobody:sesame@" + at + "/postgres?sslmode=disable", []string{at, `"nobody"`, "check user and password"}},
		"no such database":          {"postgres://postgres:sesame@" + at + "/missing?sslmode=disable", []string{at, "database missing", "create it"}},
		"TLS where there is none":   {"postgres://postgres:sesame@" + at + "/postgres?sslmode=require", []string{at, "sslmode"}},
		"an old server":             {"postgres://postgres:sesame@" + old + "/postgres?sslmode=disable", []string{old, "version 11", "12 or later"}},
	} {
		_, err := postgres.Open(t.Context(), test.url, postgres.Options{})
		if !says(err, append(test.words, "PostgreSQL")...) {
			t.Errorf("%s: %v\nwant the words %q", what, err, test.words)
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			if strings.Contains(e.Error(), "sesame") && what != "an unknown mode" {
				t.Errorf("%s: the password is in %q", what, e)
			}
		}
	}
}

// The server asks for a password and it is the wrong one.
func TestWrongPassword(t *testing.T) {
	t.Parallel()
	at := stubborn(t, "", "")
	_, err := postgres.Open(t.Context(), "postgres://somebody:sesame@"+at+"/x?sslmode=disable", postgres.Options{})
	if !says(err, "PostgreSQL at "+at+", database x", `"somebody"`, "check user and password") {
		t.Errorf("a wrong password: %v", err)
	}
	if says(err, "sesame") {
		t.Errorf("the password is in %q", err)
	}
}

// stubborn is a server that answers the first statement with its version, or lets
// nobody in where it has none and repeats the password it was told.
func stubborn(t *testing.T, version, number string) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	serve := func(conn net.Conn) {
		defer conn.Close()
		b := pgproto3.NewBackend(bufio.NewReader(conn), conn)
		if _, err := b.ReceiveStartupMessage(); err != nil {
			return
		}
		if version == "" {
			b.Send(&pgproto3.AuthenticationCleartextPassword{})
			b.Flush()
			b.SetAuthType(pgproto3.AuthTypeCleartextPassword)
			m, err := b.Receive()
			if p, ok := m.(*pgproto3.PasswordMessage); err == nil && ok {
				b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "28P01", Message: "not with " + p.Password})
				b.Flush()
			}
			return
		}
		b.Send(&pgproto3.AuthenticationOk{})
		b.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: version})
		b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		b.Flush()
		for {
			m, err := b.Receive()
			if err != nil {
				return
			}
			if _, ok := m.(*pgproto3.Query); ok {
				b.Send(&pgproto3.RowDescription{Fields: make([]pgproto3.FieldDescription, 3)})
				b.Send(&pgproto3.DataRow{Values: [][]byte{[]byte(number), []byte("1"), []byte("t")}})
				b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
				b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
				b.Flush()
			}
		}
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return listener.Addr().String()
}

// A killed connection costs the call in flight at most, and nothing is granted
// twice or lost for ever.
func TestKilledBackend(t *testing.T) {
	t.Parallel()
	server := database(t)
	l := open(t, server, postgres.Options{})
	r := limiter.Request{Key: "c", Hold: 2 * time.Second, Limits: []limiter.Limit{{Key: "a", Calls: 50, Per: time.Hour}, {Key: "p", Concurrent: 3}}}

	ctx, stop := context.WithCancel(t.Context())
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		for ctx.Err() == nil {
			execute(t, server, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'paceline' and datname = current_database()")
			time.Sleep(20 * time.Millisecond)
		}
	}()
	grants, failures := 0, 0
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); {
		began := time.Now()
		d, err := l.Acquire(t.Context(), r)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("an acquire took %v", took)
		}
		if err != nil {
			failures++
			continue
		}
		if d.Granted {
			grants++
			if err := l.Release(t.Context(), d.Permit); err != nil {
				failures++
			}
		}
	}
	stop()
	<-killed
	t.Logf("%d grants, %d calls failed", grants, failures)
	if failures == 0 || grants == 0 || grants > 50 {
		t.Errorf("%d grants of 50, %d calls failed: want some of each", grants, failures)
	}
	// The one after the last failure is served, and places whose release failed
	// come back.
	time.Sleep(r.Hold)
	for range 2 {
		if _, err := l.Peek(t.Context(), "c", r.Limits); err == nil {
			break
		}
	}
	v, err := l.Peek(t.Context(), "c", r.Limits)
	if err != nil {
		t.Fatal(err)
	}
	// What was answered with an error may have been granted, so at least that many.
	if v.Usage[0].Used < grants || v.Usage[0].Used > 50 || v.Usage[1].Held != 0 {
		t.Errorf("%+v after %d grants", v.Usage, grants)
	}
}

// A server that is stopped and started again is a matter of one error each.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	server := servertest.StartPostgres(t)
	l := open(t, server.URL, postgres.Options{})
	granted(t, l, once, true)
	server.Stop()
	began := time.Now()
	if _, err := l.Acquire(t.Context(), once); !says(err, "PostgreSQL at "+server.Addr) {
		t.Errorf("while it is down: %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the error took %v", took)
	}
	server.Restart()
	if _, err := l.Acquire(t.Context(), once); err != nil { // the connections that were lost
		t.Log(err)
	}
	granted(t, l, once, false)
	// In good order nothing was lost, so nothing is held up.
	granted(t, l, limiter.Request{Key: "c", Limits: []limiter.Limit{{Key: "new", Calls: 1, Per: time.Minute}}}, true)
	if w := l.Warnings(); len(w) > 0 {
		t.Error(w)
	}
}
