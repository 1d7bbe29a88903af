package daemon

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/config"
	"github.com/paceline-proxy/paceline/internal/home"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/memory"
)

// What a command caught is counted by its mark, wherever in the base URL the
// mark stands, and the proxy's own pages are no use of it.
func TestUse(t *testing.T) {
	var u use
	h := u.count(http.NotFoundHandler())
	ask := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	started := time.Now()
	for _, path := range []string{"/health", "/stats", "/ui/x", "/control/mode"} {
		ask(path)
	}
	if since := u.idleSince(started); !since.Equal(started) {
		t.Errorf("its own pages keep it busy")
	}
	mark := home.NewMark()
	for _, path := range []string{"/as/purpose=" + mark + "/v1/models", "/~pcl_x/as/me,priority=normal,purpose=" + mark + "/v1/models",
		"/as/a%2Fb,purpose=" + mark + "/v1/models", // a name with a slash
		"/as/a%2Cpurpose%3D" + mark + "/v1/models", // a name, and no mark
		"/v1/models", "/statsfor/v1"} {
		ask(path)
	}
	if since := u.idleSince(started); !since.After(started) {
		t.Error("requests do not keep it busy")
	}
	if got := ask(home.CaughtPath + mark).Body.String(); got != "{\"requests\":3}\n" {
		t.Errorf("caught: %s", got)
	}
	if c := ask("/v1/models").Header().Get("Connection"); c != "" {
		t.Errorf("Connection: %q", c)
	}
	u.drain()
	if c := ask("/v1/models").Header().Get("Connection"); c != "close" {
		t.Errorf("draining, Connection: %q", c)
	}
}

func TestStartOnly(t *testing.T) {
	a, b := config.Default(), config.Default()
	if keys := startOnly(a, b); len(keys) > 0 {
		t.Errorf("nothing differs, but %v", keys)
	}
	b.Providers = append(b.Providers, named("x", b.Upstream), named("y", config.Upstream{}))
	if keys := startOnly(a, b); len(keys) > 0 {
		t.Errorf("another provider needs no start, but %v", keys)
	}
	b.Upstream.Proxy, b.Queue.Keep, b.Mode = "none", time.Second, config.Off
	if keys := startOnly(a, b); !slices.Equal(keys, []string{"queue", "upstream"}) {
		t.Errorf("what needs a start: %v", keys)
	}
}

func TestProxyFunc(t *testing.T) {
	req := httptest.NewRequest(http.MethodGet, "https://api.example.com/v1", nil)
	for v, want := range map[string]string{"none": "", "http://proxy.example:3128": "http://proxy.example:3128"} {
		f, err := proxyFunc(v)
		if err != nil {
			t.Fatal(err)
		}
		u, err := f(req)
		if err != nil || (u == nil) != (want == "") || u != nil && u.String() != want {
			t.Errorf("%s: %v, %v", v, u, err)
		}
	}
	if _, err := proxyFunc("proxy.example"); err == nil || !strings.Contains(err.Error(), "give env, none or a URL") {
		t.Errorf("a bad one: %v", err)
	}
}

// What a drained proxy still runs occupies places at its successor until that
// is told otherwise, and until then its line asks again soon.
func TestHandOver(t *testing.T) {
	ctx := t.Context()
	ask := limiter.Request{Key: "p", Cost: 1, Hold: time.Minute, Limits: []limiter.Limit{{Key: "p/places", Concurrent: 1}}}
	old := newHolder(memory.New())
	running, err := old.Acquire(ctx, ask)
	if err != nil || !running.Granted {
		t.Fatal(running, err)
	}
	all := old.hand()
	if len(all) != 1 || all[0].Permit != running.Permit || !slices.Equal(all[0].Places, []string{"p/places"}) {
		t.Fatalf("handed over: %+v", all)
	}
	next := newHolder(memory.New())
	next.takeOver(ctx, all)
	got, err := next.Acquire(ctx, ask)
	if err != nil || got.Granted || got.RetryAt.Sub(got.Now) != askAgain {
		t.Errorf("while it runs: %+v, %v", got, err)
	}
	if err := old.Release(ctx, running.Permit); err != nil {
		t.Fatal(err)
	}
	if err := next.free(old.untold()); err != nil {
		t.Fatal(err)
	}
	if got, err := next.Acquire(ctx, ask); err != nil || !got.Granted {
		t.Errorf("when it has ended: %+v, %v", got, err)
	}
}

func named(name string, u config.Upstream) config.Provider {
	p := config.Provider{Upstream: u}
	p.Name = name
	return p
}
