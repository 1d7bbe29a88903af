package proxy_test

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/config"
)

func TestHosts(t *testing.T) {
	g := newRig(t, nil, func(c *config.Config) { c.AllowHosts = []string{"gpu.lan", "*.svc.cluster.local"} })
	for host, ok := range map[string]bool{
		"localhost:8790": true, "LOCALHOST": true, "a.localhost": true, "127.0.0.1": true, "[::1]:80": true, "10.1.2.3:1": true,
		"host.docker.internal:8790": true, "host.containers.internal": true, "gpu.lan": true, "paceline.default.svc.cluster.local": true,
		"evil.example": false, "localhost.evil.example:8790": false, "127.0.0.1.nip.io": false, "svc.cluster.local.evil": false, "xlocalhost": false,
	} {
		for _, path := range []string{"/own/v1/models", "/stats", "/ui", "/metrics", "/"} {
			res := g.do(t, "GET", path, "", "Host", host)
			if ok != (res.StatusCode == 200) {
				t.Errorf("%s of %s: %s %s", path, host, res.Status, res.body)
			}
			if !ok && !strings.Contains(res.body, "allowHosts: [") {
				t.Errorf("%s: the refusal does not name the line to add: %s", host, res.body)
			}
		}
	}
	// Whoever knows a token is no web page that was led here.
	if res := g.do(t, "GET", "/own/v1/models", "", "Host", "evil.example", "X-Paceline-Token", homeToken); res.StatusCode != 200 {
		t.Errorf("with a token: %s", res.Status)
	}
	if res := g.do(t, "GET", "/health", "", "Host", "paceline.example"); res.StatusCode != 200 {
		t.Errorf("health: %s", res.Status)
	}
}

func TestOrigins(t *testing.T) {
	g := newRig(t, nil, func(c *config.Config) { c.AllowHosts = []string{"app.example", "app://obsidian.md"} })
	for origin, ok := range map[string]bool{
		"http://localhost:3000": true, "http://127.0.0.1:1": true, "http://[::1]:1": true, "https://app.example": true, "app://obsidian.md": true,
		"https://evil.example": false, "null": false, "http://203.0.113.9": false, "http://localhost.evil.example": false, "file://": false,
		"chrome-extension://localhost": false,
	} {
		for _, token := range []string{"", homeToken} {
			headers := []string{"Origin", origin, "Authorization", "Bearer " + clientKey}
			if token != "" {
				headers = append(headers, "X-Paceline-Token", token)
			}
			if res := g.do(t, "POST", "/own/v1/chat/completions", chat, headers...); ok != (res.StatusCode == 200) || !ok && !strings.Contains(res.body, "allowHosts") {
				t.Errorf("%s, token %q: %s %s", origin, token, res.Status, res.body)
			}
		}
	}
	if res := g.do(t, "GET", "/own/v1/models", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"); res.StatusCode != 403 {
		t.Errorf("an image of another site: %s", res.Status)
	}
}

// Every Origin of a request is judged.
func TestSeveralOrigins(t *testing.T) {
	g := newRig(t, nil)
	for _, origins := range [][2]string{{"http://localhost:1", "https://evil.example"}, {"", "https://evil.example"}} {
		if res := g.do(t, "POST", "/own/v1/chat/completions", chat, "Origin", origins[0], "Origin", origins[1]); res.StatusCode != 403 {
			t.Errorf("%q: %s", origins, res.Status)
		}
	}
	if g.count() > 0 {
		t.Error("it reached the provider")
	}
}

