package servertest_test

import (
	"context"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"

	"github.com/paceline-proxy/paceline/internal/servertest"
)

func TestRedis(t *testing.T) {
	set, get := redisAt(t, servertest.Redis(t))
	set("servertest", "1")
	if v := get("servertest"); v != "1" {
		t.Errorf("got %q back", v)
	}
}

func redisAt(t *testing.T, url string) (set func(key, value string), get func(key string) string) {
	o, err := rueidis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.DisableCache = true
	c, err := rueidis.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return func(key, value string) {
			if err := c.Do(t.Context(), c.B().Set().Key(key).Value(value).Build()).Error(); err != nil {
				t.Fatal(err)
			}
		}, func(key string) string {
			v, err := c.Do(t.Context(), c.B().Get().Key(key).Build()).ToString()
			if err != nil && !rueidis.IsRedisNil(err) {
				t.Fatal(err)
			}
			return v
		}
}

func TestRedisKilled(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, ""},
		{[]string{"--appendonly", "yes", "--appendfsync", "always"}, "1"},
	} {
		s := servertest.StartRedis(t, c.args...)
		set, _ := redisAt(t, s.URL)
		set("k", "1")
		s.Kill()
		if conn, err := net.Dial("tcp", s.Addr); err == nil {
			conn.Close()
			t.Fatal("it listens still")
		}
		s.Restart()
		_, get := redisAt(t, s.URL)
		if v := get("k"); v != c.want {
			t.Errorf("%q: %q after a kill, want %q", c.args, v, c.want)
		}
	}
}

func TestPostgres(t *testing.T) {
	if v := query(t, servertest.Postgres(t), "select 'here'"); v != "here" {
		t.Errorf("got %q", v)
	}
}

func TestPostgresKilled(t *testing.T) {
	s := servertest.StartPostgres(t, "fsync=on", "application_name=seen")
	query(t, s.URL, "create table t as select 'kept' as v")
	s.Kill()
	if _, err := pgx.Connect(t.Context(), s.URL); err == nil {
		t.Fatal("it listens still")
	}
	s.Restart()
	if v := query(t, s.URL, "select v from t"); v != "kept" {
		t.Errorf("got %q", v)
	}
	s.Stop()
	s.Restart()
	for setting, want := range map[string]string{"fsync": "on", "full_page_writes": "off", "application_name": "seen"} {
		if v := query(t, s.URL, "select current_setting('"+setting+"')"); v != want {
			t.Errorf("%s is %q, want %q", setting, v, want)
		}
	}
}

func TestPgBouncer(t *testing.T) {
	pg := servertest.StartPostgres(t)
	b := servertest.StartPgBouncer(t, pg, "default_pool_size=1")
	// Two sessions that share the one connection behind it.
	one := query(t, b.URL, "select pg_backend_pid()::text")
	if two := query(t, b.URL, "select pg_backend_pid()::text"); one != two {
		t.Errorf("sessions of %s and %s", one, two)
	}
}

func query(t *testing.T, url, sql string) (value string) {
	t.Helper()
	o, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	o.DefaultQueryExecMode = pgx.QueryExecModeExec // as PgBouncer needs
	c, err := pgx.ConnectConfig(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.WithoutCancel(t.Context()))
	rows, err := c.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&value); err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return value
}
