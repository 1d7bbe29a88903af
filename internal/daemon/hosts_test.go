package daemon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/fleet"
	"github.com/paceline-proxy/paceline/internal/servertest"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/limiter/slothttp"
	"github.com/paceline-proxy/paceline/stub"
)

// Three daemons with homes of their own are three hosts.
const hosts = 3

// What the hosts' requests have to fit.
const (
	windowCalls = 30
	windowPer   = 2 * time.Second
	// A busy machine is late, which is no fault of a limiter: windows are kept
	// a good deal longer than the provider's.
	windowSlack = 500 * time.Millisecond
)

var limitsOfThree = fmt.Sprintf("{windows: [{calls: %d, perMs: %d, slackMs: %d}], pacing: burst, maxConcurrent: 12}",
	windowCalls, windowPer.Milliseconds(), windowSlack.Milliseconds())

// Three hosts on one limiter keep one limit together: L-27, CC-26. tell is whether
// they can tell each other that they are there.
func testTogether(t *testing.T, limiter string, tell bool) {
	f := fleet.Start(t, hosts, fmt.Sprintf("{url: %q}", limiter), stub.Config{
		Meters: []stub.Meter{{Kind: stub.Rolling, Limit: windowCalls, Per: windowPer}}, Concurrent: 12,
		Jitter: 50 * time.Millisecond, Service: 20 * time.Millisecond,
	}, limitsOfThree)
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	f.Load(ctx, t, 8)
	c := f.Provider.Counts()
	if c.Refused > 0 || c.PeakLive > 12 {
		t.Errorf("%d were refused, %d at once", c.Refused, c.PeakLive)
	}
	// What a client with all knowledge gets: a window at once, and one more as
	// each of the length that is kept begins.
	oracle := windowCalls * (1 + int(time.Since(began)/(windowPer+windowSlack)))
	t.Logf("%d of %d at most, with %v of slack", c.Admitted, oracle, windowSlack)
	for i := range hosts {
		s := f.Status(t, i)
		b, _ := json.Marshal(s.Limiter)
		if s.Limiter.State != "ok" || tell && s.Limiter.Hosts != hosts || len(s.Callers) != 1 || s.Callers[0].Sent60s == 0 {
			t.Errorf("host %d: %s, %+v", i, b, s.Callers)
		}
	}
}

func TestTogetherInAFile(t *testing.T) {
	testTogether(t, "sqlite:"+filepath.Join(t.TempDir(), "limits.db"), true)
}

func TestTogetherOverTheWire(t *testing.T) {
	w := newWire(t)
	testTogether(t, w.url, false)
}

// A wire is a limiter in memory behind the wire, which can be killed.
type wire struct {
	t       *testing.T
	handler http.Handler
	at, url string
	server  *http.Server
}

func newWire(t *testing.T) *wire {
	w := &wire{t: t, handler: &slothttp.Handler{Limiter: memory.New()}, at: "127.0.0.1:0"}
	w.start()
	w.url = "http://" + w.at
	t.Cleanup(w.kill)
	return w
}

func (w *wire) start() {
	w.t.Helper()
	l, err := net.Listen("tcp", w.at)
	if err != nil {
		w.t.Fatal(err)
	}
	w.at = l.Addr().String()
	w.server = &http.Server{Handler: w.handler}
	go w.server.Serve(l)
}

func (w *wire) kill() { w.server.Close() }

// A limiter that is killed under load and comes back lets no more through than
// its hosts' shares beside what was let through before; nobody hangs, and in
// the end all places are free.
func testOutage(t *testing.T, limiter string, kill, restart func()) {
	f := fleet.Start(t, hosts, fmt.Sprintf("{url: %q, localShare: 0.3, timeoutMs: 500}", limiter), stub.Config{
		Jitter: 50 * time.Millisecond, Service: 20 * time.Millisecond,
	}, limitsOfThree)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var down, up, back time.Time
	var outage sync.WaitGroup
	outage.Go(func() {
		defer cancel()
		time.Sleep(windowPer + windowSlack)
		down = time.Now()
		kill()
		time.Sleep(2 * (windowPer + windowSlack))
		for i := range hosts {
			if s := f.Status(t, i).Limiter; s.State != "away" || len(s.Warnings) == 0 {
				t.Errorf("host %d: with the limiter killed its state is %+v", i, s)
			}
		}
		restart()
		up = time.Now()
		for i := range hosts {
			fleet.Await(t, 30*time.Second, func() bool { return f.Status(t, i).Limiter.State == "ok" })
		}
		back = time.Now()
		time.Sleep(windowPer + 2*(windowPer+windowSlack))
	})
	f.Load(ctx, t, 8)
	outage.Wait()
	t.Logf("back %v after it was there", back.Sub(up).Round(time.Millisecond))
	at := f.Arrivals()
	alone := hosts * (windowCalls * 3 / 10)
	for _, span := range []struct {
		what     string
		from, to time.Time
		most     int
	}{
		{"before", time.Time{}, down, windowCalls},
		{"meanwhile", down, back, windowCalls + alone},
		{"alone", down.Add(windowPer), up, alone},
		{"afterwards", back.Add(windowPer), time.Now(), windowCalls},
	} {
		n := fleet.Busiest(at, windowPer, span.from, span.to)
		t.Logf("%s: %d in %v, %d at most", span.what, n, windowPer, span.most)
		if n > span.most {
			t.Errorf("%s: %d in %v", span.what, n, windowPer)
		}
		if n == 0 {
			t.Errorf("%s: nothing was sent", span.what)
		}
	}
	if live := f.Provider.Counts().PeakLive; live > 12+hosts*3 {
		t.Errorf("%d at once", live)
	}
}

func TestOutageOfTheWire(t *testing.T) {
	w := newWire(t)
	testOutage(t, w.url, w.kill, w.start)
}

func TestTogetherOnRedis(t *testing.T) {
	testTogether(t, servertest.StartRedis(t).URL, true)
}

func TestOutageOfRedis(t *testing.T) {
	s := servertest.StartRedis(t, "--appendonly", "yes")
	testOutage(t, s.URL, s.Kill, s.Restart)
}

func TestTogetherOnPostgres(t *testing.T) {
	testTogether(t, servertest.StartPostgres(t).URL, true)
}

// It loses nothing: what may have lost grants has all windows full for a while.
func TestOutageOfPostgres(t *testing.T) {
	s := servertest.StartPostgres(t)
	testOutage(t, s.URL+"&durable=true", s.Kill, s.Restart)
}
