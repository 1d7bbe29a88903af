package paceline_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/stub"
)

// A ring is a Transport with several keys, each in front of a stand-in provider
// of its own.
type ring struct {
	*rig
	stubs map[string]*stub.Stub // by key
}

// keyOf is the key of the credential of a name.
func keyOf(name string) string { return "sk-" + name + "-0123456789" }

// newRing declares a credential for each of some names.
func newRing(t *testing.T, p paceline.Provider, of func(name string) stub.Config, names ...string) *ring {
	t.Helper()
	r := &ring{stubs: make(map[string]*stub.Stub)}
	for _, name := range names {
		s, err := stub.New(of(name))
		if err != nil {
			t.Fatal(err)
		}
		r.stubs[keyOf(name)] = s
		p.Credentials = append(p.Credentials, paceline.Credential{Name: name, Key: keyOf(name)})
	}
	r.rig = newRig(t, stub.Config{}, p)
	r.Route = by(paceline.Any)
	r.Base = sink(func(req *http.Request) (*http.Response, error) {
		key := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
		s := r.stubs[key]
		if s == nil {
			t.Errorf("sent with the key %q", key)
			return answer(401, nil, "{}"), nil
		}
		return s.RoundTrip(req)
	})
	return r
}

// used lists the credentials of the attempts in order, with when each was sent.
func (r *ring) used(start time.Time) string {
	var all []string
	for _, rec := range r.logged() {
		if !rec.NotSent {
			all = append(all, fmt.Sprintf("%s@%gs", rec.Credential, rec.Sent.Sub(start).Seconds()))
		}
	}
	return strings.Join(all, " ")
}

func (r *ring) wantUsed(t *testing.T, start time.Time, want string) {
	t.Helper()
	if got := r.used(start); got != want {
		t.Errorf("sent with %s\nwant      %s", got, want)
	}
}

// scripted has each key answer by a script of its own.
func scripted(scripts map[string][]stub.Step) func(string) stub.Config {
	return func(name string) stub.Config { return stub.Config{Script: scripts[name]} }
}

func usual(string) stub.Config { return stub.Config{} }

// Three keys of 60 a minute give three times what one gives, without a refusal.
func TestKeysTogether(t *testing.T) {
	took := func(t *testing.T, n int, names ...string) (d time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			r := newRing(t, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 60, WindowSlack: -1}},
				func(string) stub.Config {
					return stub.Config{Meters: []stub.Meter{{Kind: stub.Rolling, Limit: 60, Per: time.Minute}}}
				}, names...)
			start := time.Now()
			for _, a := range r.together(n) {
				a.want(t, 200)
			}
			d = time.Since(start)
			for key, s := range r.stubs {
				if c := s.Counts(); c.Refused > 0 || c.Admitted != n/len(names) {
					t.Errorf("%s: %d admitted, %d refused; want %d", key, c.Admitted, c.Refused, n/len(names))
				}
			}
		})
		return d
	}
	one, three := took(t, 200, "a"), took(t, 600, "a", "b", "c")
	if one != 199*sec || three != one {
		t.Errorf("200 with one key took %v, 600 with three %v", one, three)
	}
}

// A refused key is set aside until its reset, and its request is repeated with
// another at once. zed-industries/zed#31531: the told wait is kept to the
// instant where it binds.
// each key has a budget of its own.
func TestRefusedKeyIsSetAside(t *testing.T) {
	spent := stub.Step{Status: 429, Wait: time.Hour, RetryAfter: stub.RetryAfterSeconds,
		Body: `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`}
	daily := stub.Step{Status: 429, Wait: 7*time.Minute + 12*sec, Body: `{"error":{"message":"You have reached your daily quota.","code":"daily_quota_exceeded"}}`}
	for name, tt := range map[string]struct {
		step  stub.Step
		class dialect.Class
		aside time.Duration
	}{
		"rate":     {told(50 * sec), dialect.RateLimited, 50 * sec},
		"too long": {told(time.Hour), dialect.QuotaExhausted, time.Hour},
		"billing":  {spent, dialect.Billing, time.Minute},
		"quota":    {daily, dialect.QuotaExhausted, 7*time.Minute + 12*sec},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRing(t, paceline.Provider{}, scripted(map[string][]stub.Step{"a": {tt.step}}), "a", "b")
				start := time.Now()
				first := r.chat(t.Context())
				first.want(t, 200)
				if first.took != 0 || first.header.Get("X-Paceline-Attempts") != "2" {
					t.Errorf("after %v in %s attempts", first.took, first.header.Get("X-Paceline-Attempts"))
				}
				r.wantUsed(t, start, "a@0s b@0s")
				if class := r.logged()[0].Class; class != tt.class {
					t.Errorf("class %s, want %s", class, tt.class)
				}
				until := time.Time{}
				for _, s := range r.Status() {
					if s.Credential == "a" {
						until = s.PausedUntil
					} else if s.Credential != "b" || !s.PausedUntil.IsZero() {
						t.Errorf("status of b: %+v", s)
					}
				}
				if aside := until.Sub(start); aside != tt.aside {
					t.Errorf("set aside until %v, want %v", aside, tt.aside)
				}
				time.Sleep(time.Until(until) - 1)
				r.chat(t.Context()).want(t, 200)
				time.Sleep(time.Minute + 1) // so that b was not used of late either
				r.chat(t.Context()).want(t, 200)
				if got := r.logged(); got[2].Credential != "b" || got[3].Credential != "a" {
					t.Errorf("before the reset %q, after it %q", got[2].Credential, got[3].Credential)
				}
			})
		})
	}
}

