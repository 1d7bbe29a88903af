package slothttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/limiter/slothttp"
)

// answers has every method but acquire be answered as by a limiter of three
// methods, and acquire with a body.
func answers(acquire string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch methodOf(r) {
		case "acquire":
			io.WriteString(w, acquire)
		case "open", "release", "throttle":
			io.WriteString(w, `{"ok":true,"result":{}}`)
		default:
			io.WriteString(w, `{"ok":false,"error":{"code":"unknown_method","message":"no","retryable":false}}`)
		}
	})
}

func methodOf(r *http.Request) string {
	var c struct{ Method string }
	_ = json.NewDecoder(r.Body).Decode(&c)
	return c.Method
}

const secret = "hunter2hunter2"

// What goes wrong names the limiter and what to do, never the secret, and says
// whether it is worth trying again (L-33).
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	serve := func(h http.HandlerFunc) string { return overTCP(t, h) }
	for _, c := range []struct {
		name, url string
		retryable bool
		code      string
		is        error
		want      []string
	}{
		{"nobody there", "http://" + gone.Addr().String(), true, "", nil, []string{"connection refused", "start it, or correct its address"}},
		{"no socket", "unix:" + filepath.Join(dir, "none.sock"), true, "", nil, []string{"none.sock", "no such file", "start it"}},
		{"an error", serve(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "out of\nmemory", 500) }), true, "", nil,
			[]string{"HTTP 500 Internal Server Error: out of memory", "see its log"}},
		{"another server", serve(http.NotFound), true, "", nil, []string{"HTTP 404 Not Found", "is this the URL of a limiter"}},
		{"a web page", serve(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>\nhello") }), false, "", nil,
			[]string{"not one of the protocol", "hello", "is it a limiter of adapter protocol 2?"}},
		{"other JSON", serve(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"jsonrpc":"2.0"}`) }), false, "", nil, []string{"not one of the protocol"}},
		{"nothing", serve(func(http.ResponseWriter, *http.Request) {}), false, "", nil, []string{"not one of the protocol"}},
		{"too much", serve(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"ok":true,"result":"`+strings.Repeat("x", 5<<20)+`"}`)
		}), false, "", nil, []string{"larger than 4 MiB"}},
		{"no reason", serve(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"ok":false}`) }), false, "", nil, []string{"does not say why"}},
		{"it closes", serve(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), true, "", nil, []string{"closed the connection", "it may have died"}},
		{"half an answer", serve(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, `{"ok":`)
		}), true, "", nil, []string{"closed the connection"}},
		{"a redirect", serve(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://example.com/", http.StatusTemporaryRedirect)
		}), true, "", nil, []string{"HTTP 307"}},
		{"another version", serve(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"ok":false,"error":{"code":"unsupported_version","message":"this is protocol 3","retryable":false}}`)
		}), false, slothttp.UnsupportedVersion, nil, []string{"this is protocol 3", "speaks another version than adapter protocol 2"}},
		{"another secret", overTCP(t, &slothttp.Handler{Limiter: memory.New(), Secret: "another"}), false, slothttp.Unauthorized, nil, []string{"limiter.secret", "Options.Secret"}},
		{"no database", overTCP(t, &slothttp.Handler{Open: func(context.Context, map[string]string) (limiter.Limiter, error) {
			return nil, errors.New("the database is gone")
		}}), true, slothttp.Unavailable, nil, []string{"the database is gone", "see the log of the limiter"}},
		{"bad settings", overTCP(t, &slothttp.Handler{Open: func(context.Context, map[string]string) (limiter.Limiter, error) {
			return nil, fmt.Errorf("%w: the setting url is missing", limiter.ErrInvalid)
		}}), false, slothttp.InvalidParams, limiter.ErrInvalid, []string{"the setting url is missing"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			at := c.url
			if rest, ok := strings.CutPrefix(at, "http://"); ok {
				at = "http://me:" + secret + "@" + rest + "?token=" + secret
			}
			_, err := slothttp.Dial(ctx, at, slothttp.Options{Secret: secret, Settings: map[string]string{"url": "postgres://me:" + secret + "@db"}})
			e, ok := errors.AsType[*slothttp.Error](err)
			if !ok {
				t.Fatalf("%T %v", err, err)
			}
			if e.Retryable != c.retryable || e.Code != c.code || e.Method != "open" || e.Limiter == "" {
				t.Errorf("%+v", e)
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v is no %v", err, c.is)
			}
			if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, e.Advice), secret) {
				t.Errorf("it tells the secret: %v", err)
			}
			if bare, _, _ := strings.Cut(c.url, "?"); !strings.HasPrefix(err.Error(), "the limiter at "+bare) {
				t.Errorf("it does not name the limiter: %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %s", err, want)
				}
			}
			if strings.ContainsAny(err.Error(), "\n\r\x1b") {
				t.Errorf("not one line: %q", err)
			}
		})
	}
}

