package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/history"
	"github.com/paceline-proxy/paceline/stub"
)

// one is a configuration with one provider and no limits but those given.
const one = `
listen: localhost:0
defaultProvider: {openai: p}
providers:
  p: {baseURL: STUB, limits: {pacing: burst, windowSlackMs: 0, %s}}
`

// P-14, P-15, P-162, P-169.
func TestServe(t *testing.T) {
	b := newBox(t)
	p := b.serve("--port", "0")
	if p.PID != p.Process.Pid || p.Host != "127.0.0.1" || p.Port == 0 {
		t.Errorf("server.json is %+v, the process is %d", p.Server, p.Process.Pid)
	}
	var health, stats map[string]any
	for _, host := range []string{"127.0.0.1", "[::1]", "localhost"} {
		if host == "[::1]" && len(p.Listen) < 2 {
			continue // the machine has no IPv6
		}
		base := fmt.Sprintf("http://%s:%d", host, p.Port)
		if status := get(t, base+"/health", &health); status != 200 {
			t.Errorf("%s/health: %d", base, status)
		}
		if status := get(t, base+"/stats", &stats); status != 200 || stats["version"] == nil || stats["callers"] == nil {
			t.Errorf("%s/stats: %d, %v", base, status, stats)
		}
	}
	if !strings.Contains(p.said.String(), "serving at "+p.URL()) {
		t.Errorf("it is not said where it is: %s", p.said)
	}
	p.stop(t, syscall.SIGTERM)
	if p.err != nil {
		t.Errorf("told to stop, it fails: %v", p.err)
	}
	if _, err := os.Stat(b.ServerFile()); err == nil {
		t.Error("server.json is still there") // P-25
	}

	// A port that was asked for.
	p = b.serve("--port", strconv.Itoa(p.Port))
	p.stop(t, os.Interrupt)
	b.env = append(b.env, "PACELINE_PORT="+strconv.Itoa(p.Port))
	if again := b.serve(); again.Port != p.Port {
		t.Errorf("PACELINE_PORT is %d and it serves at %d", p.Port, again.Port)
	}
}

// P-16, P-17, P-18, P-26.
func TestSecondServeRefused(t *testing.T) {
	b := newBox(t)
	p := b.serve("--port", "0")
	want := fmt.Sprintf("pid %d, port %d", p.PID, p.Port)
	other := filepath.Join(t.TempDir(), "other.yaml")
	if err := os.WriteFile(other, []byte("listen: localhost:0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(args ...string) {
		t.Helper()
		_, said, code := b.run(append([]string{"serve"}, args...)...)
		if code != 3 || !strings.Contains(said, want) {
			t.Errorf("serve %v: exit code %d, %q; want 3 and %q", args, code, said, want)
		}
	}
	check()
	check("--port", "0")
	check("--config", other)
	check("--detach")
	b.env = append(b.env, "PACELINE_PORT=1")
	check()
	if s, live := b.Live(t.Context()); !live || s.PID != p.PID {
		t.Errorf("afterwards server.json is %+v, live %v", s, live)
	}
}

// P-28.
func TestServesAtOnce(t *testing.T) {
	b := newBox(t)
	var all []*proc
	for range 6 {
		all = append(all, b.begin("--port", "0"))
	}
	refused := 0
	await(t, func() bool {
		refused = 0
		for _, p := range all {
			select {
			case <-p.ended:
				refused++
			default:
			}
		}
		return refused == len(all)-1
	})
	s, live := b.Live(t.Context())
	for _, p := range all {
		select {
		case <-p.ended:
			if p.ProcessState.ExitCode() != 3 {
				t.Errorf("one that is refused: %v\n%s", p.err, p.said)
			}
		default:
			if !live || s.PID != p.Process.Pid {
				t.Errorf("%d runs, and server.json is %+v", p.Process.Pid, s)
			}
		}
	}
}

// P-24.
func TestTwoHomes(t *testing.T) {
	one, two := newBox(t).serve("--port", "0"), newBox(t).serve("--port", "0")
	var health map[string]any
	if one.Port == two.Port || get(t, one.URL()+"/health", &health) != 200 || get(t, two.URL()+"/health", &health) != 200 {
		t.Errorf("the homes are at %v and %v", one.Server, two.Server)
	}
}

// P-19, and a socket that a dead proxy has left.
func TestStale(t *testing.T) {
	b := newBox(t)
	socket := filepath.Join(t.TempDir(), "s")
	p := b.serve("--listen", "localhost:0", "--listen", "unix:"+socket)
	p.stop(t, os.Kill)
	if _, err := b.Recorded(); err != nil {
		t.Fatalf("killed, it has left no server.json: %v", err)
	}
	p = b.serve("--listen", "unix:"+socket)
	if p.Host != "unix:"+socket || p.Port != 0 {
		t.Errorf("at a socket alone, server.json is %+v", p.Server)
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v, %v", info.Mode(), err)
	}
	// A live one, or any other file, is not taken.
	if _, said, code := newBox(t).run("serve", "--listen", "unix:"+socket); code != 1 || !strings.Contains(said, "another process does") {
		t.Errorf("a live socket: exit code %d, %s", code, said)
	}
	if _, said, code := newBox(t).run("serve", "--listen", "unix:"+b.ServerFile()); code != 1 || !strings.Contains(said, "no socket; move it away") {
		t.Errorf("a file: exit code %d, %s", code, said)
	}
}

// A port that was asked for has to be free, the usual one has not.
func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_, said, code := newBox(t).run("serve", "--port", port)
	if code != 1 || !strings.Contains(said, "127.0.0.1:"+port+": pid "+strconv.Itoa(os.Getpid())) {
		t.Errorf("exit code %d, and who has the port is not said: %s", code, said)
	}

	if usual, err := net.Listen("tcp", "127.0.0.1:8790"); err == nil {
		defer usual.Close()
	} // else somebody has it already
	b := newBox(t)
	p := b.serve()
	if p.Port == 8790 || !strings.Contains(p.said.String(), "the usual port is taken") {
		t.Errorf("it is at %d: %s", p.Port, p.said)
	}
	b2 := newBox(t)
	b2.configure(nil, "listen: localhost:"+port)
	if _, said, code := b2.run("serve"); code != 1 || !strings.Contains(said, "address already in use") {
		t.Errorf("asked for by the configuration: exit code %d, %s", code, said)
	}
}