// Who waits for a key that is then paused goes to the line of another, in the
// order in which all came.
func TestWaitersLeaveAPausedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 2, Pacing: paceline.Burst, WindowSlack: -1}, Retry: paceline.Retry{MaxWait: 2 * time.Minute}},
			usual, "a", "b")
		slow := make(chan struct{})
		pass := r.Base
		r.Base = sink(func(req *http.Request) (*http.Response, error) {
			if req.Header.Get("X-Hold") != "" {
				<-slow
				return answer(429, http.Header{"Retry-After": {"600"}}, "{}"), nil
			}
			return pass.RoundTrip(req)
		})
		start := time.Now()
		var wg sync.WaitGroup
		go func() { time.Sleep(5 * sec); close(slow) }()
		wg.Go(func() { r.chat(t.Context(), "X-Hold", "1", "X-Paceline-Max-Wait", "0s", "X-Paceline-Run", "held") })
		synctest.Wait()
		for range 3 {
			wg.Go(func() { r.chat(t.Context()).want(t, 200) })
			synctest.Wait()
		}
		// All four starts of this minute are taken; these wait.
		for i := range 4 {
			time.Sleep(sec)
			wg.Go(func() { r.chat(t.Context(), "X-Paceline-Run", strconv.Itoa(i)).want(t, 200) })
		}
		synctest.Wait()
		if s := r.Status(); s[0].Waiting.Normal != 2 || s[1].Waiting.Normal != 2 {
			t.Errorf("%d and %d wait", s[0].Waiting.Normal, s[1].Waiting.Normal)
		}
		time.Sleep(2 * sec)
		synctest.Wait()
		if s := r.Status(); s[0].Waiting.Normal != 0 || s[1].Waiting.Normal != 4 {
			t.Errorf("after the pause %d and %d wait", s[0].Waiting.Normal, s[1].Waiting.Normal)
		}
		wg.Wait()
		var order []string
		for _, rec := range r.logged() {
			if rec.Run != "" && rec.Run != "held" {
				order = append(order, fmt.Sprintf("%s:%s@%v/%v", rec.Run, rec.Credential, rec.Sent.Sub(start), rec.Queued))
			}
		}
		slices.Sort(order) // those of one instant are logged in any order
		if got := strings.Join(order, " "); got != "0:b@1m0s/59s 1:b@1m0s/58s 2:b@2m0s/1m57s 3:b@2m0s/1m56s" {
			t.Errorf("went as %s", got)
		}
	})
}

// Where all keys are set aside, the one that opens first counts: it is waited
// for, or its refusal is handed back.
func TestSoonestKeyCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := scripted(map[string][]stub.Step{"a": {told(90 * sec)}, "b": {told(30 * sec)}, "c": {told(60 * sec)}})
		r := newRing(t, paceline.Provider{}, of, "a", "b", "c")
		start := time.Now()
		r.chat(t.Context()).want(t, 200)
		r.wantUsed(t, start, "a@0s b@0s c@0s b@30s")

		r = newRing(t, paceline.Provider{Retry: paceline.Retry{MaxWait: 10 * sec}}, of, "a", "b", "c")
		a := r.chat(t.Context())
		a.want(t, 429)
		if got := a.header; a.took != 0 || got.Get("Retry-After") != "30" || got.Get("X-Paceline-Attempts") != "3" || got.Get("X-Should-Retry") != "false" {
			t.Errorf("after %v: %v", a.took, got)
		}
		time.Sleep(5 * sec)
		a = r.chat(t.Context())
		a.want(t, 429)
		if got := a.header; a.took != 0 || got.Get("Retry-After") != "25" || got.Get("X-Paceline-Attempts") != "0" || got.Get("X-Paceline-Refused") != "pause" {
			t.Errorf("after %v: %v", a.took, got)
		}
		all := r.logged()
		if rec := all[len(all)-1]; !rec.NotSent || rec.Credential != "b" {
			t.Errorf("the record is %+v", rec)
		}
	})
}

