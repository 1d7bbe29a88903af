package clients

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/stub"
)

// exact are the settings of tests that time what they see.
const exact = "limits: {windowSlackMs: 0, pacing: burst}"

// Every API of every SDK works through the proxy, streamed and not: the answer
// is the provider's byte for byte, each piece of a stream comes before the next
// is made, one request is one generation, and no client sees anything else.
func TestAnswersComeThrough(t *testing.T) {
	each(t, func(t *testing.T, s sdk) {
		u := newUpstream(t, stub.Config{Service: 5 * time.Second})
		p := start(t, u, settings{provider: exact})
		var asks []ask
		for _, api := range s.apis {
			asks = append(asks, ask{API: api, Model: stub.Model, Prompt: "Say something."})
			if api != "embeddings" {
				asks = append(asks, ask{API: api, Model: stub.Model, Prompt: "Say something.", Stream: true})
			}
		}
		got := s.prepare(t, job{Base: p.url, Asks: asks})()
		seen := u.exchanges()
		if len(seen) != len(asks) {
			t.Fatalf("%d requests reached the provider for %d asks", len(seen), len(asks))
		}
		for i, a := range asks {
			g, x := got[i], seen[i]
			name := fmt.Sprintf("%s, stream %v", a.API, a.Stream)
			if g.Error != "" || statuses(g.Answers) != "200" {
				t.Errorf("%s: %s; answers %s", name, g.Error, statuses(g.Answers))
				continue
			}
			if !bytes.Equal(g.Bytes, x.body) {
				t.Errorf("%s: the client got\n%q\nand the provider sent\n%q", name, g.Bytes, x.body)
			}
			switch {
			case a.API == "embeddings":
				want := fmt.Sprintf("[[%d 0 0.5 -0.25] [%[1]d 1 0.5 -0.25]]", i+1)
				if fmt.Sprint(g.Vectors) != want {
					t.Errorf("%s: %v, want %s", name, g.Vectors, want)
				}
			case g.Text != generation(i+1):
				t.Errorf("%s: %q, want generation %d", name, g.Text, i+1)
			}
			if a.Stream {
				oneByOne(t, name, g, x)
			}
		}
		if c := u.stub.Counts(); c.Admitted != len(asks) || c.Repeated > 0 {
			t.Errorf("%+v", c)
		}
	})
}

// oneByOne holds a stream to its time: each piece reached the client before
// the provider wrote the next.
func oneByOne(t *testing.T, name string, got result, x exchange) {
	t.Helper()
	if len(got.Pieces) != 5 {
		t.Errorf("%s: %d pieces, want 5", name, len(got.Pieces))
		return
	}
	var written []time.Time // each piece
	begin := 0
	for _, w := range x.writes {
		if n := len(written); n < 5 && bytes.Contains(x.body[begin:w.end], fmt.Appendf(nil, "%q", got.Pieces[n].Text)) {
			written = append(written, w.at)
		}
		begin = w.end
	}
	if len(written) != 5 {
		t.Errorf("%s: the provider wrote %q", name, x.body)
		return
	}
	for i, piece := range got.Pieces[:4] {
		// A provider that was held up itself may write two at once.
		at, next := time.UnixMilli(piece.At), written[i+1]
		if next.Sub(written[i]) > 100*time.Millisecond && !at.Before(next) {
			t.Errorf("%s: piece %d came at %v, and the provider made the next at %v", name, i+1, at, next)
		}
	}
}

// P-81: a stated wait is waited out in the proxy, where it is short and
// where it is longer than most SDKs would honour: the client sees one answer,
// a late one, and nothing is sent into the wait.
func TestStatedWaits(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{3 * time.Second, 90 * time.Second} {
		t.Run(wait.String(), func(t *testing.T) {
			if testing.Short() && wait > time.Minute {
				t.Skip("a wait of 90 s takes 90 s")
			}
			each(t, func(t *testing.T, s sdk) {
				u := newUpstream(t, stub.Config{Script: []stub.Step{refusal(wait, stub.RetryAfterSeconds)}})
				p := start(t, u, settings{provider: exact})
				got := does(t, s, p.url, s.say("Wait for it."))
				if got.Text != generation(1) || statuses(got.Answers) != "200" {
					t.Errorf("%q; answers %s", got.Text, statuses(got.Answers))
				}
				seen := u.exchanges()
				if len(seen) != 2 {
					t.Fatalf("%d requests reached the provider, want the refused one and one more", len(seen))
				}
				if gap := seen[1].began.Sub(seen[0].began); gap < wait {
					t.Errorf("sent again after %v", gap)
				}
				if c := u.stub.Counts(); c.Repeated > 0 || c.Early > 0 {
					t.Errorf("%+v", c)
				}
			})
		})
	}
}