// A token is taken in each of its places, and goes no further in any. Report
// BerriAI/litellm#38114.
func TestTokens(t *testing.T) {
	g := newRig(t, nil)
	for _, c := range []struct {
		path    string
		headers []string
		key     string // that the provider sees
	}{
		{"/stored/v1/chat/completions", []string{"X-Paceline-Token", homeToken}, storedKey},
		{"/stored/v1/chat/completions", []string{"Authorization", "Bearer " + homeToken}, storedKey},
		{"/stored/v1/chat/completions", []string{"Authorization", "bearer  pcl_team0123456789"}, storedKey},
		{"/stored/v1/chat/completions", []string{"X-Api-Key", homeToken}, storedKey},
		{"/stored/v1/chat/completions", []string{"X-Goog-Api-Key", homeToken}, storedKey},
		{"/stored/v1/chat/completions?a=1&key=" + homeToken + "&b=2", nil, storedKey},
		{"/stored/v1/chat/completions?a=1&key=%70cl_home0123456789&b=2", nil, storedKey},
		{"/~" + homeToken + "/stored/v1/chat/completions", nil, storedKey},
		{"/~pcl_batch0123456789/own/v1/chat/completions", []string{"Authorization", "Bearer " + clientKey}, clientKey},
		{"/own/v1/chat/completions", []string{"Authorization", "Bearer " + clientKey, "X-Paceline-Token", "pcl_batch0123456789"}, clientKey},
		// The client's own key is not replaced.
		{"/stored/v1/chat/completions", []string{"Authorization", "Bearer " + clientKey, "X-Paceline-Token", homeToken}, clientKey},
		// Headers that are nobody's place.
		{"/own/v1/chat/completions", []string{"X-Custom-Internal", homeToken, "Cookie", "t=" + homeToken, "Authorization", "Bearer " + clientKey,
			"Ocp-Apim-Subscription-Key", "Bearer " + homeToken, "X-Kept", "1"}, clientKey},
	} {
		before := g.count()
		res := g.do(t, "POST", c.path, chat, c.headers...)
		r, _ := g.last()
		if res.StatusCode != 200 || g.count() != before+1 {
			t.Errorf("%s %v: %s %s", c.path, c.headers, res.Status, res.body)
			continue
		}
		if got := r.Header.Get("Authorization"); got != "Bearer "+c.key {
			t.Errorf("%s %v: the provider got %q", c.path, c.headers, got)
		}
		if strings.Contains(r.URL.RawQuery, "a=1") && r.URL.RawQuery != "a=1&b=2" {
			t.Errorf("the query became %q", r.URL.RawQuery)
		}
		if seen := dump(r); strings.Contains(seen, "pcl_") {
			t.Errorf("%s %v: a token went further:\n%s", c.path, c.headers, seen)
		}
	}
}

// dump is everything of a request that its provider saw.
func dump(r *http.Request) string {
	var b strings.Builder
	b.WriteString(r.RequestURI + "\n")
	r.Header.Write(&b)
	return b.String()
}

func TestTokensRefused(t *testing.T) {
	g := newRig(t, nil)
	for _, c := range []struct {
		path    string
		headers []string
		status  int
		says    string
	}{
		{"/own/v1/chat/completions", []string{"X-Paceline-Token", "pcl_wrong"}, 401, "none of this proxy"},
		{"/own/v1/chat/completions", []string{"X-Paceline-Token", "other"}, 401, "none of this proxy"},
		{"/own/v1/chat/completions", []string{"Authorization", "Bearer pcl_wrong"}, 401, "none of this proxy"},
		{"/~pcl_wrong/own/v1/chat/completions", nil, 401, "none of this proxy"},
		{"/~/own/v1/chat/completions", nil, 400, "lacks the token"},
		{"/own/v1/chat/completions", []string{"X-Paceline-Token", homeToken, "X-Api-Key", "pcl_wrong"}, 401, "none of this proxy"},
		{"/stored/v1/chat/completions", []string{"X-Paceline-Token", "pcl_batch0123456789"}, 403, "not for stored: it may use own"},
		{"/own/v1/pcl_home0123456789/x", nil, 400, "/~TOKEN/PROVIDER"},
		{"/anthropic/v1/messages", []string{"X-Api-Key", homeToken}, 401, "providers: {anthropic: {apiKey"},
		{"/openai/v1/chat/completions", []string{"X-Api-Key", "sk-ant-x"}, 400, "with /anthropic"},
		{"/v1/chat/completions", []string{"Authorization", "Bearer sk-or-v1-x"}, 400, "with /openrouter"},
		{"/v1/messages", []string{"X-Api-Key", "gsk_x"}, 400, "with /groq"},
		{"/openai/v1/chat/completions?key=AIzaX", nil, 400, "with /gemini"},
	} {
		res := g.do(t, "POST", c.path, chat, c.headers...)
		if res.StatusCode != c.status || !strings.Contains(res.body, c.says) {
			t.Errorf("%s %v: %s %s, want %d %q", c.path, c.headers, res.Status, res.body, c.status, c.says)
		}
		if strings.Contains(res.body, "pcl_wrong") || strings.Contains(res.body, homeToken) {
			t.Errorf("%s: the refusal repeats a token: %s", c.path, res.body)
		}
	}
	if g.count() > 0 {
		t.Error("a refused request reached the provider")
	}
	// An entry of the file at an address of its own may take whatever its user
	// sends there by name.
	if res := g.do(t, "POST", "/own/v1/chat/completions", chat, "X-Api-Key", "sk-ant-x"); res.StatusCode != 200 {
		t.Errorf("by name: %s %s", res.Status, res.body)
	}
}