// URLs that are none, and what is wrong is said without repeating them.
func TestBadURLs(t *testing.T) {
	for _, url := range []string{"", "unix:", "localhost:8793", "ftp://u:" + secret + "@host", "http://", "http://u:" + secret + "@host:port", "://" + secret, "http://%zz" + secret} {
		_, err := slothttp.Dial(context.Background(), url, slothttp.Options{})
		if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "unix:PATH") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// Answers that are none, and those that say no more than they have to.
func TestAnswers(t *testing.T) {
	limits := []limiter.Limit{{Key: "a", Calls: 1, Per: time.Second}, {Key: "p", Concurrent: 1}}
	for _, c := range []struct{ answer, want string }{
		{`{"ok":true,"result":{"granted":true,"permit":"x","now":"2026-11-29T12:00:00.000Z"}}`, `true "x" 0s []`},
		{`{"ok":true,"result":{"granted":true}}`, `true "" 0s []`},
		{`{"ok":true,"result":{"granted":false,"now":"2026-11-29T12:00:00.000Z","retryAt":"2026-11-29T12:00:01.000Z","refused":[{"key":"a","cause":"rate"}]}}`, `false "" 1s [a rate]`},
		{`{"ok":true,"result":{"granted":false,"now":"2026-11-29T12:00:00.000Z","retryAt":"2026-11-29T12:00:01.000Z","retryAfterMs":1001,"refused":[]}}`, `false "" 1.001s [a rate p concurrent]`},
		// Never at once.
		{`{"ok":true,"result":{"granted":false,"now":"2026-11-29T12:00:00.000Z","retryAt":"2026-11-29T12:00:00.000Z"}}`, `false "" 1ms [a rate p concurrent]`},
		{`{"ok":true,"result":{"granted":false,"now":"2026-11-29T12:00:09.000Z","retryAt":"2026-11-29T12:00:00.000Z","retryAfterMs":-5}}`, `false "" 1ms [a rate p concurrent]`},
		{`{"ok":true,"result":{"granted":false,"retryAt":"2000-01-01T00:00:00.000Z"}}`, `false "" 1ms [a rate p concurrent]`},
		{`{"ok":true,"result":{"granted":false}}`, `acquire: a refusal without retryAt; is it a limiter of adapter protocol 2?`},
		{`{"ok":true,"result":{"granted":"yes"}}`, `the result does not say whether it is granted`},
		{`{"ok":true}`, `the result is no object`},
		{`{"ok":true,"result":{"granted":false,"retryAt":"tomorrow"}}`, `the result cannot be read: retryAt is no instant`},
		{`{"ok":false,"error":{"code":"invalid_params","message":"no"}}`, `acquire: invalid_params: no`},
		{`{"ok":false,"error":{"code":"busy","message":"later","retryable":true}}`, `acquire: busy: later`},
	} {
		l := dial(t, overTCP(t, answers(c.answer)), slothttp.Options{})
		for _, batch := range []bool{false, true} { // one by one, since it knows no batches
			r := limiter.Request{Key: "me", Limits: limits, Hold: time.Second}
			var d limiter.Decision
			var err error
			if batch {
				var ds []limiter.Decision
				if ds, err = l.AcquireBatch(context.Background(), []limiter.Request{r}); err == nil {
					d = ds[0]
				}
			} else {
				d, err = l.Acquire(context.Background(), r)
			}
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s: %v, want %s", c.answer, err, c.want)
				}
				continue
			}
			var refused []string
			var after time.Duration
			for _, f := range d.Refused {
				refused = append(refused, f.Key, string(f.Cause))
				if f.RetryAt.After(d.RetryAt) {
					t.Errorf("%s: %+v", c.answer, d)
				}
			}
			if !d.Granted {
				after = d.RetryAfter()
			}
			if got := fmt.Sprintf("%v %q %v %v", d.Granted, d.Permit, after, refused); got != c.want {
				t.Errorf("%s: %s, want %s", c.answer, got, c.want)
			}
		}
	}
}