// A queue that takes longer than a client waits: the client is told to come
// again before it gives up, its place is kept meanwhile, and it is served
// before one who came later and stayed.
func TestQueueLongerThanPatience(t *testing.T) {
	each(t, func(t *testing.T, s sdk) {
		config := ""
		if !s.tells {
			config = "clientTimeoutMs: 20000"
		}
		got := queued(t, s, config)
		if said := statuses(got.Answers); !strings.HasPrefix(said, "429 ") || !strings.HasSuffix(said, " 200") {
			t.Errorf("the client got %s: it was never asked to come again", said)
		}
	})
}

// A client that tells nobody how long it waits hangs up in silence and comes
// again, and finds its place kept.
func TestQueueLongerThanUntoldPatience(t *testing.T) {
	each(t, func(t *testing.T, s sdk) {
		if !s.timeout || s.tells {
			t.Skip("it tells its timeout, or has none")
		}
		if got := queued(t, s, ""); statuses(got.Answers) != "200" {
			t.Errorf("the client got %s", statuses(got.Answers))
		}
	})
}

// queued has an SDK that waits 20 s ask for a turn that comes after 25 s.
func queued(t *testing.T, s sdk, top string) result {
	t.Helper()
	// A tenth of the patience is more than a second, which openai-go needs:
	// the pause before its next try counts towards the timeout of the last.
	const window = 25 * time.Second
	u := newUpstream(t, stub.Config{})
	config := settings{top, "limits: {windowSlackMs: 500, pacing: burst, windows: [{calls: 1, perMs: 25000}]}"}
	retries := 10
	j := job{Retries: &retries, TimeoutMS: 20000}
	p := start(t, u, config)
	first := s.say("The queued one.")
	j.Base, j.Asks = p.url, []ask{first}
	do := s.prepare(t, j)

	// Another client takes the window's only call, and a third comes when
	// the first waits already.
	other := inProcess(openAIGo)
	if first.API == "messages" {
		other = inProcess(anthropicGo)
	}
	asks := func(prompt string) job {
		a := first
		a.Prompt = prompt
		return job{Base: p.url, Retries: &retries, Asks: []ask{a}}
	}
	if filler := other(t, asks("The filler."))()[0]; filler.Error != "" {
		t.Fatal(filler.Error)
	}
	done, later := make(chan result, 1), make(chan result, 1)
	go func() { done <- do()[0] }()
	p.waiting(t, 1)
	go func() { later <- other(t, asks("The later one."))()[0] }()

	got, rival := <-done, <-later
	if got.Error != "" || rival.Error != "" {
		t.Fatalf("%q, %q", got.Error, rival.Error)
	}
	if got.Text != generation(2) || rival.Text != generation(3) {
		t.Errorf("the queued one is %q, the later one %q", got.Text, rival.Text)
	}
	seen := u.exchanges()
	if len(seen) != 3 {
		t.Fatalf("%d requests reached the provider, want 3", len(seen))
	}
	for i := range 2 {
		if gap := seen[i+1].began.Sub(seen[i].began); gap < window {
			t.Errorf("%v between two starts, in a window of %v", gap, window)
		}
	}
	if c := u.stub.Counts(); c.Repeated > 0 {
		t.Errorf("%+v", c)
	}
	return got
}

