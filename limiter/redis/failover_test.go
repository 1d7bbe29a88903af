package redis_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/servertest"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/redis"
)

// An alias is an address that leads to one server after the other, as names and
// virtual addresses do. It may also lead nowhere and not say so.
type alias struct {
	net.Listener
	mu    sync.Mutex
	to    string
	conns []net.Conn
}

func newAlias(t testing.TB, to string) *alias {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &alias{Listener: ln, to: to}
	t.Cleanup(func() {
		ln.Close()
		a.lead("")
	})
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go a.carry(c)
		}
	}()
	return a
}

func (a *alias) url() string { return "redis://" + a.Addr().String() }

func (a *alias) carry(c net.Conn) {
	a.mu.Lock()
	a.conns = append(a.conns, c)
	to := a.to
	a.mu.Unlock()
	if to == "" {
		return
	}
	d, err := net.Dial("tcp", to)
	if err != nil {
		c.Close()
		return
	}
	go func() { io.Copy(d, c); d.Close() }()
	io.Copy(c, d)
	c.Close()
}

// lead makes the alias lead to another server, or to nobody, and cuts what led
// to the last.
func (a *alias) lead(to string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.to = to
	for _, c := range a.conns {
		c.Close()
	}
	a.conns = nil
}

// soon makes a primary not wait for more replicas.
var soon = []string{"--repl-diskless-sync-delay", "0"}

// replicate makes one Redis the replica of another, up to now.
func replicate(t testing.TB, primary, replica *servertest.Server) {
	t.Helper()
	host, port, err := net.SplitHostPort(primary.Addr)
	if err != nil {
		t.Fatal(err)
	}
	do := admin(t, replica.URL)
	do("REPLICAOF", host, port)
	eventually(t, "replication", func() error {
		if info := do("INFO", "replication"); !strings.Contains(info, "master_link_status:up") {
			return fmt.Errorf("%s", info)
		}
		return nil
	})
	admin(t, primary.URL)("WAIT", "1", "5000")
}

// A replica that is promoted may lack the last grants, and does here.
func TestFailover(t *testing.T) {
	primary, replica := servertest.StartRedis(t, soon...), servertest.StartRedis(t, soon...)
	a := newAlias(t, primary.Addr)
	l := open(t, a.url(), redis.Options{})
	kept(t, l)
	seen := window("seen", 1, time.Hour)
	granted(t, l, seen)
	replicate(t, primary, replica)

	admin(t, replica.URL)("REPLICAOF", "127.0.0.1", "1") // the link breaks
	granted(t, l, window("unseen", 1, time.Minute))

	primary.Kill()
	admin(t, replica.URL)("REPLICAOF", "NO", "ONE")
	a.lead(replica.Addr)
	eventually(t, "coming back", answers(l))
	refused(t, l, seen, 59*time.Minute, time.Hour)
	refused(t, l, window("unseen", 1, time.Minute), 50*time.Second, time.Minute)
	lost(t, l)

	// The same server again, by another connection, is nothing new.
	w := l.Warnings()
	a.lead(replica.Addr)
	eventually(t, "coming back", answers(l))
	if again := l.Warnings(); len(again) != 1 || again[0] != w[0] {
		t.Errorf("%q after %q", again, w)
	}
}

// Nobody is handed what a server granted that had lost its state by then.
func TestNoGrantByStrangers(t *testing.T) {
	first, second := servertest.StartRedis(t, soon...), servertest.StartRedis(t)
	a := newAlias(t, first.Addr)
	l := open(t, a.url(), redis.Options{})
	r := window("a", 1_000_000, time.Minute)
	granted(t, l, r)
	replicate(t, first, second)
	admin(t, second.URL)("REPLICAOF", "NO", "ONE")

	var wg sync.WaitGroup
	begun := make(chan bool, 16)
	moved := make(chan struct{})
	for range 16 {
		wg.Go(func() {
			for told := false; ; {
				select {
				case <-moved:
					// Whatever is granted from here on is the second one's.
					for start := time.Now(); time.Since(start) < 300*time.Millisecond; {
						if d, err := l.Acquire(context.Background(), r); err == nil && d.Granted {
							t.Errorf("granted by a server that may have lost counts")
							return
						}
					}
					return
				default:
				}
				l.Acquire(context.Background(), r)
				if !told {
					told = true
					begun <- true
				}
			}
		})
	}
	for range 16 {
		<-begun
	}
	a.lead(second.Addr)
	close(moved)
	wg.Wait()
}