// A stored key is for whoever we know: the same user over loopback, or a token.
func TestStoredKey(t *testing.T) {
	g := newRig(t, nil)
	res := g.do(t, "POST", "/stored/v1/chat/completions", chat)
	if runtime.GOOS == "linux" {
		if r, _ := g.last(); res.StatusCode != 200 || r.Header.Get("Authorization") != "Bearer "+storedKey {
			t.Errorf("the same user: %s %s", res.Status, res.body)
		}
	}
	// A server that does not know its connections' users knows nobody.
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := g.Server()
	s.ConnContext = nil
	go s.Serve(l)
	defer s.Close()
	before := g.count()
	res = g.do(t, "POST", "http://"+l.Addr().String()+"/stored/v1/chat/completions", chat)
	if res.StatusCode != 401 || !strings.Contains(res.body, "show a token") || g.count() != before {
		t.Errorf("an unknown user: %s %s", res.Status, res.body)
	}
}

func TestUnixSocket(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("peers are known on Linux")
	}
	g := newRig(t, nil)
	path := filepath.Join(t.TempDir(), "s")
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := g.Server()
	go s.Serve(l)
	defer s.Close()
	c := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}}}
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://localhost/stored/v1/chat/completions", strings.NewReader(chat))
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if r, _ := g.last(); res.StatusCode != 200 || r.Header.Get("Authorization") != "Bearer "+storedKey {
		t.Errorf("got %s", res.Status)
	}
}

