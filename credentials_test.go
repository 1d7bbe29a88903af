package paceline_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/stub"
)

const canary = "sk-canary-0123456789abcdef"

// by names a credential for every request.
func by(credential string) func(*http.Request) ([]paceline.Route, error) {
	return func(*http.Request) ([]paceline.Route, error) {
		return []paceline.Route{{Credential: credential}}, nil
	}
}

// A configured key replaces the client's, and the records have its name.
// BerriAI/litellm#38114, NVIDIA-NeMo/Switchyard#410: no other secret goes along.
func TestConfiguredKey(t *testing.T) {
	var got *http.Request
	r := newRig(t, stub.Config{}, paceline.Provider{Credentials: []paceline.Credential{{Name: "main", Key: canary}, {Name: "spare", Key: "sk-spare-0123456789"}}})
	r.Base = sink(func(req *http.Request) (*http.Response, error) {
		got = req
		return answer(200, nil, "{}"), nil
	})
	r.Route = by("main")
	req := request(t.Context(), "POST", base+"/chat/completions?key=client-secret-1&x=1", `{}`,
		"X-Api-Key", "client-secret-2", "X-Custom-Internal-Secret", "client-secret-3", "X-Echo", "sk-test-client-secret", "Authorization", "Bearer sk-test-client-secret")
	res, err := r.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if got.Header.Get("Authorization") != "Bearer "+canary || got.URL.RawQuery != "x=1" || strings.Contains(fmt.Sprint(got.Header), "client-secret") {
		t.Errorf("sent %s with %v", got.URL, got.Header)
	}
	if res.Request != req || req.Header.Get("Authorization") != "Bearer sk-test-client-secret" || req.URL.RawQuery == "x=1" {
		t.Errorf("the request was changed: %s %v", req.URL, req.Header)
	}
	if rec := r.logged()[0]; rec.Credential != "main" {
		t.Errorf("the record names %q", rec.Credential)
	}
	r.Route = by("")
	r.chat(t.Context()).want(t, 200)
	if got.Header.Get("Authorization") != "Bearer sk-test" {
		t.Errorf("as sent: %v", got.Header)
	}
	r.Route = by("other")
	if a := r.chat(t.Context()); a.err == nil || !strings.Contains(a.err.Error(), `provider "test" has no credential "other"`) {
		t.Errorf("an unknown credential: %v", a.err)
	}
}

// RockChinQ/free-one-api#144: whatever happens, neither a configured key nor a
// client's is in a record, a log, an error, the status or in how the
// configuration prints.
func TestKeysAreNeverShown(t *testing.T) {
	var out bytes.Buffer
	show := func(v any) { fmt.Fprintf(&out, "%v %+v %#v %s %q %x %d\n", v, v, v, v, v, v, v) }
	const client = "sk-client-canary-0123456789"
	for name, base := range map[string]func(req *http.Request) (*http.Response, error){
		"success":  func(*http.Request) (*http.Response, error) { return answer(200, nil, "{}"), nil },
		"rejected": func(*http.Request) (*http.Response, error) { return answer(401, nil, "{}"), nil },
		"refused": func(*http.Request) (*http.Response, error) {
			return answer(429, http.Header{"Retry-After": {"3600"}}, "{}"), nil
		},
		"too long a wait": func(*http.Request) (*http.Response, error) {
			return answer(429, http.Header{"Retry-After": {"999999999"}}, "{}"), nil
		},
		"lost": func(req *http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("sending %v to %s failed", req.Header, req.URL)
		},
		"cut": func(req *http.Request) (*http.Response, error) {
			res := answer(200, nil, "")
			res.Body = io.NopCloser(io.MultiReader(strings.NewReader("{"), erring{fmt.Errorf("reading for %v", req.Header)}))
			return res, nil
		},
	} {
		for _, credential := range []string{"main", ""} {
			tr := &paceline.Transport{
				Base: sink(base), Limiter: memory.New(), Route: by(credential),
				Providers: []paceline.Provider{{Name: "test", BaseURL: "http://provider.test", Retry: paceline.Retry{Max: -1, Max5xx: -1},
					Credentials: []paceline.Credential{{Name: "main", Key: canary}}}},
				Log:    func(r paceline.Record) { json.NewEncoder(&out).Encode(r); show(r) },
				Logger: slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})),
			}
			for range 2 { // the second meets the pause of the first
				req := request(t.Context(), "POST", "http://provider.test/v1/chat/completions", "{}", "Authorization", "Bearer "+client)
				res, err := tr.RoundTrip(req)
				fmt.Fprintf(&out, "%s: %v\n", name, err)
				if err != nil {
					continue
				}
				b, err := io.ReadAll(res.Body)
				res.Body.Close()
				fmt.Fprintf(&out, "%v %s %v\n", res.Header, b, err)
				if name == "cut" && err == nil {
					t.Error("the cut was not seen")
				}
			}
			show(tr.Status())
			json.NewEncoder(&out).Encode(tr.Status())
			show(tr)
			show(tr.Providers)
			json.NewEncoder(&out).Encode(tr.Providers)
			tr.Logger.Info("providers", "providers", tr.Providers, "credential", tr.Providers[0].Credentials[0])
		}
	}
	for _, bad := range []string{"", canary + "\n", canary + " x"} {
		_, err := (&paceline.Transport{Providers: []paceline.Provider{{Name: "openai", Credentials: []paceline.Credential{{Key: bad}}}}}).
			RoundTrip(request(t.Context(), "POST", base+"/x", ""))
		fmt.Fprintln(&out, err)
		if err == nil || !strings.Contains(err.Error(), "key") {
			t.Errorf("the key %q: %v", bad, err)
		}
	}
	for _, secret := range []string{canary, client, fmt.Sprintf("%x", canary)} {
		if at := strings.Index(out.String(), secret); at >= 0 {
			t.Errorf("%s is shown: …%s", secret, out.String()[max(0, at-300):at+len(secret)])
		}
	}
	if !strings.Contains(out.String(), "[key]") {
		t.Error("no error had a key to hide")
	}
}

