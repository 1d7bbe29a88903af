package daemon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
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
	windowPer   = time.Second
	// A busy machine is late, which is no fault of a limiter: windows are kept much
	// longer than the provider's.
	windowSlack = 1500 * time.Millisecond
)

var limitsOfThree = fmt.Sprintf("{windows: [{calls: %d, perMs: %d, slackMs: %d}], pacing: burst, maxConcurrent: 12}",
	windowCalls, windowPer.Milliseconds(), windowSlack.Milliseconds())

// Three hosts on one limiter keep one limit together: L-27, CC-26. tell is whether
// they can tell each other that they are there.
func testTogether(t *testing.T, limiter string, tell bool) {
	f := fleet.Start(t, hosts, fmt.Sprintf("{url: %q, timeoutMs: 5000}", limiter), stub.Config{
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

// A wait that one host was told of binds the others at once, also those whose
// requests wait already: L-80, L-88, CC-26.
func TestThrottleReachesAllHosts(t *testing.T) {
	f := fleet.Start(t, hosts, fmt.Sprintf("{url: %q, timeoutMs: 5000}", "sqlite:"+filepath.Join(t.TempDir(), "limits.db")), stub.Config{
		Meters: []stub.Meter{{Kind: stub.Fixed, Limit: 1, Per: 3 * time.Second}}, RetryAfter: stub.RetryAfterSeconds,
	}, "{}")
	// The first opens the window, the second meets its end and is told to wait.
	for range 2 {
		if status, said, err := f.Ask(t.Context(), 0); err != nil || status != http.StatusOK {
			t.Fatal(status, said, err)
		}
	}
	refused := f.Provider.Counts().Refused
	// That used up the window again: whoever comes is refused, once for all.
	var all sync.WaitGroup
	for i := range hosts {
		all.Go(func() {
			if status, said, err := f.Ask(t.Context(), i); err != nil || status != http.StatusOK {
				t.Error(status, said, err)
			}
		})
	}
	all.Wait()
	c := f.Provider.Counts()
	t.Logf("%d refused, %d early", c.Refused, c.Early)
	if refused == 0 || c.Early > hosts-1 { // those on their way when the wait was told
		t.Errorf("%d were refused, %d sent into a stated wait", c.Refused, c.Early)
	}
}

// A host that is started anew goes on with what all have counted, and keeps no
// journal of its own.
func TestRestartWithASharedLimiter(t *testing.T) {
	f := fleet.Start(t, hosts, fmt.Sprintf("{url: %q, timeoutMs: 5000}", "sqlite:"+filepath.Join(t.TempDir(), "limits.db")), stub.Config{},
		"{windows: [{calls: 4, perMs: 600000, slackMs: 0}], pacing: burst, maxConcurrent: 2}")
	sent := 0
	ask := func(host int) bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		status, _, err := f.Ask(ctx, host)
		if err == nil && status == http.StatusOK {
			sent++
			return true
		}
		return false
	}
	if !ask(0) || !ask(1) || !ask(0) {
		t.Fatal("what fits is not sent")
	}
	f.Restart(t, 0)
	if !ask(0) {
		t.Error("what fits is not sent by a host that was started anew")
	}
	if ask(0) || ask(2) {
		t.Errorf("%d of 4 were sent", sent)
	}
	if _, err := os.Stat(f.Home(0).Journal()); err == nil {
		t.Error("it keeps a journal")
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
	f := fleet.Start(t, hosts, fmt.Sprintf("{url: %q, localShare: 0.3, timeoutMs: 2000}", limiter), stub.Config{
		Jitter: 50 * time.Millisecond, Service: 20 * time.Millisecond,
	}, limitsOfThree)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var down, up, back time.Time
	var outage sync.WaitGroup
	outage.Go(func() {
		defer cancel()
		// In the middle of a window, while the lines wait: a grant whose answer is
		// lost keeps its place for a while.
		time.Sleep(windowPer + windowSlack + windowSlack/2)
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