// Away from loopback nothing is answered without a token, but for health.
func TestOtherAddresses(t *testing.T) {
	g := newRig(t, nil)
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	outside := ""
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			outside = n.IP.String()
		}
	}
	if outside == "" {
		t.Skip("this machine has no other address")
	}
	url := g.serve(t, outside+":0")
	for _, path := range []string{"/own/v1/models", "/stats", "/ui", "/metrics", "/", "/stored/v1/models"} {
		res := g.do(t, "GET", url+path, "", "Authorization", "Bearer "+clientKey)
		if res.StatusCode != 401 || !strings.Contains(res.body, "tokens: [{name: NAME, value: file:PATH}]") {
			t.Errorf("%s: %s %s", path, res.Status, res.body)
		}
		if res := g.do(t, "GET", url+path, "", "X-Paceline-Token", "pcl_team0123456789"); res.StatusCode != 200 {
			t.Errorf("%s with a token: %s %s", path, res.Status, res.body)
		}
	}
	for _, path := range []string{"/health", "/ready"} {
		if res := g.do(t, "GET", url+path, ""); res.StatusCode != 200 {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
}

// NAME/model goes to the provider of that name, where the file gives it a key
// and the client brought none.
func TestModelNamesProvider(t *testing.T) {
	g := newRig(t, nil)
	const named = `{"model":"stored/big","messages":[]}`
	g.do(t, "POST", "/v1/chat/completions", named, "Authorization", "Bearer "+homeToken, "X-Custom-Internal-Secret", "CANARY", "Cookie", "CANARY")
	r, body := g.last()
	if r == nil || r.Header.Get("Authorization") != "Bearer "+storedKey || g.records[0].Provider != "stored" {
		t.Fatalf("got %v", r)
	}
	if body != `{"model":"big","messages":[]}` {
		t.Errorf("the body became %s", body)
	}
	// Report NVIDIA-NeMo/Switchyard#410: what was not meant for it stays here.
	if seen := dump(r); strings.Contains(seen, "CANARY") && !strings.Contains(seen, storedKey) || r.Header.Get("X-Custom-Internal-Secret") != "" || r.Header.Get("Cookie") != "" {
		t.Errorf("the provider got\n%s", seen)
	}
	for _, c := range []struct{ path, key, body string }{
		{"/v1/chat/completions", clientKey, named},                    // a key of its own goes to the default
		{"/own/v1/chat/completions", clientKey, named},                // the path says another
		{"/v1/chat/completions", clientKey, `{"model":"own/big"}`},    // own has no key
		{"/v1/chat/completions", clientKey, `{"model":"nobody/big"}`}, // nobody is there
	} {
		g.do(t, "POST", c.path, c.body, "Authorization", "Bearer "+c.key)
		if r, body := g.last(); r.Header.Get("Authorization") != "Bearer "+c.key || body != c.body || g.records[len(g.records)-1].Provider != "own" {
			t.Errorf("%+v: %q with %q", c, body, r.Header.Get("Authorization"))
		}
	}
}

func TestWhoCalls(t *testing.T) {
	g := newRig(t, nil, func(c *config.Config) {
		c.Clients = map[string]config.Client{"night": {Priority: "background", MaxWait: 4 * time.Hour}}
	})
	for _, c := range []struct {
		path             string
		headers          []string
		client, priority string
	}{
		{"/as/night/own/v1/responses", nil, "night", "background"},
		{"/as/night,priority=interactive/own/v1/responses", nil, "night", "interactive"},
		{"/as/day/own/v1/responses", []string{"X-Paceline-Client", "night"}, "day", "normal"},
		{"/own/v1/responses", []string{"X-Paceline-Client", "night", "X-Paceline-Token", "pcl_batch0123456789"}, "night", "background"},
		{"/own/v1/responses", []string{"X-Paceline-Token", "pcl_batch0123456789", "Session-Id", "s"}, "batch", "background"},
		{"/own/v1/responses", []string{"X-Paceline-Token", "pcl_batch0123456789", "X-Paceline-Priority", "normal"}, "batch", "normal"},
		{"/own/v1/responses", []string{"X-Claude-Code-Session-Id", "c1", "Session-Id", "s"}, "c1", "normal"},
		{"/own/v1/responses", []string{"Session-Id", "s"}, "s", "normal"},
		{"/own/v1/responses", []string{"User-Agent", "sdk/1"}, "127.0.0.1 sdk/1", "normal"},
		// A hop-by-hop header takes nothing away.
		{"/as/night/own/v1/responses", []string{"Connection", "X-Paceline-Client, X-Paceline-Priority"}, "night", "background"},
	} {
		res := g.do(t, "POST", c.path, chat, c.headers...)
		if len(g.records) == 0 || res.StatusCode != 200 {
			t.Fatalf("%+v: %s %s", c, res.Status, res.body)
		}
		if r := g.records[len(g.records)-1]; r.Client != c.client || r.Priority != c.priority {
			t.Errorf("%s %v: client %q, priority %q", c.path, c.headers, r.Client, r.Priority)
		}
	}
	for _, bad := range [][]string{
		{"X-Paceline-Priority", "urgent"}, {"X-Paceline-Max-Wait", "soon"}, {"X-Paceline-Max-Wait", "-1s"},
		{"X-Paceline-Wait-For-Capacity", "yes"}, {"X-Paceline-Quota", "x"}, {"X-Paceline-Client", strings.Repeat("x", 300)},
	} {
		if res := g.do(t, "POST", "/own/v1/responses", chat, bad...); res.StatusCode != 400 || !strings.Contains(res.body, bad[0]) {
			t.Errorf("%v: %s %s", bad, res.Status, res.body)
		}
	}
}

// maximhq/bifrost#3954: a provider that sends our key back does not hand it to
// the client.
func TestEchoedKey(t *testing.T) {
	g := newRig(t, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Goog-Api-Key", storedKey)
		h.Set("Authorization", r.Header.Get("Authorization"))
		h.Set("Location", "https://elsewhere.test/x?key="+storedKey)
		h.Set("X-Debug", "got "+storedKey)
		h.Set("X-Kept", "1")
		w.WriteHeader(302)
	})
	res := g.do(t, "GET", "/stored/v1/files/x", "", "X-Paceline-Token", homeToken)
	var seen strings.Builder
	res.Header.Write(&seen)
	if strings.Contains(seen.String(), "CANARY") || res.StatusCode != 302 || res.Header.Get("X-Kept") != "1" {
		t.Errorf("%s\n%s", res.Status, &seen)
	}
}

// RockChinQ/free-one-api#144: no key and no token in anything the proxy says of
// itself.
func TestSecretsAreNotShown(t *testing.T) {
	status := 200
	g := newRig(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) })
	for _, status = range []int{200, 401, 400} {
		g.do(t, "POST", "/stored/v1/chat/completions", chat, "Authorization", "Bearer "+homeToken)
		g.do(t, "POST", "/own/v1/chat/completions", chat, "Authorization", "Bearer "+clientKey)
	}
	g.provider.Close()
	said := g.do(t, "POST", "/stored/v1/chat/completions?key="+homeToken, chat).body
	said += g.do(t, "POST", "/own/v1/chat/completions?key="+clientKey, chat).body
	for _, path := range []string{"/stats", "/metrics", "/ui", "/", "/stored", "/health"} {
		said += g.do(t, "GET", path, "", "X-Paceline-Token", homeToken).body
	}
	logged := g.said.String()
	if !strings.Contains(logged, "a request got no answer") {
		t.Errorf("the log has only %q", logged)
	}
	said += logged
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.records {
		b, err := r.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		said += string(b)
	}
	if strings.Contains(said, "CANARY") || strings.Contains(said, "pcl_") {
		t.Errorf("a secret is in:\n%s", said)
	}
}