type erring struct{ err error }

func (f erring) Read([]byte) (int, error) { return 0, f.err }

// maximhq/bifrost#3954: a redirect is handed back, not followed with the key,
// and an answer that echoes the key does not show it.
func TestRedirectsAreNotFollowed(t *testing.T) {
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("Location", "https://elsewhere.test/?key="+canary)
		w.Header().Set("X-Goog-Api-Key", canary)
		w.Header().Set("X-Other", "kept")
		w.WriteHeader(302)
	}))
	defer s.Close()
	tr := &paceline.Transport{Limiter: memory.New(), Route: by("main"),
		Providers: []paceline.Provider{{Name: "test", BaseURL: s.URL, Credentials: []paceline.Credential{{Name: "main", Key: canary}}}}}
	res, err := tr.RoundTrip(request(t.Context(), "POST", s.URL+"/v1/chat/completions", "{}"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 302 || asked != 1 || res.Header.Get("X-Other") != "kept" || strings.Contains(fmt.Sprint(res.Header), canary) {
		t.Errorf("asked %d times, came to %d %v", asked, res.StatusCode, res.Header)
	}
}

// A configured key goes to its own provider's server alone, over the scheme of
// its base URL.
func TestKeyStaysAtItsProvider(t *testing.T) {
	tr := &paceline.Transport{
		Base:    sink(func(*http.Request) (*http.Response, error) { t.Error("sent"); return answer(200, nil, ""), nil }),
		Limiter: memory.New(),
		Route: func(*http.Request) ([]paceline.Route, error) {
			return []paceline.Route{{Provider: "test", Credential: "main"}}, nil
		},
		Providers: []paceline.Provider{{Name: "test", BaseURL: "https://provider.test", Credentials: []paceline.Credential{{Name: "main", Key: canary}}}},
	}
	for _, u := range []string{"https://elsewhere.test/v1/chat/completions", "http://provider.test/v1/chat/completions", "https://provider.test:8443/v1/chat/completions"} {
		_, err := tr.RoundTrip(request(t.Context(), "POST", u, "{}"))
		if err == nil || !strings.Contains(err.Error(), "goes to provider.test alone") {
			t.Errorf("%s: %v", u, err)
		}
	}
}

// Credentials of one account share its limits, others do not, whether the
// client sends a configured key or a Route names it.
func TestAccountsShareLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stub.Config{}, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 60, WindowSlack: -1}, Credentials: []paceline.Credential{
			{Name: "a", Key: "sk-aaaaaaaa", Account: "team"}, {Name: "b", Key: "sk-bbbbbbbb", Account: "team"}, {Name: "c", Key: "sk-cccccccc"}}})
		start := time.Now()
		r.Route = func(req *http.Request) ([]paceline.Route, error) {
			return []paceline.Route{{Credential: req.Header.Get("X-Use")}}, nil
		}
		for _, use := range []string{"a", "b", "c"} {
			r.chat(t.Context(), "X-Use", use).want(t, 200)
		}
		r.chat(t.Context(), "Authorization", "Bearer sk-bbbbbbbb").want(t, 200)
		wantInstants(t, r.sent(start), 0, sec, sec, 2*sec)
		for i, want := range []string{"a team", "b team", "c ", "b team"} {
			if rec := r.logged()[i]; rec.Credential+" "+rec.Account != want {
				t.Errorf("record %d is of %q, account %q; want %q", i, rec.Credential, rec.Account, want)
			}
		}
	})
}

