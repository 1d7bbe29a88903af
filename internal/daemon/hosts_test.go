package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/home"
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

// A fleet is daemons in this process in front of one stand-in provider.
type fleet struct {
	provider *stub.Stub
	at       []home.Server
	homes    []home.Home
	answers  sync.Map // status to *atomic.Int64
}

// newFleet starts daemons with a limiter.
func newFleet(t *testing.T, limiter string, s stub.Config, limits string) *fleet {
	t.Helper()
	provider, err := stub.New(s)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(provider)
	t.Cleanup(server.Close)
	f := &fleet{provider: provider}
	for i := range hosts {
		h := home.Home{Dir: t.TempDir()}
		file := filepath.Join(h.Dir, "paceline.yaml")
		text := fmt.Sprintf("limiter: %s\nproviders:\n  p: {baseURL: %s/v1, limits: %s, retry: {maxWaitMs: 1m}}\n", limiter, server.URL, limits)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f.at = append(f.at, start(t, h, file, i))
		f.homes = append(f.homes, h)
	}
	return f
}

// start runs a daemon until the test ends.
func start(t *testing.T, h home.Home, file string, i int) home.Server {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan home.Server, 1), make(chan error, 1)
	log := io.Discard
	if testing.Verbose() {
		log = t.Output()
	}
	go func() {
		ended <- Run(ctx, Options{
			Home: h, ConfigFile: file, Listen: []string{"127.0.0.1:0"}, Version: "test",
			Ready:  func(s home.Server) { ready <- s },
			Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})).With("host", i),
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("host %d: %v", i, err)
		}
	})
	select {
	case s := <-ready:
		return s
	case err := <-ended:
		ended <- err
		t.Fatalf("host %d does not start: %v", i, err)
	}
	return home.Server{}
}

// ask sends one request through a host and returns the status of its answer.
func (f *fleet) ask(ctx context.Context, host int) (status int, said string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.at[host].URL()+"/p/v1/chat/completions", strings.NewReader(`{"model":"m","messages":[]}`))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Authorization", "Bearer own-key-of-the-client")
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

// load has clients ask every host without a break, until ctx ends, and leave
// then.
func (f *fleet) load(ctx context.Context, t *testing.T, clients int) {
	var all sync.WaitGroup
	for i := range hosts {
		for range clients {
			all.Go(func() {
				for ctx.Err() == nil {
					status, said, err := f.ask(ctx, i)
					switch {
					case ctx.Err() != nil:
					case err != nil:
						t.Errorf("host %d: %v", i, err)
						return
					case status != http.StatusOK:
						t.Errorf("host %d: %d %s", i, status, said)
					}
					n, _ := f.answers.LoadOrStore(status, new(atomic.Int64))
					n.(*atomic.Int64).Add(1)
				}
			})
		}
	}
	all.Wait()
}

func (f *fleet) status(t *testing.T, host int) (s Status) {
	t.Helper()
	if err := f.homes[host].ClientOf(f.at[host]).Status(t.Context(), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// busiest is how many of the instants lie in the fullest window that ends in
// from..to.
func busiest(at []time.Time, per time.Duration, from, to time.Time) (most int) {
	slices.SortFunc(at, time.Time.Compare)
	oldest := 0
	for i, a := range at {
		for a.Sub(at[oldest]) >= per {
			oldest++
		}
		if !a.Before(from) && !a.After(to) {
			most = max(most, i-oldest+1)
		}
	}
	return most
}

func (f *fleet) arrivals() (at []time.Time) {
	for _, a := range f.provider.Arrivals() {
		at = append(at, a.At)
	}
	return at
}

var limitsOfThree = fmt.Sprintf("{windows: [{calls: %d, perMs: %d, slackMs: %d}], pacing: burst, maxConcurrent: 12}",
	windowCalls, windowPer.Milliseconds(), windowSlack.Milliseconds())

// Three hosts on one limiter keep one limit together: L-27, CC-26. tell is whether
// they can tell each other that they are there.
func testTogether(t *testing.T, limiter string, tell bool) {
	f := newFleet(t, "{url: "+limiter+"}", stub.Config{
		Meters: []stub.Meter{{Kind: stub.Rolling, Limit: windowCalls, Per: windowPer}}, Concurrent: 12,
		Jitter: 50 * time.Millisecond, Service: 20 * time.Millisecond,
	}, limitsOfThree)
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	f.load(ctx, t, 8)
	c := f.provider.Counts()
	if c.Refused > 0 || c.PeakLive > 12 {
		t.Errorf("%d were refused, %d at once", c.Refused, c.PeakLive)
	}
	// What a client with all knowledge gets: a window at once, and one more as
	// each of the length that is kept begins.
	oracle := windowCalls * (1 + int(time.Since(began)/(windowPer+windowSlack)))
	t.Logf("%d of %d at most, with %v of slack", c.Admitted, oracle, windowSlack)
	for i := range hosts {
		s := f.status(t, i)
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
	f := newFleet(t, fmt.Sprintf("{url: %s, localShare: 0.3, timeoutMs: 500}", limiter), stub.Config{
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
			if s := f.status(t, i).Limiter; s.State != "away" || len(s.Warnings) == 0 {
				t.Errorf("host %d: with the limiter killed its state is %+v", i, s)
			}
		}
		restart()
		up = time.Now()
		for i := range hosts {
			await(t, 30*time.Second, func() bool { return f.status(t, i).Limiter.State == "ok" })
		}
		back = time.Now()
		time.Sleep(windowPer + 2*(windowPer+windowSlack))
	})
	f.load(ctx, t, 8)
	outage.Wait()
	t.Logf("back %v after it was there", back.Sub(up).Round(time.Millisecond))
	at := f.arrivals()
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
		n := busiest(at, windowPer, span.from, span.to)
		t.Logf("%s: %d in %v, %d at most", span.what, n, windowPer, span.most)
		if n > span.most {
			t.Errorf("%s: %d in %v", span.what, n, windowPer)
		}
		if n == 0 {
			t.Errorf("%s: nothing was sent", span.what)
		}
	}
	if live := f.provider.Counts().PeakLive; live > 12+hosts*3 {
		t.Errorf("%d at once", live)
	}
}

func await(t *testing.T, most time.Duration, ready func() bool) {
	t.Helper()
	for began := time.Now(); !ready(); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > most {
			t.Fatalf("not after %v", most)
		}
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
