package stub_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/stub"
)

func TestEvidencePage(t *testing.T) {
	s := mustStub(t, stub.Config{Meters: []stub.Meter{{Kind: stub.Rolling, Limit: 1}}})
	expect(t, s, "200", "429 60")
	r := request(t.Context(), "http://stub.test/_stub", "")
	r.Method = http.MethodGet
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	want := `{"admitted":1,"refused":1,"peak_live":1,"peak_window":1,"repeated":0,"early":0,"left":0}` + "\n"
	if w.Code != 200 || w.Body.String() != want {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestPeakWindowOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustStub(t, stub.Config{Meters: []stub.Meter{{Kind: stub.Bucket, Limit: 60, Burst: 5}}, Window: 2 * time.Second})
		for range 100 {
			status(t, s)
			time.Sleep(100 * time.Millisecond)
		}
		// Five at once would be 7 in 2 s; they come over half a second, and a
		// sixth token with them.
		if got := s.Counts().PeakWindow; got != 6 {
			t.Errorf("peak %d", got)
		}
	})
}

func TestRepeatsAreCounted(t *testing.T) {
	for _, track := range []bool{false, true} {
		s := mustStub(t, stub.Config{
			TrackRepeats: track,
			Script:       []stub.Step{{Status: 500}, {Fault: stub.FaultReset}, {Fault: stub.FaultCut}},
		})
		send := func(header, id, body string) {
			r := request(t.Context(), chat, body)
			if header != "" {
				r.Header.Set(header, id)
			}
			if resp, err := s.RoundTrip(r); err == nil {
				resp.Body.Close()
			}
		}
		check := func(why string, want int) {
			t.Helper()
			if got := s.Counts().Repeated; got != want {
				t.Errorf("tracking %v, %s: %d repeated, want %d", track, why, got, want)
			}
		}
		send("Idempotency-Key", "1", `{}`) // 500
		send("Idempotency-Key", "1", `{}`) // reset
		send("Idempotency-Key", "1", `{}`) // cut: the first generation
		check("nothing was generated before", 0)
		send("Idempotency-Key", "1", `{}`)
		check("the cut one was made again", 1)
		send("X-Stub-Request", "1", `{}`)
		check("another kind of identity", 1)
		send("X-Stub-Request", "1", `{}`)
		check("made again", 2)
		send("", "", `{"a":1}`)
		send("", "", `{"a":2}`)
		check("two bodies", 2)
		send("", "", `{"a":1}`)
		if track {
			check("one body", 3)
		} else {
			check("bodies say nothing", 2)
		}
	}
}

func TestArrivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustStub(t, stub.Config{Meters: []stub.Meter{{Kind: stub.Rolling, Limit: 1}}, Jitter: time.Second, Seed: 3})
		began := time.Now()
		expect(t, s, "200", "429 60")
		time.Sleep(time.Minute)
		expect(t, s, "200")
		a := s.Arrivals()
		if len(a) != 3 || !a[0].Admitted || a[1].Admitted || !a[2].Admitted {
			t.Fatalf("%+v", a)
		}
		if d := a[0].At.Sub(began); d <= 0 || d >= time.Second {
			t.Errorf("arrived %v after it was sent", d)
		}
	})
}

func TestManyAtOnce(t *testing.T) {
	// For the race detector: everything at the same time, over a socket and
	// without.
	s := mustStub(t, stub.Config{
		Meters: []stub.Meter{{Kind: stub.Bucket, Limit: 1000, Per: time.Second, Burst: 50}}, Concurrent: 8,
		Jitter: time.Millisecond, Service: time.Millisecond, ServiceSpread: time.Millisecond,
		Headers: stub.HeadersOpenAI, HeadersAt: stub.AtHead, Penalise: true, TrackRepeats: true,
		Faults: stub.Faults{{Kind: stub.FaultReset, P: 0.1}, {Kind: stub.FaultCut, P: 0.1}, {Kind: stub.FaultStatus, Status: 503, P: 0.1}},
	})
	server := httptest.NewServer(s)
	defer server.Close()
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			rt, base := http.RoundTripper(s), "http://stub.test"
			if i%2 == 0 {
				rt, base = fresh(), server.URL
			}
			for range 30 {
				outcome(rt, base+"/v1/messages", `{"stream":true}`)
				outcome(rt, base+"/v1/chat/completions", `{}`)
				s.Counts()
				s.Arrivals()
			}
		})
	}
	all.Wait()
	// A reset is repeated by net/http on a connection that was kept; these
	// were not, so every request arrived once.
	if c := s.Counts(); c.Admitted+c.Refused != 16*60 || c.PeakLive > 8 || c.Admitted == 0 {
		t.Errorf("%+v", c)
	}
}

func TestASlowSocketClientSeesItsPlaceFree(t *testing.T) {
	// A client that sends again when its answer is complete finds the place
	// of its last request given up.
	s := mustStub(t, stub.Config{Concurrent: 1, Service: time.Millisecond})
	server := httptest.NewServer(s)
	defer server.Close()
	for range 100 {
		resp, err := server.Client().Post(server.URL+"/v1/messages", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Fatal(resp.Status)
		}
	}
}