// P-29; crewAIInc/crewAI#2906, aaif-goose/goose#887, BerriAI/litellm#2730,
// freshworks-oss/terraform-provider-firehydrant#241: whoever calls, one set of
// rates holds, nobody is refused, and all get their answers.
func TestOneSetOfRates(t *testing.T) {
	up, meter := provider(t, stub.Config{Meters: []stub.Meter{{Kind: stub.Rolling, Limit: 5, Per: time.Second}}})
	b := newBox(t)
	b.configure(up, fmt.Sprintf(one, "windows: [{calls: 5, perMs: 1050}]"))
	p := b.serve()
	var wg sync.WaitGroup
	for i := range 15 {
		wg.Go(func() {
			status, _, answer, err := chat(t.Context(), p.URL()+"/as/client-"+strconv.Itoa(i%3), prompt(i))
			if err != nil || status != 200 {
				t.Errorf("client %d: %d %s %v", i, status, answer, err)
			}
		})
	}
	wg.Wait()
	if n := meter.Counts(); n.Admitted != 15 || n.Refused != 0 {
		t.Errorf("the provider has seen %+v", n)
	}
}

// mozilla-ai/any-llm#940: what was sent before a kill -9 still counts; so it
// does without the journal.
func TestKilledWindow(t *testing.T) {
	for _, lost := range []string{"", "journal", "journal damaged"} {
		t.Run(lost, func(t *testing.T) {
			up, meter := provider(t, stub.Config{})
			b := newBox(t)
			b.configure(up, fmt.Sprintf(one, "maxPerHour: 5"))
			p := b.serve()
			for i := range 5 {
				if status, _, answer, err := chat(t.Context(), p.URL(), prompt(i)); status != 200 || err != nil {
					t.Fatalf("%d %s %v", status, answer, err)
				}
			}
			await(t, func() bool { return logged(t, b) == 5 })
			p.stop(t, os.Kill)
			switch lost {
			case "journal":
				if err := os.Remove(b.Journal()); err != nil {
					t.Fatal(err)
				}
			case "journal damaged":
				if err := os.WriteFile(b.Journal(), []byte("this is no journal, and it is long enough to be looked at"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			p = b.serve()
			status, head, answer, err := chat(t.Context(), p.URL(), prompt(6), "X-Paceline-Max-Wait", "1s")
			if err != nil || status != 429 || head.Get("X-Paceline-Refused") == "" {
				t.Errorf("the sixth request of the hour: %d %s %v", status, answer, err)
			}
			if n := meter.Counts(); n.Admitted != 5 {
				t.Errorf("the provider has seen %+v", n)
			}
			if said := stats(t, p); !strings.Contains(said, `"sent_60s":5`) {
				t.Errorf("what was sent before counts as evidence no more: %s", said)
			}
			if said := p.said.String(); (lost != "") != strings.Contains(said, "rebuilt from the log") {
				t.Errorf("it says: %s", said)
			}
		})
	}
}

// logged is how many rows the log has.
func logged(t *testing.T, b *box) (n int) {
	t.Helper()
	r, err := history.OpenReader(b.Log())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range r.Records(t.Context(), history.Query{}) {
		n++
	}
	return n
}

// tashfeenahmed/freellmapi#88: a stated wait outlives a kill -9.
func TestKilledPause(t *testing.T) {
	up, meter := provider(t, stub.Config{Meters: []stub.Meter{{Kind: stub.Rolling, Limit: 1, Per: 10 * time.Minute}}})
	b := newBox(t)
	b.configure(up, fmt.Sprintf(one, ""))
	p := b.serve()
	chat(t.Context(), p.URL(), prompt(0))
	if status, _, answer, err := chat(t.Context(), p.URL(), prompt(1), "X-Paceline-Max-Wait", "1s"); status != 429 || err != nil {
		t.Fatalf("%d %s %v", status, answer, err)
	}
	before := meter.Counts()
	p.stop(t, os.Kill)
	p = b.serve()
	if status, head, answer, err := chat(t.Context(), p.URL(), prompt(2), "X-Paceline-Max-Wait", "1s"); status != 429 || head.Get("X-Paceline-Refused") == "" || err != nil {
		t.Errorf("%d %s %v", status, answer, err)
	}
	if n := meter.Counts(); n != before {
		t.Errorf("the provider was asked again: %+v, then %+v", before, n)
	}
}

// A proxy is replaced again and again while clients that obey 503 with
// Retry-After work: they see all their answers, and nothing is sent twice.
func TestReplace(t *testing.T) {
	up, meter := provider(t, stub.Config{Service: 20 * time.Millisecond, TrackRepeats: true})
	b := newBox(t)
	b.configure(up, fmt.Sprintf(one, "maxConcurrent: 8"))
	p := b.serve()
	url := p.URL()
	var wg sync.WaitGroup
	var mu sync.Mutex
	answers, tries := 0, 0
	ctx, done := context.WithCancel(t.Context())
	for i := range 16 {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				for {
					status, head, answer, err := chat(t.Context(), url, prompt(i*100000+n))
					mu.Lock()
					tries++
					mu.Unlock()
					if status == 200 {
						break
					}
					if err == nil && (status != 503 || head.Get("Retry-After") != "1") || err != nil && !refusedConnection(err) {
						t.Errorf("client %d: %d %s %v", i, status, answer, err)
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
				mu.Lock()
				answers++
				mu.Unlock()
			}
		})
	}
	for range 3 {
		old := p
		p = b.serve("--port", strconv.Itoa(old.Port), "--replace")
		old.wait(t)
		if old.err != nil {
			t.Errorf("the old one: %v\n%s", old.err, old.said)
		}
		mu.Lock()
		seen := answers
		mu.Unlock()
		await(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return answers > seen+50 || t.Failed()
		})
		if t.Failed() {
			t.Fatalf("after %d answers: %s", answers, stats(t, p))
		}
	}
	done()
	wg.Wait()
	n := meter.Counts()
	if n.Admitted != answers || n.Repeated != 0 || n.PeakLive > 8 {
		t.Errorf("%d answers in %d tries, and the provider has seen %+v", answers, tries, n)
	}
	t.Logf("%d answers in %d tries", answers, tries)
}

// A successor serves where the one before it did, unless it is told otherwise.
func TestReplaceAddress(t *testing.T) {
	b := newBox(t)
	file := filepath.Join(t.TempDir(), "own.yaml")
	if err := os.WriteFile(file, []byte("listen: 127.0.0.1:0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := b.serve("--port", "0")
	for _, c := range []struct {
		args []string
		same bool
	}{
		{nil, true},
		{[]string{"--port", "0"}, false},
		{[]string{"--config", file}, false},
	} {
		old := p
		p = b.serve(append(c.args, "--replace")...)
		if (p.Port == old.Port) != c.same || c.same && len(p.Listen) != len(old.Listen) {
			t.Errorf("--replace %v: it was at %v and is at %v", c.args, old.Listen, p.Listen)
		}
	}
	if p = b.serve("--replace"); p.Config != file {
		t.Errorf("the configuration was %s and is %s", file, p.Config)
	}
}

// A proxy that is told to stop sends those who wait away, keeps their places,
// gives the home up at once, and passes on what streams.
func TestDrain(t *testing.T) {
	up, meter := provider(t, stub.Config{Service: 1500 * time.Millisecond})
	b := newBox(t)
	b.configure(up, fmt.Sprintf(one, "maxConcurrent: 1"))
	p := b.serve()
	running, waiting := make(chan string, 1), make(chan string, 1)
	say := func(to chan string, n int) {
		status, head, answer, err := chat(context.Background(), p.URL(), prompt(n))
		to <- fmt.Sprintf("%d %q %v %v", status, head.Get("Retry-After"), strings.Contains(answer, "choices"), err)
	}
	go say(running, 1)
	await(t, func() bool { return meter.Counts().PeakLive == 1 })
	go say(waiting, 2)
	await(t, func() bool { return strings.Contains(stats(t, p), `"normal":1`) })

	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := <-waiting; got != `503 "1" false <nil>` {
		t.Errorf("the one that waited: %s", got)
	}
	await(t, func() bool { _, err := b.Recorded(); return err != nil })
	next := b.serve() // while the old one still runs
	select {
	case <-p.ended:
		t.Error("the old one has ended before its answer")
	default:
	}
	if got := <-running; got != `200 "" true <nil>` {
		t.Errorf("the one that ran: %s", got)
	}
	p.wait(t)
	if _, err := os.Stat(b.Places()); err == nil {
		t.Error("the places were not taken")
	}
	if s, err := b.Recorded(); err != nil || s.PID != next.Process.Pid {
		t.Errorf("the old one has removed the entry of the new one: %+v, %v", s, err) // P-25
	}
}

func stats(t *testing.T, p *proc) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL()+"/stats", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// One that waits for an hour goes when a reload gives it room; a bad
// configuration changes nothing, and all that is wrong is said.
func TestReload(t *testing.T) {
	up, meter := provider(t, stub.Config{})
	b := newBox(t)
	b.configure(up, fmt.Sprintf(one, "maxPerHour: 1"))
	p := b.serve()
	chat(t.Context(), p.URL(), prompt(1))
	second := make(chan int, 1)
	go func() {
		status, _, _, _ := chat(context.Background(), p.URL(), prompt(2), "X-Paceline-Wait-For-Capacity", "1")
		second <- status
	}()
	await(t, func() bool { return strings.Contains(stats(t, p), `"normal":1`) })

	b.configure(up, "bogus: 1\nmode: perhaps\n")
	_, said, code := b.run("reload")
	if code != 1 || !strings.Contains(said, "paceline.yaml:1:1: bogus") || !strings.Contains(said, "paceline.yaml:2") || !strings.Contains(said, "the old configuration stays") {
		t.Errorf("a bad one: exit code %d, %s", code, said)
	}
	if n := meter.Counts(); n.Admitted != 1 {
		t.Errorf("after a bad one the provider has seen %+v", n)
	}
	b.configure(up, fmt.Sprintf(one, "maxPerHour: 100"))
	if err := p.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	select {
	case status := <-second:
		if status != 200 {
			t.Errorf("the one that waited: %d", status)
		}
	case <-time.After(20 * time.Second):
		t.Errorf("the one that waited goes on waiting: %s\n%s", stats(t, p), p.said)
	}
	if out, said, code := b.run("reload"); code != 0 || out != "the configuration was read again\n" {
		t.Errorf("a good one: exit code %d, %s%s", code, out, said)
	}
	// What a running proxy cannot take is said as long as it is so.
	b.configure(up, "clientTimeoutMs: 3000\n"+fmt.Sprintf(one, "maxPerHour: 100"))
	for range 2 {
		if out, said, code := b.run("reload"); code != 0 || !strings.Contains(out, "at the next start take effect: clientTimeoutMs") {
			t.Errorf("what needs a start: exit code %d, %s%s", code, out, said)
		}
	}
}

// Whoever reads the log may go: paceline serve 2>&1 | head -1.
func TestLogLost(t *testing.T) {
	up, _ := provider(t, stub.Config{})
	b := newBox(t)
	b.configure(up, fmt.Sprintf(one, ""))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := b.command("serve")
	c.Stdout, c.Stderr = w, w
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	p := &proc{Cmd: c, said: &lines{}, ended: make(chan struct{})}
	go func() {
		p.err = c.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		<-p.ended
	})
	if _, err := r.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	r.Close()
	await(t, func() bool { s, live := b.Live(t.Context()); p.Server = s; return live })
	for i := range 3 {
		if status, _, answer, err := chat(t.Context(), p.URL(), prompt(i)); status != 200 || err != nil {
			t.Fatalf("%d %s %v", status, answer, err)
		}
	}
	p.stop(t, syscall.SIGTERM)
	if p.err != nil {
		t.Errorf("told to stop, it fails: %v", p.err)
	}
}

func TestStopAndRestart(t *testing.T) {
	b := newBox(t)
	for _, command := range []string{"stop", "reload", "env"} {
		if _, said, code := b.run(command); code != 1 || said != "paceline: no proxy runs for this home; start one with paceline serve\n" {
			t.Errorf("%s without a proxy: exit code %d, %s", command, code, said)
		}
	}
	file := filepath.Join(t.TempDir(), "other.yaml")
	if err := os.WriteFile(file, []byte("listen: localhost:0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	old := b.serve("--config", file)
	out, said, code := b.run("restart")
	now, live := b.Live(t.Context())
	if code != 0 || !live || now.PID == old.PID || now.Port != old.Port || now.Config != file {
		t.Errorf("restart: exit code %d, %s%s\nwas %+v\nis %+v", code, out, said, old.Server, now)
	}
	old.wait(t)
	out, _, code = b.run("stop")
	if _, live := b.Live(t.Context()); code != 0 || live || !strings.Contains(out, strconv.Itoa(now.PID)) {
		t.Errorf("stop: exit code %d, %s; live %v", code, out, live)
	}
	if log, err := os.ReadFile(b.ServeLog()); err != nil || !bytes.Contains(log, []byte("serving at "+now.URL())) {
		t.Errorf("the log in the home: %s, %v", log, err)
	}
}

// stop says that a proxy has stopped when its process is gone, or that it
// still passes on answers.
func TestStopSays(t *testing.T) {
	up, meter := provider(t, stub.Config{Service: 10 * time.Second})
	b := newBox(t)
	b.configure(up, fmt.Sprintf(one, ""))
	p := b.serve()
	if status, _, answer, err := chat(t.Context(), p.URL()+"/nobody", prompt(1)); status/100 == 2 || err != nil {
		t.Fatalf("%d %s %v", status, answer, err)
	}
	out, said, code := b.run("stop")
	if code != 0 || out != fmt.Sprintf("stopped (pid %d, port %d)\n", p.PID, p.Port) {
		t.Errorf("exit code %d: %s%s", code, out, said)
	}
	select {
	case <-p.ended:
	case <-time.After(time.Second): // it is this test that has to see the end
		t.Error("it is said to have stopped, and runs")
	}

	p = b.serve()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go chat(ctx, p.URL(), prompt(2))
	await(t, func() bool { return meter.Counts().PeakLive == 1 })
	out, said, code = b.run("stop")
	if want := fmt.Sprintf("stopping (pid %d, port %d): it sends nothing any more, and still passes on answers (1 answer under way when it was told)\n", p.PID, p.Port); code != 0 || out != want {
		t.Errorf("exit code %d: %s%s, want %s", code, out, said, want)
	}
	if b.serve(); p.Dead() {
		t.Error("it has cut an answer")
	}
}

// Whatever is damaged in the home, the proxy serves, and says what it found.
func TestDamage(t *testing.T) {
	up, _ := provider(t, stub.Config{})
	b := newBox(t)
	b.configure(up, fmt.Sprintf(one, "maxPerHour: 100"))
	p := b.serve()
	chat(t.Context(), p.URL(), prompt(1))
	p.stop(t, syscall.SIGTERM)
	files := []string{b.Journal(), b.Log(), b.ServerFile(), b.TokenFile(), b.Places()}
	states, _ := filepath.Glob(filepath.Join(b.RateLimits(), "*"))
	for _, f := range append(files, states...) {
		if err := os.WriteFile(f, []byte("\x00\x01 nonsense, of some length: "+strings.Repeat("x", 8192)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p = b.serve()
	if status, _, answer, err := chat(t.Context(), p.URL(), prompt(2)); status != 200 || err != nil {
		t.Errorf("%d %s %v", status, answer, err)
	}
	for _, what := range []string{"journal was damaged", "places in line were lost", "server.json could not be read", "a new token is made", "log"} {
		if !strings.Contains(p.said.String(), what) {
			t.Errorf("%q is not said: %s", what, p.said)
		}
	}
}

func TestBadHome(t *testing.T) {
	b := newBox(t)
	if err := os.WriteFile(b.Dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, said, code := b.run("serve")
	if code != 1 || !strings.Contains(said, "is not a directory: move the file away, or set PACELINE_HOME") {
		t.Errorf("a file in its place: exit code %d, %s", code, said)
	}
	if err := os.Remove(b.Dir); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		b.env[0] = "PACELINE_HOME=/proc/paceline" // root may write everywhere else
	} else if err := os.Mkdir(b.Dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if _, said, code = b.run("serve"); code != 1 || !strings.Contains(said, "the home ") || !strings.Contains(said, "cannot be") {
		t.Errorf("not writable: exit code %d, %s", code, said)
	}
}

// A disk that fills up while it serves stops no request.
func TestFullDisk(t *testing.T) {
	up, _ := provider(t, stub.Config{})
	b := newBox(t)
	if err := os.MkdirAll(b.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := mountSmall(b.Dir, 1<<20); err != nil {
		t.Skipf("a small disk cannot be made here: %v", err)
	}
	t.Cleanup(func() { _ = unmount(b.Dir) })
	b.configure(up, fmt.Sprintf(one, "maxPerHour: 1000"))
	p := b.serve()
	t.Cleanup(func() { // before the disk goes
		_ = p.Process.Kill()
		<-p.ended
	})
	fill(t, filepath.Join(b.Dir, "filler"))
	for i := range 50 {
		if status, _, answer, err := chat(t.Context(), p.URL(), prompt(i)); status != 200 || err != nil {
			t.Fatalf("request %d: %d %s %v", i, status, answer, err)
		}
	}
	await(t, func() bool { return strings.Contains(p.said.String(), "no space left") })
	p.stop(t, syscall.SIGTERM)
	// And one that starts on it says so, and loses nothing.
	if _, said, code := b.run("serve"); code != 1 || !strings.Contains(said, "is full: make room") {
		t.Errorf("starting on it: exit code %d, %s", code, said)
	}
}

// fill writes to a file until nothing fits any more.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{4096, 1} {
		w := bufio.NewWriterSize(f, size)
		for err = nil; err == nil; {
			_, err = w.Write(make([]byte, size))
		}
	}
}

// A damaged file of what is kept hides no pause that the running proxy knows of,
// and is said where one may be in it.
func TestWaitWithADamagedStore(t *testing.T) {
	b := newBox(t)
	b.configure(nil, "providers: {st: {baseURL: http://127.0.0.1:9/v1}}\n")
	p := b.serve()
	if _, errs, code := b.run("pause", "st", "--for", "1h"); code != 0 {
		t.Fatal(errs)
	}
	files, _ := filepath.Glob(filepath.Join(b.RateLimits(), "*.json"))
	if len(files) != 1 {
		t.Fatal(files)
	}
	if err := os.WriteFile(files[0], []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, errs, code := b.run("wait", "st", "--for", "0s", "--json"); code != exitLimited || !strings.Contains(out, `"headroom":false`) {
		t.Errorf("while the proxy runs: exit code %d, %s%s", code, out, errs)
	}
	p.stop(t, syscall.SIGKILL)
	if err := os.WriteFile(files[0], []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, code := b.run("wait", "st", "--for", "0s")
	if code != 0 || out != "" || !strings.Contains(errs, files[0]) || !strings.Contains(errs, "a pause in it is not known; paceline doctor says what to do\n") {
		t.Errorf("without a proxy: exit code %d, %s%s", code, out, errs)
	}
}
