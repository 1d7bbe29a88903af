package proxy

import (
	"net/url"
	"strings"
	"testing"
)

func TestParsePath(t *testing.T) {
	for _, c := range []struct {
		path, token, name, rest string
		as                      string // the client
	}{
		{"/openai/v1/chat/completions", "", "openai", "/v1/chat/completions", ""},
		{"/openai", "", "openai", "", ""},
		{"/openai/", "", "openai", "/", ""},
		{"//openai//v1/models", "", "openai", "/v1/models", ""},
		{"/v1/models", "", "", "/v1/models", ""},
		{"/v1beta/models/m:generateContent", "", "", "/v1beta/models/m:generateContent", ""},
		{"/", "", "", "/", ""},
		{"/as/night/openai/v1/models", "", "openai", "/v1/models", "night"},
		{"/as/night,priority=background/~pcl_x/v1/models", "pcl_x", "", "/v1/models", "night"},
		{"/~pcl_x/as/a%20b/groq/chat", "pcl_x", "groq", "/chat", "a b"},
		{"/~pcl_x", "pcl_x", "", "/", ""},
		// Bytes stay: escaped slashes, dots, doubled slashes further on.
		{"/own/models/a%2Fb/./c//d", "", "own", "/models/a%2Fb/./c//d", ""},
		{"/own/files/x/../y", "", "own", "/files/x/../y", ""},
	} {
		got, err := parsePath(c.path)
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		if got.rest == "" && c.rest == "/" {
			got.rest = "/"
		}
		if got.token != c.token || got.name != c.name || got.rest != c.rest || got.as["X-Paceline-Client"] != c.as {
			t.Errorf("%s: got %+v, want %+v", c.path, got, c)
		}
	}
	all, err := parsePath("/as/n,priority=background,max-wait=90s,run=r1,quota=wait/openai")
	if err != nil || all.as["X-Paceline-Priority"] != "background" || all.as["X-Paceline-Max-Wait"] != "90s" || all.as["X-Paceline-Run"] != "r1" {
		t.Errorf("got %+v, %v", all, err)
	}
}

func TestParsePathRefuses(t *testing.T) {
	for path, want := range map[string]string{
		"/as/n,colour=red/openai":        "with any of priority",
		"/as//openai":                    "/as/NAME",
		"/as/n/as/m/openai":              "two segments /as/",
		"/~pcl_a/~pcl_b/openai":          "two tokens",
		"/as/a%0d%0ab/openai":            "/as/NAME",
		"/openai/../../admin":            "leads out of the base URL",
		"/openai/%2e%2e/%2e%2e/admin":    "leads out of the base URL",
		"/openai/v1/..%2f..%2f..%2fx":    "leads out of the base URL",
		"/openai/..%5c..":                "leads out of the base URL",
		"/openai/%252e%252e/x":           "leads out of the base URL",
		"/openai/..;x=1/..;/etc":         "leads out of the base URL",
		"/v1/../../x":                    "leads out of the base URL",
		"/openai/a/b/../../../etc/x/y/z": "leads out of the base URL",
	} {
		if _, err := parsePath(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
}

func TestJoin(t *testing.T) {
	for _, c := range [][3]string{
		{"https://a.test/openai/v1", "/v1/chat/completions", "https://a.test/openai/v1/chat/completions"},
		{"https://a.test/openai/v1", "/openai/v1/chat/completions", "https://a.test/openai/v1/chat/completions"},
		{"https://a.test/openai/v1", "/chat/completions", "https://a.test/openai/v1/chat/completions"},
		{"https://a.test/openai/v1/", "/v1/v1/chat", "https://a.test/openai/v1/chat"},
		{"https://a.test", "/v1/messages", "https://a.test/v1/messages"},
		{"https://a.test/", "/v1/v1/messages", "https://a.test/v1/messages"},
		{"https://a.test/v1beta", "/v1beta/models/m:generateContent", "https://a.test/v1beta/models/m:generateContent"},
		{"https://a.test/v1", "/v2/chat", "https://a.test/v2/chat"},
		// mlhher/late-cli#72: the base URL's own version is not v1.
		{"https://a.test/api/paas/v4", "/v1/chat/completions", "https://a.test/api/paas/v4/chat/completions"},
		{"https://a.test/api/paas/v4", "/v1/v1/chat/completions", "https://a.test/api/paas/v4/chat/completions"},
		{"https://a.test/api/paas/v4", "/chat/completions", "https://a.test/api/paas/v4/chat/completions"},
		{"https://a.test/v1", "/models/a%2Fb", "https://a.test/v1/models/a%2Fb"},
		{"https://a.test/api/v1", "", "https://a.test/api/v1"},
		{"https://a.test/a%2Fb/v1", "/v1/x", "https://a.test/a%2Fb/v1/x"},
	} {
		base, err := url.Parse(c[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := join(base, c[1]).String(); got != c[2] {
			t.Errorf("%s + %s: got %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

// Whatever a path says, what goes out is below the base URL's host, and no
// token of ours is in it.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"/openai/v1/chat", "/as/x,priority=a/~pcl_x/v1/m", "/a/%2e%2e/..", "/~", "/as/", "/v1/%2F%2f//", "/%zz", "/own/v1/v1/v1"} {
		f.Add(s)
	}
	base, err := url.Parse("https://provider.test/api/v1")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || u.Host != "" {
			return
		}
		got, err := parsePath(u.EscapedPath())
		if err != nil {
			return
		}
		out := join(base, got.rest)
		if out.Host != "provider.test" || out.Scheme != "https" || !strings.HasPrefix(out.Path, "/") {
			t.Fatalf("%q became %v", path, out)
		}
		if again, err := url.Parse(out.String()); err != nil || again.Host != out.Host || again.EscapedPath() != out.EscapedPath() {
			t.Fatalf("%q became %v, which reads as %v (%v)", path, out, again, err)
		}
		for name, value := range got.as {
			if !strings.HasPrefix(name, "X-Paceline-") || !sendable(value) {
				t.Fatalf("%q says %s: %q", path, name, value)
			}
		}
	})
}

func FuzzHoldsToken(f *testing.F) {
	f.Add("Bearer pcl_x", "a=pcl_x&key=1")
	f.Fuzz(func(t *testing.T, a, b string) {
		if holdsToken(a) && !strings.Contains(a, tokenPrefix) {
			t.Fatalf("%q holds no token", a)
		}
		if !holdsToken(a + " " + tokenPrefix + b) {
			t.Fatalf("%q was not seen", a+" "+tokenPrefix+b)
		}
		// However it is escaped, and whatever stands beside it.
		for _, escaped := range []string{"pcl%5f", "%70cl_", "%2570cl_"} {
			if q := a + "%zz&" + escaped + b; !holdsToken(unescaped(q)) {
				t.Fatalf("%q was not seen", q)
			}
		}
	})
}