// startSentinel starts a Sentinel that watches one primary as main.
func startSentinel(t testing.TB, primary *servertest.Server) (address string) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		missing(t, "redis-server")
	}
	host, port, _ := net.SplitHostPort(primary.Addr)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = ln.Addr().String()
	ln.Close()
	_, own, _ := net.SplitHostPort(address)
	dir := t.TempDir()
	file := filepath.Join(dir, "sentinel.conf")
	conf := fmt.Sprintf("bind 127.0.0.1\nport %s\ndir %s\nsentinel monitor main %s %s 1\nsentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n",
		own, dir, host, port)
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, file, "--sentinel")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return address
}

// missing ends a test that lacks a program.
func missing(t testing.TB, program string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is not installed", program)
	}
	t.Skipf("%s is not installed", program)
}

func TestSentinel(t *testing.T) {
	primary, replica := servertest.StartRedis(t, soon...), servertest.StartRedis(t, soon...)
	replicate(t, primary, replica)
	sentinel := startSentinel(t, primary)
	url := "redis://" + sentinel + "?master_set=main"
	var l *redis.Limiter
	eventually(t, "opening", func() (err error) {
		l, err = redis.Open(t.Context(), url, redis.Options{})
		return err
	})
	defer l.Close()
	kept(t, l)
	held := granted(t, l, places("p", 1))
	ask := admin(t, "redis://"+sentinel)
	eventually(t, "the replica being known", func() error {
		if text := ask("INFO", "sentinel"); !strings.Contains(text, "slaves=1") {
			return fmt.Errorf("%s", text)
		}
		return nil
	})
	size, copied := admin(t, primary.URL), admin(t, replica.URL)
	eventually(t, "replication", func() error {
		if all, some := size("DBSIZE"), copied("DBSIZE"); all != some {
			return fmt.Errorf("%s of %s keys", some, all)
		}
		return nil
	})
	primary.Kill()
	eventually(t, "failover", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := l.Acquire(ctx, limiter.Request{Key: "nobody"})
		return err
	})
	lost(t, l)
	refused(t, l, places("p", 1), time.Millisecond, 100*time.Millisecond)
	if err := l.Release(context.Background(), held.Permit); err != nil {
		t.Fatal(err)
	}
	granted(t, l, places("p", 1))
}

// All keys live on one shard of a cluster, whichever node is named.
func TestCluster(t *testing.T) {
	program, err := exec.LookPath("redis-cli")
	if err != nil {
		missing(t, "redis-cli")
	}
	var nodes []*servertest.Server
	args := []string{"--cluster", "create"}
	for range 3 {
		s := servertest.StartRedis(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
		nodes = append(nodes, s)
		args = append(args, s.Addr)
	}
	eventually(t, "the cluster", func() error {
		out, err := exec.Command(program, append(args, "--cluster-yes")...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	open := func(s *servertest.Server, tag string) (l *redis.Limiter) {
		t.Helper()
		eventually(t, "opening", func() (err error) {
			l, err = redis.Open(t.Context(), "redis://"+s.Addr, redis.Options{Tag: tag})
			return err
		})
		t.Cleanup(func() { l.Close() })
		return l
	}
	// Different tags live on different shards.
	for _, tag := range []string{"", "a", "b", "c", "d"} {
		var ls []*redis.Limiter
		for _, s := range nodes {
			ls = append(ls, open(s, tag))
		}
		tokens := limiter.Limit{Key: "tokens", Calls: 100, Per: time.Hour, Cost: 60}
		all := limiter.Request{Key: "caller", Hold: time.Minute, Limits: []limiter.Limit{
			{Key: "r", Calls: 3, Per: time.Hour}, {Key: "s", Calls: 9, Per: time.Hour}, {Key: "p", Concurrent: 2}, tokens,
		}}
		ctx := context.Background()
		d := granted(t, ls[0], all)
		refused(t, ls[1], all, 59*time.Minute, time.Hour)
		if err := ls[2].Settle(ctx, d.Permit, []limiter.Cost{{Key: "tokens", Cost: 10}}); err != nil {
			t.Fatal(err)
		}
		if err := ls[1].Renew(ctx, []string{d.Permit}, time.Hour); err != nil {
			t.Fatal(err)
		}
		granted(t, ls[1], all)
		if err := ls[2].Release(ctx, d.Permit); err != nil {
			t.Fatal(err)
		}
		if err := ls[0].Throttle(ctx, "closed", time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		refused(t, ls[2], limiter.Request{Key: "closed"}, 59*time.Minute, time.Hour)
		if err := ls[0].Update(ctx, "blob", func([]byte) []byte { return []byte("state") }); err != nil {
			t.Fatal(err)
		}
		if b, err := ls[1].Get(ctx, "blob"); string(b) != "state" || err != nil {
			t.Errorf("blob: %q, %v", b, err)
		}
		if w := ls[0].Warnings(); len(w) > 0 {
			t.Errorf("warnings: %q", w)
		}
	}
}
