package stub_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/stub"
)

// outcome is what a client gets, in a word.
func outcome(rt http.RoundTripper, url, body string) string {
	resp, err := rt.RoundTrip(request(context.Background(), url, body))
	if err != nil {
		return "lost"
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil {
		if len(text) == 0 {
			return "cut before any text"
		}
		return "cut"
	}
	return resp.Status[:3]
}

func TestFaultsStrike(t *testing.T) {
	for _, test := range []struct {
		fault, body, want string
	}{
		{"reset:every=3", `{}`, "200 200 lost 200 200 lost"},
		{"reset:first=2", `{"stream":true}`, "lost lost 200 200"},
		{"cut:every=2", `{"stream":true}`, "200 cut 200 cut"},
		{"cut:every=2", `{}`, "200 cut 200 cut"},
		{"500:first=1", `{}`, "500 200"},
		{"529:every=2", `{"stream":true}`, "200 529 200"},
		{"503", `{}`, "503 503 503"},
		{"reset:p=1", `{}`, "lost lost"},
	} {
		var faults stub.Faults
		if err := faults.Set(test.fault); err != nil {
			t.Fatal(err)
		}
		config := stub.Config{Faults: faults, Service: 10 * time.Millisecond}
		for _, path := range []string{"/v1/chat/completions", "/v1/messages"} {
			server := httptest.NewServer(mustStub(t, config))
			for i, want := range strings.Fields(test.want) {
				if got := outcome(fresh(), server.URL+path, test.body); got != want {
					t.Errorf("over a socket, %s, %s: request %d got %s, want %s", test.fault, test.body, i+1, got, want)
				}
			}
			server.Close()
			s := mustStub(t, config)
			for i, want := range strings.Fields(test.want) {
				if got := outcome(s, "http://stub.test"+path, test.body); got != want {
					t.Errorf("in memory, %s, %s: request %d got %s, want %s", test.fault, test.body, i+1, got, want)
				}
			}
		}
	}
}

// fresh is a transport that takes a connection for each request: one that was
// kept could be repeated by net/http after a reset.
func fresh() *http.Transport { return &http.Transport{DisableKeepAlives: true} }

func TestFaultErrorsAreReadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustStub(t, stub.Config{Service: 10 * time.Second, Script: []stub.Step{{Fault: stub.FaultReset}, {Fault: stub.FaultCut}, {Fault: stub.FaultCut}}})
		_, err := s.RoundTrip(request(t.Context(), chat, `{}`))
		if !errors.Is(err, stub.ErrReset) || !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		began := time.Now()
		resp, err := s.RoundTrip(request(t.Context(), chat, `{"stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		events, err := listen(t, began, resp.Body)
		if len(events) != 3 || !errors.Is(err, stub.ErrReset) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(events, err)
		}
		// Half the service, and the place is free at once.
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("cut after %v", d)
		}
		resp, err = s.RoundTrip(request(t.Context(), chat, `{}`))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(resp.Body); len(text) == 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q %v", text, err)
		}
	})
}

func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := stub.Faults{{Kind: stub.FaultSilence, First: 1}}
		s := mustStub(t, stub.Config{Faults: faults, Concurrent: 1, Service: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		go func() {
			time.Sleep(30 * time.Minute)
			// Nobody knows for how long the place is taken, so no wait is told.
			expect(t, s, "429")
		}()
		if _, err := s.RoundTrip(request(ctx, chat, `{}`)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		synctest.Wait()
		expect(t, s, "200")
	})
	synctest.Test(t, func(t *testing.T) {
		// A client that leaves soon does not end the work.
		s := mustStub(t, stub.Config{Script: []stub.Step{{Fault: stub.FaultSilence}}, Concurrent: 1, Service: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if _, err := s.RoundTrip(request(ctx, chat, `{}`)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		synctest.Wait()
		expect(t, s, "429 40")
	})
}

func TestSilenceOverASocket(t *testing.T) {
	s := mustStub(t, stub.Config{Faults: stub.Faults{{Kind: stub.FaultSilence}}})
	server := httptest.NewServer(s)
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := server.Client().Do(request(ctx, server.URL+"/v1/messages", `{}`)); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestFaultsByChanceAreSeeded(t *testing.T) {
	run := func(seed uint64) (text string) {
		s := mustStub(t, stub.Config{Faults: stub.Faults{{Kind: stub.FaultReset, P: 0.3}}, Seed: seed})
		for range 1000 {
			text += outcome(s, chat, `{}`)[:1]
		}
		return text
	}
	first := run(1)
	if n := strings.Count(first, "l"); n < 250 || n > 350 {
		t.Errorf("%d of 1000 struck", n)
	}
	if first != run(1) {
		t.Error("one seed, two runs")
	}
	if first == run(2) {
		t.Error("two seeds, one run")
	}
}

func TestScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustStub(t, stub.Config{
			Meters:     []stub.Meter{{Kind: stub.Rolling, Limit: 1}},
			RetryAfter: stub.RetryAfterMS,
			Script: []stub.Step{
				{Status: 429},
				{Status: 429, Wait: 1500 * time.Millisecond},
				{Status: 429, Wait: 1500 * time.Millisecond, RetryAfter: stub.RetryAfterSeconds},
				{Status: 503, Wait: 5 * time.Second, RetryAfter: stub.RetryAfterSeconds},
				{Status: 429, RetryAfter: stub.RetryAfterSeconds},
				{Status: 529},
				{},
				{Status: 200, Body: `{"error":{"code":429}}`, Header: http.Header{"retry-after ": {"7"}}},
				{Status: 500, Header: http.Header{"Date": {"Mon, 01 Jan 1990 00:00:00 GMT"}}},
			},
		})
		expect(t, s, "429", "429 1500", "429 2", "503 5", "429 0", "529", "200")
		resp, text := post(t, s, chat, `{}`)
		if resp.StatusCode != 200 || text != `{"error":{"code":429}}` || resp.Header["retry-after "][0] != "7" {
			t.Error(resp.Status, text, resp.Header)
		}
		resp, _ = post(t, s, chat, `{}`)
		if got := resp.Header["Date"]; len(got) != 1 || got[0] != "Mon, 01 Jan 1990 00:00:00 GMT" {
			t.Error(got)
		}
		// The script is over; the one admitted request still counts.
		expect(t, s, "429 60000")
		counts(t, s, stub.Counts{Admitted: 1, Refused: 5, PeakLive: 1, PeakWindow: 1})
		time.Sleep(5*time.Second - 1)
		expect(t, s, "429 55001")
		if got := s.Counts().Early; got != 1 {
			t.Errorf("%d early", got)
		}
	})
}

func TestStatusFaultsCountAndTakeNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustStub(t, stub.Config{
			Meters: []stub.Meter{{Kind: stub.Rolling, Limit: 2}}, Service: time.Hour, Concurrent: 1,
			Faults: stub.Faults{{Kind: stub.FaultStatus, Status: 500}},
		})
		expect(t, s, "500", "500", "429 60")
		counts(t, s, stub.Counts{Admitted: 2, Refused: 1, PeakLive: 1, PeakWindow: 2})
	})
}

func TestScriptedFaultsDoNotCountWhatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut := stub.Step{Fault: stub.FaultCut}
		s := mustStub(t, stub.Config{Service: time.Second, Script: []stub.Step{cut, cut, cut}})
		for range 3 {
			if got := outcome(s, chat, `{}`); got != "cut" {
				t.Error(got)
			}
		}
		if got := s.Counts().PeakLive; got != 1 {
			t.Errorf("%d live at once", got)
		}
	})
}