// A limiter that never answers holds nobody beyond its own patience, whoever
// holds the turn.
func TestNeverAnswers(t *testing.T) {
	hang := make(chan struct{})
	var asked atomic.Int32
	h := &slothttp.Handler{Limiter: memory.New()}
	url := overTCP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if bytes.Contains(b, []byte(`"acquire"`)) {
			asked.Add(1)
			<-hang
		}
		r.Body = io.NopCloser(bytes.NewReader(b))
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { close(hang) }) // before the server is closed
	c := dial(t, url, slothttp.Options{})
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			defer cancel()
			_, err := c.Acquire(ctx, limiter.Request{Key: "me"})
			e, ok := errors.AsType[*slothttp.Error](err)
			if !ok || !errors.Is(err, context.DeadlineExceeded) || !e.Retryable || !strings.Contains(err.Error(), "no answer in time; is it running") {
				t.Errorf("caller %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if asked.Load() == 0 {
		t.Error("nobody asked")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.Release(ctx, "p"); !errors.Is(err, context.Canceled) {
		t.Errorf("released with a context that had ended: %v", err)
	}
	if err := c.Release(context.Background(), "p"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// L-30: one request at a time is on the wire, so a limiter need not serve more;
// where it is said to, they do not wait for each other.
func TestOneAtATime(t *testing.T) {
	for _, concurrent := range []bool{false, true} {
		var now, most atomic.Int32
		l := memory.New()
		h := &slothttp.Handler{Limiter: l}
		url := overTCP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(2 * time.Millisecond) // long enough to be met, however busy the machine
			h.ServeHTTP(w, r)
			now.Add(-1)
		}))
		c := dial(t, url, slothttp.Options{Concurrent: concurrent})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 5 {
					if _, err := c.Acquire(context.Background(), limiter.Request{Key: "me"}); err != nil {
						t.Error(err)
					}
					if err := c.Release(context.Background(), "p"); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if m := most.Load(); (m > 1) != concurrent {
			t.Errorf("concurrent %v: %d at once", concurrent, m)
		}
	}
}

// What a limiter cannot do fails, and is not there in what Limiter returns.
func TestUpgradesOfClients(t *testing.T) {
	type three struct{ limiter.Limiter }
	type middle struct {
		limiter.Limiter
		limiter.Settler
		limiter.Renewer
		limiter.Opener
	}
	m := memory.New()
	for _, c := range []struct {
		name              string
		l                 limiter.Limiter
		middle, extension bool
	}{
		{"three", three{m}, false, false},
		{"those of the main table", middle{m, m, m, m}, true, false},
		{"all", newShelved(), true, true},
	} {
		client := dial(t, overTCP(t, &slothttp.Handler{Limiter: c.l}), slothttp.Options{})
		view := client.Limiter()
		_, batches := view.(limiter.Batcher)
		_, settles := view.(limiter.Settler)
		_, renews := view.(limiter.Renewer)
		_, opens := view.(limiter.Opener)
		_, peeks := view.(limiter.Peeker)
		_, seeds := view.(limiter.Seeder)
		_, keeps := view.(limiter.Blobs)
		_, closes := view.(io.Closer)
		if !batches || !closes || settles != c.middle || renews != c.middle || opens != c.middle ||
			peeks != c.extension || seeds != c.extension || keeps != c.extension {
			t.Errorf("%s: %T", c.name, view)
		}
		ctx := context.Background()
		for what, err := range map[string]error{
			"renew": client.Renew(ctx, nil, time.Second), "settle": client.Settle(ctx, "p", nil), "open": client.Open(ctx, "me"),
		} {
			if errors.Is(err, errors.ErrUnsupported) == c.middle {
				t.Errorf("%s: %s: %v", c.name, what, err)
			}
		}
		if _, err := client.Peek(ctx, "me", nil); errors.Is(err, errors.ErrUnsupported) == c.extension {
			t.Errorf("%s: peek: %v", c.name, err)
		}
	}
}

// Bytes that several hosts change at once lose no change.
func TestBlobs(t *testing.T) {
	var mu sync.Mutex
	l := newShelved()
	h := &slothttp.Handler{Limiter: l}
	url := overTCP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock() // the map of the test
		defer mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	ctx := context.Background()
	var wg sync.WaitGroup
	for range 4 {
		c := dial(t, url, slothttp.Options{})
		wg.Go(func() {
			for range 20 {
				err := c.Update(ctx, "count", func(old []byte) []byte {
					for i := range old {
						old[i]++ // what it was given is its own
					}
					return append(old, 0)
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	c := dial(t, url, slothttp.Options{})
	got, err := c.Get(ctx, "count")
	if err != nil || len(got) != 80 || got[0] != 79 || got[79] != 0 {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := c.Get(ctx, "nothing"); got != nil || err != nil {
		t.Errorf("nothing stored: %v, %v", got, err)
	}
	if err := c.Update(ctx, "count", func([]byte) []byte { return []byte{} }); err != nil {
		t.Error(err)
	}
	if got, err := c.Get(ctx, "count"); got == nil || len(got) != 0 || err != nil {
		t.Errorf("empty: %#v, %v", got, err)
	}
}

// A limiter that has restarted has to be opened anew, and is, with the same
// settings.
func TestReopened(t *testing.T) {
	var opened []string
	serve := func() *slothttp.Handler {
		return &slothttp.Handler{Open: func(_ context.Context, settings map[string]string) (limiter.Limiter, error) {
			opened = append(opened, settings["url"])
			return memory.New(), nil
		}}
	}
	var h atomic.Pointer[slothttp.Handler]
	h.Store(serve())
	url := overTCP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.Load().ServeHTTP(w, r) }))
	c := dial(t, url, slothttp.Options{Settings: map[string]string{"url": "here"}})
	other := dial(t, url, slothttp.Options{Settings: map[string]string{"url": "here"}, Exclusive: true})
	ask := func(step string) {
		t.Helper()
		d, err := c.Acquire(context.Background(), limiter.Request{Key: "me", Limits: []limiter.Limit{{Key: step, Calls: 1, Per: time.Hour}}})
		if err != nil || !d.Granted {
			t.Errorf("%s: %+v, %v", step, d, err)
		}
	}
	ask("at first")
	h.Store(serve())
	ask("restarted")
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	ask("closed by somebody else")
	if got := fmt.Sprint(opened); got != "[here here here]" {
		t.Errorf("opened with %s", got)
	}
}

// CC-28: dialled twice, closed, dialled again. A closed client does nothing more,
// and the limiter goes on for others.
func TestClosed(t *testing.T) {
	url := overTCP(t, &slothttp.Handler{Limiter: memory.New()})
	one, two := dial(t, url, slothttp.Options{}), dial(t, url, slothttp.Options{})
	r := limiter.Request{Key: "me", Limits: []limiter.Limit{{Key: "a", Calls: 2, Per: time.Hour}}}
	ctx := context.Background()
	if d, err := one.Acquire(ctx, r); err != nil || !d.Granted {
		t.Fatal(d, err)
	}
	for range 2 {
		if err := one.Close(); err != nil {
			t.Error(err)
		}
	}
	_, acquired := one.Acquire(ctx, r)
	_, batched := one.AcquireBatch(ctx, []limiter.Request{r})
	_, peeked := one.Peek(ctx, "me", nil)
	for what, err := range map[string]error{
		"acquire": acquired, "batch": batched, "peek": peeked,
		"release": one.Release(ctx, "p"), "throttle": one.Throttle(ctx, "me", time.Now().Add(time.Hour)),
		"past throttle": one.Throttle(ctx, "me", time.Time{}), "open": one.Open(ctx, "me"),
		"renew": one.Renew(ctx, []string{"p"}, time.Second), "settle": one.Settle(ctx, "p", nil),
	} {
		if err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("%s of a closed client: %v", what, err)
		}
	}
	if d, err := two.Acquire(ctx, r); err != nil || !d.Granted {
		t.Errorf("another client: %+v, %v", d, err)
	}
	three := dial(t, url, slothttp.Options{})
	if d, err := three.Acquire(ctx, r); err != nil || d.Granted {
		t.Errorf("a new client: %+v, %v", d, err)
	}
}

// What the wire cannot say is not said.
func TestUnsayable(t *testing.T) {
	c := dial(t, overTCP(t, &slothttp.Handler{Limiter: newShelved()}), slothttp.Options{})
	ctx := context.Background()
	const bad = "\xff"
	limits := []limiter.Limit{{Key: bad, Calls: 1, Per: time.Second}}
	_, acquired := c.Acquire(ctx, limiter.Request{Key: bad})
	_, limited := c.Acquire(ctx, limiter.Request{Key: "me", Limits: limits})
	_, batched := c.AcquireBatch(ctx, []limiter.Request{{Key: bad}})
	_, peeked := c.Peek(ctx, "me", limits)
	_, got := c.Get(ctx, bad)
	for what, err := range map[string]error{
		"key": acquired, "bucket": limited, "batch": batched, "peek": peeked,
		"throttle": c.Throttle(ctx, bad, time.Now().Add(time.Hour)), "open": c.Open(ctx, bad),
		"settle": c.Settle(ctx, "p", []limiter.Cost{{Key: bad}}), "seed": c.Seed(ctx, limits, time.Now()),
	} {
		if !errors.Is(err, limiter.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if !errors.Is(got, limiter.ErrInvalid) {
		t.Errorf("get: %v", got)
	}
	if d, err := c.AcquireBatch(ctx, nil); err != nil || len(d) != 0 {
		t.Errorf("a batch of nothing: %v, %v", d, err)
	}
}

// A limiter that has been started anew elsewhere is asked there, under its name.
func TestMove(t *testing.T) {
	first := httptest.NewServer(&slothttp.Handler{Limiter: memory.New(), Secret: secret})
	ended := 0
	c := dial(t, first.URL, slothttp.Options{Secret: secret, Name: "the limiter module x", Down: "see its log", Closed: func() error { ended++; return nil }})
	first.Close()
	ctx := context.Background()
	_ = c.Release(ctx, "p") // over the connection that was there, perhaps
	if err := c.Release(ctx, "p"); err == nil || !strings.HasPrefix(err.Error(), "the limiter module x: release: ") || !strings.HasSuffix(err.Error(), "; see its log") {
		t.Errorf("nobody there: %v", err)
	}
	for _, serve := range []func(testing.TB, http.Handler) string{overUnix, overTCP} {
		url := serve(t, &slothttp.Handler{Limiter: memory.New(), Secret: secret})
		if err := c.Move(url); err != nil {
			t.Fatal(err)
		}
		if err := c.Release(ctx, "p"); err != nil {
			t.Errorf("at %s: %v", url, err)
		}
		if err := slothttp.Health(ctx, url); err != nil {
			t.Errorf("health of %s: %v", url, err)
		}
	}
	if err := c.Move("nowhere"); err == nil {
		t.Error("moved nowhere")
	}
	if err := slothttp.Health(ctx, first.URL); err == nil || !strings.Contains(err.Error(), first.URL) {
		t.Errorf("health of nobody: %v", err)
	}
	if err := slothttp.Health(ctx, overTCP(t, http.NotFoundHandler())); err == nil || !strings.Contains(err.Error(), "HTTP 404") {
		t.Errorf("health of something else: %v", err)
	}
	for range 2 {
		if err := c.Close(); err != nil || ended != 1 {
			t.Errorf("close: %v, %d times", err, ended)
		}
	}
}

// HTTPS, with a client of the caller's own, and a secret in the URL.
func TestHTTPS(t *testing.T) {
	s := httptest.NewTLSServer(&slothttp.Handler{Limiter: memory.New(), Secret: secret})
	defer s.Close()
	url := strings.Replace(s.URL, "https://", "https://:"+secret+"@", 1)
	dial(t, url, slothttp.Options{HTTP: s.Client()})
	_, err := slothttp.Dial(context.Background(), url, slothttp.Options{}) // an unknown authority
	if e, ok := errors.AsType[*slothttp.Error](err); !ok || !strings.Contains(err.Error(), "certificate") || strings.Contains(err.Error(), secret) {
		t.Errorf("%+v", e)
	}
}

// Whatever answers, the client makes of it a decision that holds together, or
// an error of one line.
func FuzzAnswer(f *testing.F) {
	f.Add(`{"ok":true,"result":{"granted":true,"permit":"x","now":"2026-11-29T12:00:00.000Z"}}`)
	f.Add(`{"ok":true,"result":{"granted":false,"now":"2026-11-29T12:00:00.000Z","retryAt":"2026-11-29T12:00:01.000Z","retryAfterMs":1001,"refused":[{"key":"a","cause":"rate","retryAt":"2026-11-29T12:00:01.000Z"}]}}`)
	f.Add(`{"ok":true,"result":{"granted":false,"retryAt":"0000-01-01T00:00:00.000Z"}}`)
	f.Add(`{"ok":true,"result":{"granted":false,"now":"0000-01-01T00:00:00.000Z","retryAt":"9999-12-31T23:59:59.999Z","retryAfterMs":9223372036854}}`)
	f.Add(`{"ok":false,"error":{"code":"unavailable","message":"m\nm","retryable":true}}`)
	f.Add(`{"ok":null}`)
	var acquire atomic.Value
	acquire.Store("")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answers(acquire.Load().(string)).ServeHTTP(w, r) }))
	f.Cleanup(s.Close)
	c, err := slothttp.Dial(context.Background(), s.URL, slothttp.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		acquire.Store(body)
		d, err := c.Acquire(context.Background(), limiter.Request{Key: "me"})
		switch {
		case err != nil:
			if _, ok := errors.AsType[*slothttp.Error](err); !ok || strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("%T %q", err, err)
			}
		case d.Granted != (len(d.Refused) == 0):
			t.Errorf("%+v", d)
		case !d.Granted && d.RetryAfter() < time.Millisecond:
			t.Errorf("at once: %v", d.RetryAfter())
		}
	})
}