// Bad configurations are not taken.
func TestSetConfigRefuses(t *testing.T) {
	g := newRig(t, nil)
	for _, f := range []func(*config.Config){
		func(c *config.Config) { c.Tokens = []config.Token{{Name: "x", Value: "sk-x"}} },
		func(c *config.Config) {
			c.Providers = []config.Provider{{Provider: paceline.Provider{Name: "stats", BaseURL: "http://x.test"}}}
		},
		func(c *config.Config) {
			c.Providers = []config.Provider{{Provider: paceline.Provider{Name: "v1", BaseURL: "http://x.test"}}}
		},
		func(c *config.Config) { c.Providers = []config.Provider{{Provider: paceline.Provider{Name: "x"}}} },
	} {
		c := config.Default()
		f(c)
		if err := g.SetConfig(c); err == nil {
			t.Errorf("taken: %+v", c)
		}
	}
	if res := g.do(t, "GET", "/own/v1/models", ""); res.StatusCode != 200 {
		t.Errorf("the old one is gone: %s", res.Status)
	}
}

// Of several stored keys a request takes the one with the most left, a refused
// one is set aside and its request repeated with another at once, and a
// conversation stays with its own. A client's own key is never replaced.
func TestSeveralKeys(t *testing.T) {
	g := newRig(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer sk-two" {
			w.Header().Set("Retry-After", "3000")
			w.WriteHeader(429)
		}
	}, func(c *config.Config) {
		c.Providers[1].Credentials = []paceline.Credential{{Key: "sk-one"}, {Key: "sk-two"}, {Key: "sk-three"}}
	})
	ask := func(body string, headers ...string) string {
		res := g.do(t, "POST", "/stored/v1/chat/completions", body, append(headers, "X-Paceline-Token", homeToken)...)
		if res.StatusCode != 200 {
			t.Errorf("%s %s", res.Status, res.body)
		}
		r, _ := g.last()
		return r.Header.Get("Authorization")
	}
	for range 9 {
		ask(chat)
	}
	g.mu.Lock()
	used := make(map[string]int)
	for _, r := range g.arrived {
		used[r.Header.Get("Authorization")]++
	}
	g.mu.Unlock()
	if used["Bearer sk-one"] < 4 || used["Bearer sk-two"] != 1 || used["Bearer sk-three"] < 4 {
		t.Errorf("used %v", used)
	}
	for _, said := range [][]string{{chat, "X-Paceline-Run", "r"}, {`{"model":"m","prompt_cache_key":"c"}`}, {`{"model":"m","metadata":{"user_id":"u"}}`}} {
		first := ask(said[0], said[1:]...)
		for range 3 {
			ask(chat)
			if again := ask(said[0], said[1:]...); again != first {
				t.Errorf("the conversation of %s went from %s to %s", said, first, again)
			}
		}
	}
	g.do(t, "POST", "/stored/v1/chat/completions", chat, "Authorization", "Bearer "+clientKey)
	if r, _ := g.last(); r.Header.Get("Authorization") != "Bearer "+clientKey {
		t.Errorf("a client's own key became %s", r.Header.Get("Authorization"))
	}
}

// An entry that has a provider's name and an address of its own, a gateway say,
// takes that provider's keys by the API's path too, and nobody else's.
func TestKeysOfARenamedAddress(t *testing.T) {
	g := newRig(t, nil, func(c *config.Config) {
		c.DefaultProvider.Anthropic = "anthropic"
		for i := range c.Providers {
			if c.Providers[i].Name == "own" {
				c.Providers[i].Name = "anthropic"
			}
		}
	})
	if res := g.do(t, "POST", "/v1/messages", chat, "X-Api-Key", "sk-ant-x"); res.StatusCode != 200 {
		t.Errorf("its own key: %s %s", res.Status, res.body)
	}
	if res := g.do(t, "POST", "/v1/messages", chat, "X-Api-Key", "gsk_x"); res.StatusCode != 400 || !strings.Contains(res.body, "with /groq; where anthropic takes such keys, use the one with /anthropic") {
		t.Errorf("another's key: %s %s", res.Status, res.body)
	}
}