// Keys of one account share its pause, so going from one to the other gains
// nothing; nor is a request tried more often for having several keys.
func TestKeysOfOneAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t, paceline.Provider{Account: "team"}, scripted(map[string][]stub.Step{"a": {told(10 * sec)}}), "a", "b")
		start := time.Now()
		r.chat(t.Context()).want(t, 200)
		r.wantUsed(t, start, "a@0s a@10s")

		refused := []stub.Step{told(sec)}
		r = newRing(t, paceline.Provider{Retry: paceline.Retry{Max: 1}}, scripted(map[string][]stub.Step{"a": refused, "b": refused, "c": refused}), "a", "b", "c")
		r.chat(t.Context()).want(t, 429)
		if n := len(r.logged()); n != 2 {
			t.Errorf("%d attempts", n)
		}
	})
}

// A conversation stays on its key until that is paused, and then on the other:
// the prompt is in a cache there.
func TestConversationsStay(t *testing.T) {
	for name, say := range map[string]func(id string) (body string, header []string){
		"run":  func(id string) (string, []string) { return `{"model":"m"}`, []string{"X-Paceline-Run", id} },
		"key":  func(id string) (string, []string) { return `{"model":"m","prompt_cache_key":"` + id + `"}`, nil },
		"user": func(id string) (string, []string) { return `{"model":"m","metadata":{"user_id":"` + id + `"}}`, nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				script := make([]stub.Step, 4) // as usual
				r := newRing(t, paceline.Provider{}, scripted(map[string][]stub.Step{"a": append(script, told(20*sec))}), "a", "b")
				key := func(id string) string {
					body, header := say(id)
					res, err := r.RoundTrip(request(t.Context(), "POST", base+"/chat/completions", body, header...))
					if err != nil {
						t.Fatal(err)
					}
					res.Body.Close()
					all := r.logged()
					return all[len(all)-1].Credential
				}
				got := ""
				for _, id := range []string{"x", "y", "x", "x", "y", "x"} {
					got += key(id)
				}
				if got != "abaaba" {
					t.Errorf("went with %s", got)
				}
				got = key("x") // is refused
				time.Sleep(90 * sec)
				if got += key("x") + key("z") + key("x"); got != "bbab" {
					t.Errorf("after the pause with %s", got)
				}
			})
		})
	}
}

// A conversation waits for its turn, though another key is free.
func TestConversationsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t, paceline.Provider{Limits: paceline.Limits{MaxPerMinute: 6, WindowSlack: -1}}, usual, "a", "b")
		start := time.Now()
		for range 3 {
			r.chat(t.Context(), "X-Paceline-Run", "x").want(t, 200)
		}
		// But not longer than its caller does.
		r.chat(t.Context(), "X-Paceline-Run", "x", "X-Paceline-Max-Wait", "5s").want(t, 200)
		r.wantUsed(t, start, "a@0s a@10s a@20s b@20s")
	})
}

// Where nothing is known of what is left, keys are used by their weights, one
// request at a time and many at once.
func TestWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		share := func(r *ring) map[string]int {
			used := make(map[string]int)
			for _, rec := range r.logged() {
				used[rec.Credential]++
			}
			return used
		}
		weighted := func(of func(string) stub.Config) *ring {
			r := newRing(t, paceline.Provider{Dialect: "ollama"}, of, "a", "b") // which tells nothing
			r.Providers[0].Credentials[1].Weight = 3
			return r
		}
		r := weighted(usual)
		for range 40 {
			r.chat(t.Context()).want(t, 200)
		}
		if used := share(r); used["a"] != 10 || used["b"] != 30 {
			t.Errorf("one at a time: %v", used)
		}
		r = weighted(func(string) stub.Config { return stub.Config{Service: time.Minute} })
		r.together(4) // both keys have been heard of
		r.together(40)
		// Those that choose at one instant may see the one before or not.
		if used := share(r); used["a"]+used["b"] != 44 || used["a"] < 9 || used["a"] > 13 {
			t.Errorf("at once: %v", used)
		}
	})
}

// A place that a key frees goes to who waits for another key, where nobody
// waits for that one.
func TestFreePlaceIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t, paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 1}}, func(name string) stub.Config {
			return stub.Config{Service: map[string]time.Duration{"a": 100 * sec, "b": 3 * sec}[name]}
		}, "a", "b")
		start := time.Now()
		r.together(5)
		var ends []time.Duration
		for _, rec := range r.logged() {
			ends = append(ends, rec.Done.Sub(start))
		}
		wantInstants(t, ends, 3*sec, 6*sec, 9*sec, 12*sec, 100*sec)
	})
}

