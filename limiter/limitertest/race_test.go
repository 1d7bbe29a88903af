package limitertest

import (
	"context"
	"net"
	"net/rpc"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// A desk hands a limiter of this process to others.
type desk struct{ l limiter.Limiter }

func (d *desk) Acquire(r limiter.Request, answer *limiter.Decision) (err error) {
	*answer, err = d.l.Acquire(context.Background(), r)
	return err
}

func (d *desk) Release(permit string, _ *struct{}) error {
	return d.l.Release(context.Background(), permit)
}

// A remote is a limiter that asks at a desk.
type remote struct{ *rpc.Client }

func (c remote) Acquire(_ context.Context, r limiter.Request) (d limiter.Decision, err error) {
	return d, c.Call("desk.Acquire", r, &d)
}

func (c remote) Release(_ context.Context, permit string) error {
	return c.Call("desk.Release", permit, new(struct{}))
}

func (c remote) Throttle(context.Context, string, time.Time) error {
	panic("nobody is throttled in a race")
}

// slow is a limiter that keeps everything for longer than it was asked to.
type slow struct{ limiter.Limiter }

func (s slow) Acquire(ctx context.Context, r limiter.Request) (limiter.Decision, error) {
	limits := append([]limiter.Limit(nil), r.Limits...)
	for i := range limits {
		limits[i].Per *= 2
	}
	r.Limits = limits
	return s.Limiter.Acquire(ctx, r)
}

// careless is a limiter that grants everything.
type careless struct{ limiter.Limiter }

func (c careless) Acquire(ctx context.Context, r limiter.Request) (limiter.Decision, error) {
	r.Limits = nil
	return c.Limiter.Acquire(ctx, r)
}

// Several processes find what breaks a limit (CC-25), and that a limiter grants
// too little; they find nothing where nothing is wrong.
func TestRaceFindsFaults(t *testing.T) {
	closed := newSuspect("")
	closed.o.closed["racer"] = time.Now().Add(time.Hour)
	for _, c := range []struct {
		name  string
		store limiter.Limiter // nil: each process has one of its own
		want  string
	}{
		{"right", newSuspect(""), ""},
		{"one each", nil, " of "},
		{"fixed window", newSuspect("fixed window"), " of "},
		{"one place more", newSuspect("one place more"), "4 of 3"},
		{"never lapses", newSuspect("never lapses"), "there was room"},
		{"closed", closed, "was granted nothing"},
		{"without a limit", careless{newSuspect("")}, "none refused"},
		{"slow", slow{newSuspect("")}, "there was room"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := RaceHarness{Processes: 2, For: time.Second,
				Store: func(t *testing.T) string { return serve(t, c.store) },
				Open: func(t *testing.T, store string) limiter.Limiter {
					if c.store == nil {
						return newSuspect("")
					}
					client, err := rpc.Dial("tcp", store)
					if err != nil {
						t.Fatal(err)
					}
					return remote{client}
				},
			}
			if c.name == "right" {
				Race(t, h)
				return
			}
			if result := os.Getenv(raceResult); result != "" {
				h.contend(t, result)
				return
			}
			err := h.race(t)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("found %v, want %q", err, c.want)
			}
		})
	}
}

func serve(t *testing.T, l limiter.Limiter) string {
	s := rpc.NewServer()
	if err := s.RegisterName("desk", &desk{l}); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.ServeConn(conn)
		}
	}()
	return listener.Addr().String()
}

// A process that fails, or that leaves before the race, is an error.
func TestRaceProcessFails(t *testing.T) {
	h := RaceHarness{Processes: 1, For: time.Millisecond,
		Store: func(*testing.T) string { return "" },
		Open:  func(t *testing.T, _ string) limiter.Limiter { t.Fatal("it cannot be opened"); return nil },
	}
	if result := os.Getenv(raceResult); result != "" {
		h.contend(t, result)
	}
	if err := h.race(t); err == nil || !strings.Contains(err.Error(), "it cannot be opened") {
		t.Errorf("found %v", err)
	}
}