// P-123, P-127, BerriAI/litellm#9178: a client that leaves in mid-stream ends the generation's
// connection at once, its place stays taken for abortHoldMs, and its row says
// 499.
func TestClientLeavesInMidStream(t *testing.T) {
	const hold = 3 * time.Second
	each(t, func(t *testing.T, s sdk) {
		u := newUpstream(t, stub.Config{Service: 10 * time.Second})
		p := start(t, u, settings{provider: "limits: {maxConcurrent: 1, abortHoldMs: 3000}"})
		a := s.streamed("Tell me more.")
		a.LeaveAfter = 1
		left := does(t, s, p.url, a)
		seen := u.wait(t, "the connection of a client that left to end", func(all []exchange) bool {
			return len(all) == 1 && !all[0].ended.IsZero()
		})
		if after := seen[0].ended.Sub(time.UnixMilli(left.Left)); after > 2*time.Second || len(seen[0].body) == 0 {
			t.Errorf("cut %v after the client left", after)
		}
		// The next one takes the place when the hold is over.
		next := does(t, s, p.url, s.say("And now me."))
		if next.Text != generation(2) {
			t.Errorf("%q", next.Text)
		}
		if gap := u.exchanges()[1].began.Sub(time.UnixMilli(left.Left)); gap < hold {
			t.Errorf("the next began %v after the client left, want the place held for %v", gap, hold)
		}
		rows := p.records(t, 2)
		if len(rows) != 2 || rows[0].Status != 499 || !rows[0].Aborted || rows[1].Status != 200 {
			t.Errorf("the log has %+v", rows)
		}
		if c := u.stub.Counts(); c.Repeated > 0 || c.Left != 1 {
			t.Errorf("%+v", c)
		}
	})
}

// A refusal that hides in a 200 is never seen: the proxy waits and sends again,
// and the client gets one answer, streamed and not.
func TestErrorsInsideA200(t *testing.T) {
	each(t, func(t *testing.T, s sdk) {
		hidden := stub.Step{Fault: stub.FaultError}
		u := newUpstream(t, stub.Config{Script: []stub.Step{hidden, hidden, {}, hidden}})
		p := start(t, u, settings{provider: exact + "\nretry: {baseMs: 100}"})
		for i, a := range []ask{s.say("All of it."), s.streamed("Piece by piece.")} {
			got := does(t, s, p.url, a)
			if got.Text != generation(i+1) || statuses(got.Answers) != "200" {
				t.Errorf("stream %v: %q; answers %s", a.Stream, got.Text, statuses(got.Answers))
			}
			if seen := u.exchanges(); !bytes.Equal(got.Bytes, seen[len(seen)-1].body) {
				t.Errorf("stream %v: the client got\n%q\nand the provider sent\n%q", a.Stream, got.Bytes, seen[len(seen)-1].body)
			}
		}
		if seen := u.exchanges(); len(seen) != 5 {
			t.Errorf("%d requests reached the provider, want 5", len(seen))
		}
		rows := p.records(t, 5)
		for i, row := range rows {
			if want := i == 2 || i == 4; (row.Class == "ok") != want || row.Status != 200 {
				t.Errorf("attempt %d is logged as %+v", i+1, row)
			}
		}
	})
}

// An error in mid-stream is the client's to see: what was forwarded is not
// made again.
func TestErrorInMidStream(t *testing.T) {
	each(t, func(t *testing.T, s sdk) {
		u := newUpstream(t, stub.Config{Script: []stub.Step{{Fault: stub.FaultLateError}}, Service: time.Second})
		p := start(t, u, settings{})
		got := s.prepare(t, job{Base: p.url, Asks: []ask{s.streamed("Half of it.")}})()[0]
		if got.Error == "" || got.Text != "This is " {
			t.Errorf("error %q after %q", got.Error, got.Text)
		}
		seen := u.exchanges()
		if len(seen) != 1 || !bytes.Equal(got.Bytes, seen[0].body) {
			t.Errorf("%d requests; got %q", len(seen), got.Bytes)
		}
	})
}

// waiting waits until so many requests stand in the proxy's lines.
func (p *proxy) waiting(t *testing.T, n int) {
	t.Helper()
	var status struct {
		Callers []struct {
			Waiting map[string]int
		}
	}
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		p.get(t, "/stats", &status)
		sum := 0
		for _, c := range status.Callers {
			for _, n := range c.Waiting {
				sum += n
			}
		}
		if sum >= n {
			return
		}
	}
	t.Fatalf("%d requests do not wait; /stats says %+v", n, status)
}
