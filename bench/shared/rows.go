package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"

	"github.com/paceline-proxy/paceline/internal/servers"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/limiter/postgres"
	"github.com/paceline-proxy/paceline/limiter/redis"
	"github.com/paceline-proxy/paceline/limiter/slothttp"
)

const without = "call by call"

func redisRow(ctx context.Context) ([]scenario, func(), error) {
	server, err := servers.Redis()
	if err != nil {
		return nil, nil, err
	}
	l, err := redis.Open(ctx, server.URL, redis.Options{})
	if err != nil {
		server.Close()
		return nil, nil, err
	}
	const callers, keys = 32, 16
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr, PoolSize: callers})
	end := func() {
		client.Close()
		l.Close()
		server.Close()
	}
	peer := redis_rate.NewLimiter(client)
	allow := func(ctx context.Context, span time.Duration) (float64, error) {
		limit := redis_rate.Limit{Rate: plenty, Burst: plenty, Period: time.Second}
		return crowd(ctx, callers, span, func(ctx context.Context, i int) (int, error) {
			r, err := peer.Allow(ctx, fmt.Sprintf("openai/%08x/", i%keys), limit)
			if err == nil && r.Allowed != 1 {
				err = fmt.Errorf("refused, though there is room: %+v", r)
			}
			return 1, err
		})
	}
	many, hot := requests(callers, keys, placed), requests(callers, 1, placed)
	const ours, theirs = "paceline redis", "redis_rate"
	return []scenario{
		{7, "three windows and places, 32 callers over 16 keys", ours, theirs, one(l, many, false), allow, 0.35},
		{7, "the same with release, a second round trip", ours, theirs, one(l, many, true), allow, 0},
		{7, "three windows and places, 32 callers of one key", ours + " in batches", without, together(l, hot), one(l, hot, false), 3},
	}, end, nil
}

func postgresRow(ctx context.Context) ([]scenario, func(), error) {
	server, err := servers.Postgres("fsync=on", "full_page_writes=on")
	if err != nil {
		return nil, nil, err
	}
	end := func() { server.Close() }
	l, err := postgres.Open(ctx, server.URL, postgres.Options{})
	if err != nil {
		end()
		return nil, nil, err
	}
	durable, err := postgres.Open(ctx, server.URL, postgres.Options{Schema: "durable", Durable: true})
	if err != nil {
		l.Close()
		end()
		return nil, nil, err
	}
	end = func() {
		durable.Close()
		l.Close()
		server.Close()
	}
	const callers = 16
	update := func(commit string) system {
		return func(ctx context.Context, span time.Duration) (float64, error) {
			return pgbench(ctx, server.URL, commit, callers, span)
		}
	}
	hot := requests(callers, 1, windows)
	const ours, theirs = "paceline postgres", "pgbench"
	return []scenario{
		{8, "three windows, 16 callers of one key", ours, theirs, one(l, hot, false), update("off"), 0.5},
		{8, "the same, on disk before it is answered", ours + " durable", theirs, one(durable, hot, false), update("on"), 0},
		{8, "three windows, 16 callers of one key", ours + " in batches", without, together(l, hot), one(l, hot, false), 4},
		{8, "the same, on disk before it is answered", ours + " durable, in batches", without, together(durable, hot), one(durable, hot, false), 0},
	}, end, nil
}

// pgbench has clients update one row for a span and says how often a second they did.
func pgbench(ctx context.Context, at, commit string, clients int, span time.Duration) (float64, error) {
	program, err := servers.PostgresProgram("pgbench")
	if err != nil {
		return 0, err
	}
	u, err := url.Parse(at)
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "paceline-pgbench-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	begin, script := filepath.Join(dir, "begin.sql"), filepath.Join(dir, "update.sql")
	for path, text := range map[string]string{
		begin:  "create table if not exists counter (id int primary key, n bigint); insert into counter values (1, 0) on conflict do nothing;\n",
		script: "update counter set n = n + 1 where id = 1;\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return 0, err
		}
	}
	run := func(file string, args ...string) ([]byte, error) {
		args = append([]string{"-n", "-f", file, "-h", u.Hostname(), "-p", u.Port(), "-U", u.User.Username()}, args...)
		cmd := exec.CommandContext(ctx, program, append(args, "postgres")...)
		cmd.Env = append(os.Environ(), "PGOPTIONS=-c synchronous_commit="+commit)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("pgbench: %w: %s", err, out)
		}
		return out, nil
	}
	if _, err := run(begin, "-t", "1"); err != nil {
		return 0, err
	}
	seconds := max(1, int(span.Round(time.Second).Seconds())) // it takes whole ones
	out, err := run(script, "-M", "prepared", "-c", strconv.Itoa(clients), "-j", "2", "-T", strconv.Itoa(seconds))
	if err != nil {
		return 0, err
	}
	found := tps.FindSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("pgbench does not say how many transactions it made a second: %s", out)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

var tps = regexp.MustCompile(`(?m)^tps = ([0-9.]+)`)

func wireRow(ctx context.Context) ([]scenario, func(), error) {
	server := httptest.NewServer(&slothttp.Handler{Limiter: memory.New()})
	l, err := slothttp.Dial(ctx, server.URL, slothttp.Options{Concurrent: true})
	if err != nil {
		server.Close()
		return nil, nil, err
	}
	end := func() {
		l.Close()
		server.Close()
	}
	three, single := requests(8, 8, windows), requests(8, 8, window)
	const ours = "paceline slothttp, batches of 100"
	return []scenario{
		{9, "one window over TCP, 8 callers", ours, without, batches(l, single, 100), one(l, single, false), 8},
		{9, "three windows over TCP, 8 callers", ours, without, batches(l, three, 100), one(l, three, false), 8},
	}, end, nil
}