// With a store, a credential has one name for all processes and restarts.
func TestCredentialNamesLast(t *testing.T) {
	store := &mapStore{}
	process := func() *rig {
		r := newRig(t, stub.Config{}, paceline.Provider{})
		r.Store = store
		return r
	}
	name := func(r *rig, key string) string {
		r.chat(t.Context(), "Authorization", "Bearer "+key).want(t, 200)
		all := r.logged()
		return all[len(all)-1].Credential
	}
	a := process()
	if first, second := name(a, "sk-one"), name(a, "sk-two"); first != "test#1" || second != "test#2" {
		t.Errorf("named %q and %q", first, second)
	}
	b := process()
	if got := name(b, "sk-three") + " " + name(b, "sk-two") + " " + name(b, "sk-one"); got != "test#3 test#2 test#1" {
		t.Errorf("after a restart: %s", got)
	}
	// A store that fails costs the names nothing but their lasting.
	store.err = errors.New("read-only")
	if got := name(process(), "sk-two"); got != "test#1" {
		t.Errorf("without a store: %s", got)
	}
}

func TestKeyOf(t *testing.T) {
	for key, want := range map[string]string{
		"sk-ant-api03-x": "anthropic", "sk-or-v1-x": "openrouter", "sk-proj-x": "openai", "gsk_x": "groq", "AIzaSyx": "gemini",
		"xai-x": "xai", "pplx-x": "perplexity", "nvapi-x": "nvidia", "hf_x": "huggingface", "csk-x": "cerebras", "fw_x": "fireworks",
		"tgp_v1_x": "together", "github_pat_x": "github", "ghp_x": "github", "sk-x": "", "": "", "pcl_x": "", "AIz": "",
	} {
		if got := paceline.KeyOf(key); got != want {
			t.Errorf("%q is of %q, want %q", key, got, want)
		}
	}
	names := map[string]bool{"": true}
	for _, p := range paceline.BuiltIn() {
		names[p.Name] = true
	}
	for _, key := range []string{"sk-ant-", "sk-or-", "sk-proj-", "gsk_", "AIza", "xai-", "pplx-", "nvapi-", "hf_", "csk-", "fw_", "tgp_v1_", "ghp_"} {
		if !names[paceline.KeyOf(key)] {
			t.Errorf("%q is of %q, which is not built in", key, paceline.KeyOf(key))
		}
	}
}

// A Route's model is asked for instead of the body's, in every attempt and
// however the body comes, and the rest of the body stays as it is.
func TestRouteModel(t *testing.T) {
	const doc, want = `{"stream" : false,"model":"small", "messages":[{"content":"model"}]}`, `{"stream" : false,"model":"Big/One", "messages":[{"content":"model"}]}`
	long := doc + strings.Repeat(" ", 4000)
	for name, tt := range map[string]struct {
		body  func() io.Reader
		most  int64
		tail  string
		sends int
	}{
		"with GetBody":            {func() io.Reader { return strings.NewReader(doc) }, 0, "", 2},
		"kept":                    {func() io.Reader { return io.MultiReader(strings.NewReader(doc)) }, 0, "", 2},
		"long, with GetBody":      {func() io.Reader { return strings.NewReader(long) }, 1000, long[len(doc):], 2},
		"longer than can be kept": {func() io.Reader { return io.MultiReader(strings.NewReader(long)) }, 1000, long[len(doc):], 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, stub.Config{}, paceline.Provider{})
				r.MaxReplayBytes = tt.most
				r.Route = func(*http.Request) ([]paceline.Route, error) { return []paceline.Route{{Model: "Big/One"}}, nil }
				var got []string
				r.Base = sink(func(req *http.Request) (*http.Response, error) {
					b, err := io.ReadAll(req.Body)
					if err != nil || req.ContentLength > 0 && int64(len(b)) != req.ContentLength {
						t.Errorf("%d bytes of %d, %v", len(b), req.ContentLength, err)
					}
					got = append(got, string(b))
					if len(got) == 1 {
						return answer(429, http.Header{"Retry-After": {"1"}}, "{}"), nil
					}
					return answer(200, nil, "{}"), nil
				})
				req, err := http.NewRequestWithContext(t.Context(), "POST", base+"/chat/completions", tt.body())
				if err != nil {
					t.Fatal(err)
				}
				res, err := r.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				if len(got) != tt.sends {
					t.Errorf("sent %d times, want %d", len(got), tt.sends)
				}
				for _, b := range got {
					if b != want+tt.tail {
						t.Errorf("sent %.200q", b)
					}
				}
				if rec := r.logged()[0]; rec.Model != "Big/One" {
					t.Errorf("the record's model is %q", rec.Model)
				}
			})
		})
	}
	r := newRig(t, stub.Config{}, paceline.Provider{})
	r.Route = func(*http.Request) ([]paceline.Route, error) { return []paceline.Route{{Model: "big"}}, nil }
	_, err := r.RoundTrip(request(context.Background(), "POST", base+"/chat/completions", "--boundary"))
	if err == nil || !strings.Contains(err.Error(), `must be JSON with a "model"`) {
		t.Errorf("a body without a model: %v", err)
	}
	res, err := r.RoundTrip(request(context.Background(), "POST", base+"/files", "--boundary"))
	if err != nil {
		t.Fatalf("what generates nothing keeps its body: %v", err)
	}
	res.Body.Close()
}