// A key of the configuration that is replaced ends its requests under way; who
// waits takes the new one.
// which has a fresh budget.
func TestRotatedKey(t *testing.T) {
	for _, names := range [][]string{{"a"}, {"a", "b"}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRing(t, paceline.Provider{Limits: paceline.Limits{MaxConcurrent: 1}}, func(string) stub.Config { return stub.Config{Service: 10 * sec} }, names...)
			var err error
			if r.stubs[keyOf("new")], err = stub.New(stub.Config{}); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			start := time.Now()
			for range 2 * len(names) {
				wg.Go(func() { r.chat(t.Context()).want(t, 200) })
			}
			time.Sleep(3 * sec)
			p := r.Providers[0]
			p.Credentials = []paceline.Credential{{Name: "new", Key: keyOf("new")}}
			if err := r.SetProviders([]paceline.Provider{p}); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			got := make(map[string]int)
			for _, rec := range r.logged() {
				got[fmt.Sprintf("%s@%v-%v", rec.Credential, rec.Sent.Sub(start), rec.Done.Sub(start))]++
			}
			if got["new@3s-3s"] != len(names) || got["a@0s-10s"] != 1 || len(got) != 1+len(names) {
				t.Errorf("with %v: %v", names, got)
			}
		})
	}
}

// whatever becomes of a request with several keys, neither they nor
// their ids are in a record, the status, an error or an answer.
func TestSeveralKeysAreNeverShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		r := newRing(t, paceline.Provider{Retry: paceline.Retry{MaxWait: sec}}, usual, "a", "b")
		n := 0
		r.Base = sink(func(req *http.Request) (*http.Response, error) {
			key := req.Header.Get("Authorization")
			switch n++; n {
			case 1:
				return answer(429, http.Header{"Retry-After": {"600"}, "X-Echo": {key}}, "{}"), nil
			case 2:
				return nil, fmt.Errorf("sending with %s failed", key)
			}
			return answer(429, http.Header{"Retry-After": {"300"}}, "{}"), nil
		})
		for range 3 {
			a := r.chat(t.Context())
			fmt.Fprintln(&said, a.status, a.header, a.body, a.err)
		}
		fmt.Fprintf(&said, "%+v %+v", r.logged(), r.Status())
		for _, name := range []string{"a", "b"} {
			for _, secret := range []string{keyOf(name), fmt.Sprintf("%x", sha256.Sum256([]byte(keyOf(name))))[:8]} {
				if strings.Contains(said.String(), secret) {
					t.Errorf("%s of %s is shown: %s", secret, name, said.String())
				}
			}
		}
		if !strings.Contains(said.String(), "[key]") {
			t.Errorf("no error had a key to hide: %s", said.String())
		}
	})
}

// What is wrong with the credentials is said before anything is sent.
func TestBadCredentials(t *testing.T) {
	ask := func(p paceline.Provider) error {
		p.Name, p.BaseURL = "test", base
		tr := &paceline.Transport{Limiter: memory.New(), Route: by(paceline.Any), Providers: []paceline.Provider{p},
			Base: sink(func(*http.Request) (*http.Response, error) { t.Error("sent"); return answer(200, nil, ""), nil })}
		req := chatRequest(context.Background())
		body := &closing{Reader: strings.NewReader("{}")}
		req.Body, req.GetBody = body, nil
		_, err := tr.RoundTrip(req)
		if !body.closed {
			t.Error("the body was not closed")
		}
		return err
	}
	for want, p := range map[string]paceline.Provider{
		`provider "test" has no credential`:      {},
		"a Route that names * means any of them": {Credentials: []paceline.Credential{{Name: "*", Key: "k"}}},
		"its Weight is -1: give a number from 1": {Credentials: []paceline.Credential{{Key: "k", Weight: -1}}},
	} {
		if err := ask(p); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), `"k"`) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

// The key with the most left of what its provider told is taken, undeclared:
// each has a meter of its own.
func TestMostLeftIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t, paceline.Provider{Dialect: "openai"}, usual, "a", "b")
		left := map[string]int{keyOf("a"): 45, keyOf("b"): 90}
		r.Base = sink(func(req *http.Request) (*http.Response, error) {
			key := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
			left[key] -= 10
			return answer(200, http.Header{"X-Ratelimit-Limit-Requests": {"100"}, "X-Ratelimit-Remaining-Requests": {strconv.Itoa(left[key])}, "X-Ratelimit-Reset-Requests": {"1h"}}, "{}"), nil
		})
		var used strings.Builder
		for range 8 {
			r.chat(t.Context()).want(t, 200)
			all := r.logged()
			used.WriteString(all[len(all)-1].Credential)
			time.Sleep(sec)
		}
		if got := used.String(); got != "abbbbbba" {
			t.Errorf("used %s", got)
		}
	})
}
