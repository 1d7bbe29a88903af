package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/stub"
)

// A scripted provider answers what it is told to, and notes what it was asked.
type scripted struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
	when  []time.Time
	heads []http.Header
}

// scriptedBy answers the n-th request, counted from 1, with answer.
func scriptedBy(t *testing.T, answer func(w http.ResponseWriter, n int)) *scripted {
	t.Helper()
	p := &scripted{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		p.mu.Lock()
		p.asked, p.when, p.heads = append(p.asked, r.URL.Path+" "+string(b)), append(p.when, time.Now()), append(p.heads, r.Header)
		n := len(p.asked)
		p.mu.Unlock()
		answer(w, n)
	}))
	t.Cleanup(p.CloseClientConnections)
	t.Cleanup(p.Close)
	return p
}

func (p *scripted) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked)
}

const answered = `{"choices":[{"message":{"role":"assistant","content":"Rhine"},"finish_reason":"stop"}]}`

// tight says that nothing is left, and that one fits in so many seconds.
func tight(w http.ResponseWriter, seconds int) {
	w.Header().Set("X-Ratelimit-Limit-Requests", "1")
	w.Header().Set("X-Ratelimit-Remaining-Requests", "0")
	w.Header().Set("X-Ratelimit-Reset-Requests", fmt.Sprintf("%ds", seconds))
	io.WriteString(w, answered)
}

const st = "idleExitMs: 1m\nproviders: {st: {baseURL: STUB, dialect: openai}, cl: {baseURL: STUB, dialect: anthropic}}\n"

// run answers with the text alone, streamed or not, of either API, and with the
// answer as it came.
func TestRunAnswers(t *testing.T) {
	p, s := provider(t, stub.Config{})
	b := newBox(t)
	b.configure(p, st)
	for _, c := range []struct {
		stdin string
		args  string
		want  string
	}{
		{"", "-m st/x hi", "This is generation 1.\n"},
		{"", "-m st/x --stream hi", "This is generation 2.\n"},
		{"", "-p cl -m claude-x --system short hi", "This is generation 3.\n"},
		{"", "-m cl/claude-x --stream --max-tokens 7 hi", "This is generation 4.\n"},
		{"hi\n", "-m st/x", "This is generation 5.\n"},
		{"a\nb\n", "-m st/x sum: -", "This is generation 6.\n"},
		{"", `-p st -d {"model":"x"}`, `{"choices":[`},
		{`{"model":"x","input":"y"}`, `-p st -d @- --path /v1/embeddings`, `{"data":[{"embedding":`},
		{"", "-m st/x --json hi", `{"choices":[`},
	} {
		cmd := b.command(append([]string{"run"}, strings.Fields(c.args)...)...)
		cmd.Stdin = strings.NewReader(c.stdin)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil || stderr.Len() > 0 || !strings.HasPrefix(string(out), c.want) || strings.HasSuffix(c.want, "\n") && string(out) != c.want {
			t.Errorf("%s: %v\n%s%s", c.args, err, out, &stderr)
		}
	}
	if n := s.Counts().Admitted; n != 9 {
		t.Errorf("%d requests arrived", n)
	}
}

// What is sent is what was asked for, with the key of the usual variable, and
// nothing of ours.
func TestRunSends(t *testing.T) {
	p := scriptedBy(t, func(w http.ResponseWriter, n int) { io.WriteString(w, answered) })
	b := newBox(t)
	b.configure(p.Server, st)
	b.env = append(b.env, "ST_API_KEY=sk-mine")
	if out, errs, code := b.run("run", "-m", "st/x", "-s", "short", "--max-tokens", "5", "name", "a river"); out != "Rhine\n" || errs != "" || code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if got, want := p.asked[0], `/v1/chat/completions {"max_tokens":5,"messages":[{"role":"system","content":"short"},{"role":"user","content":"name a river"}],"model":"x"}`; got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
	if key := p.heads[0].Get("Authorization"); key != "Bearer sk-mine" {
		t.Errorf("the key is %q", key)
	}
	for name := range p.heads[0] {
		if strings.HasPrefix(name, "X-Paceline") {
			t.Errorf("%s went out", name)
		}
	}
	// It went through the proxy of the home, as P-04 wants it: that has its row.
	await(t, func() bool {
		out, _, _ := b.run("log", "--json")
		return strings.Count(out, `"client":"run"`) == 1
	})
}

// What is wrong is said, with what to do, and nothing is printed as a result.
func TestRunFails(t *testing.T) {
	refuse := func(status int, body string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { w.WriteHeader(status); io.WriteString(w, body) }
	}
	const lateError = "data: {\"delta\":\"Rh\"}\n\ndata: {\"error\":{\"message\":\"went away\"}}\n\ndata: [DONE]\n\n"
	cases := []struct {
		name   string
		answer func(http.ResponseWriter)
		args   []string
		code   int
		says   string
	}{
		{"a wrong key", refuse(401, `{"error":{"message":"Incorrect API key"}}`), nil, 1, "st answered 401: Incorrect API key (the key is that of ST_API_KEY)"},
		{"an error", refuse(400, `{"error":{"message":"no such model"}}`), nil, 1, "st answered 400: no such model"},
		{"a server error", refuse(500, `oops`), nil, 1, "st answered 500: oops"},
		{"no JSON", refuse(200, `<html>`), nil, 1, "cannot be read"},
		{"an error in a stream", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"Rh\"}}]}\n\ndata: {\"error\":{\"message\":\"went away\"}}\n\n")
		}, []string{"--stream"}, 1, "the answer of st is not whole: went away"},
		{"an error in a stream as it comes", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, lateError)
		}, []string{"--stream", "--json"}, 1, "the answer of st is not whole: went away"},
		{"a cut stream", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"Rh\"}}]}\n\n")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, []string{"--stream"}, 1, "the answer of st is not whole: unexpected EOF"},
		{"a limit", func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "1")
			refuse(429, `{"error":{"message":"slow down"}}`)(w)
		}, nil, 5, "st answered 429: slow down; try again in 1s, at 20"},
	}
	p := scriptedBy(t, func(w http.ResponseWriter, n int) { cases[n-1].answer(w) })
	b := newBox(t)
	b.configure(p.Server, "providers: {st: {baseURL: STUB, dialect: openai, retry: {max: 0, max5xx: 0}}}\n")
	b.env = append(b.env, "ST_API_KEY=sk-mine")
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			out, errs, code := b.run(append(append([]string{"run", "-m", "st/x"}, c.args...), "hi")...)
			if code != c.code || !strings.Contains(errs, c.says) || strings.Count(errs, "\n") != 1 {
				t.Errorf("exit %d: %s", code, errs)
			}
			if out != "" && out != "Rh\n" && out != lateError || strings.Contains(c.name, "as it comes") && out == "" {
				t.Errorf("printed %q", out)
			}
		})
	}
}

// The first refusal says until when, and those of the proxy that follow it what a
// person at a command line can do.
func TestRunRefusedForPause(t *testing.T) {
	p := scriptedBy(t, func(w http.ResponseWriter, n int) {
		w.Header().Set("Retry-After", "1200")
		w.WriteHeader(429)
	})
	b := newBox(t)
	b.configure(p.Server, st)
	b.env = append(b.env, "ST_API_KEY=sk-mine")
	for _, says := range []string{
		"st answered 429: 429 Too Many Requests; try again in 20m0s, at 20.*Z, or wait for it: --wait-for-capacity",
		"not sent: 429 Too Many Requests; try again in (20m0|19m5.)s, at 20.*Z, or wait for it: --wait-for-capacity",
		// Another proxy knows of the pause alone.
		"not sent: paceline did not .* Come again then, or wait for it: --wait-for-capacity, or a longer retry.maxWaitMs in paceline.yaml.",
	} {
		if strings.Contains(says, "paceline did not") {
			b.run("stop")
		}
		if _, errs, code := b.run("run", "-m", "st/x", "hi"); code != exitLimited || !regexp.MustCompile("^paceline: "+says+"\n$").MatchString(errs) {
			t.Errorf("exit %d: %s", code, errs)
		}
	}
}

// P-170: the options of a client. P-39, P-40, P-41: what each asks again is a new
// request, which is queued and counted as one.
func TestRunAsksAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		args   []string
		answer func(w http.ResponseWriter, n int)
		asked  int
		code   int
		out    string
	}{
		{"retries", []string{"--retries", "2"}, func(w http.ResponseWriter, n int) {
			if n < 3 {
				w.Header().Set("Retry-After-Ms", "20")
				w.WriteHeader(503)
				return
			}
			io.WriteString(w, answered)
		}, 3, 0, "Rhine\n"},
		{"too few", []string{"--retries", "1"}, func(w http.ResponseWriter, n int) {
			w.Header().Set("Retry-After-Ms", "20")
			w.WriteHeader(503)
		}, 2, 1, ""},
		{"what no repeat helps", []string{"--retries", "5"}, func(w http.ResponseWriter, n int) { w.WriteHeader(400) }, 1, 1, ""},
		{"waitForCapacity", []string{"--wait-for-capacity"}, func(w http.ResponseWriter, n int) {
			if n < 4 {
				w.Header().Set("Retry-After-Ms", "20")
				w.WriteHeader(429)
				return
			}
			io.WriteString(w, answered)
		}, 4, 0, "Rhine\n"},
		{"retryCut", []string{"--retry-cut", "--max-tokens", "8"}, func(w http.ResponseWriter, n int) {
			if n == 1 {
				io.WriteString(w, `{"choices":[{"message":{"content":"Rh"},"finish_reason":"length"}]}`)
				return
			}
			io.WriteString(w, answered)
		}, 2, 0, "Rhine\n"},
		{"retryCut once", []string{"--retry-cut", "--max-tokens", "8"}, func(w http.ResponseWriter, n int) {
			io.WriteString(w, `{"choices":[{"message":{"content":"Rh"},"finish_reason":"length"}]}`)
		}, 2, 0, "Rh\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := scriptedBy(t, c.answer)
			b := newBox(t)
			b.configure(p.Server, "idleExitMs: 1m\nproviders: {st: {baseURL: STUB, dialect: openai, retry: {max: 0, max5xx: 0}}}\n")
			b.env = append(b.env, "ST_API_KEY=sk-mine")
			out, errs, code := b.run(append(append([]string{"run", "-m", "st/x"}, c.args...), "hi")...)
			if out != c.out || code != c.code || p.count() != c.asked {
				t.Errorf("exit %d after %d requests: %q %s", code, p.count(), out, errs)
			}
			if strings.HasPrefix(c.name, "retryCut") && !strings.Contains(p.asked[1], `"max_tokens":16`) {
				t.Errorf("asked again with %s", p.asked[1])
			}
			var rows []map[string]any
			await(t, func() bool {
				rows = nil
				log, _, _ := b.run("log", "--json")
				for line := range strings.Lines(log) {
					var row map[string]any
					if err := json.Unmarshal([]byte(line), &row); err != nil {
						t.Fatal(err)
					}
					rows = append(rows, row)
				}
				return len(rows) == c.asked
			})
			ids := make(map[any]bool)
			for _, row := range rows {
				ids[row["id"]] = true
			}
			// With waitForCapacity the proxy asks again by itself, in one request.
			if c.name != "waitForCapacity" && len(ids) != c.asked {
				t.Errorf("%d requests in %d rows", len(ids), len(rows))
			}
		})
	}
}

// where nobody is there a request waits for a budget up to the timeout of
// the configuration, and is sent then.
func TestRunUnattended(t *testing.T) {
	p := scriptedBy(t, func(w http.ResponseWriter, n int) { tight(w, 100) })
	b := newBox(t)
	b.configure(p.Server, "wait: {delaySecs: 0, timeoutSecs: 2}\n"+st)
	b.env = append(b.env, "ST_API_KEY=sk-mine")
	for range 2 {
		if out, errs, code := b.run("run", "-m", "st/x", "hi"); out != "Rhine\n" || errs != "" || code != 0 {
			t.Fatalf("exit %d: %q %q", code, out, errs)
		}
	}
	if waited := p.when[1].Sub(p.when[0]); waited < 2*time.Second || waited > 20*time.Second {
		t.Errorf("sent after %v", waited)
	}
	// budgets that are not enabled are not waited for, from a reload on.
	b.configure(p.Server, "budget: {enable: false}\nwait: {timeoutSecs: 60}\n"+st)
	if _, errs, code := b.run("reload"); code != 0 {
		t.Fatal(errs)
	}
	if out, errs, code := b.run("run", "-m", "st/x", "hi"); out != "Rhine\n" || code != 0 {
		t.Fatalf("exit %d: %q %q", code, out, errs)
	}
	if waited := p.when[2].Sub(p.when[1]); waited > 20*time.Second {
		t.Errorf("sent after %v", waited)
	}
	if out, _, _ := b.run("limits"); !strings.Contains(out, "from before it was ignored (budget.enable: false)") {
		t.Errorf("limits: %s", out)
	}
}

// A proxy that is killed is said to have gone; the next run starts another.
func TestRunProxyKilled(t *testing.T) {
	b := newBox(t)
	p := scriptedBy(t, func(w http.ResponseWriter, n int) {
		if n == 1 {
			s, err := b.Recorded()
			if err != nil {
				t.Error(err)
				return
			}
			_ = kill(s.PID)
			return
		}
		io.WriteString(w, answered)
	})
	b.configure(p.Server, st)
	b.env = append(b.env, "ST_API_KEY=sk-mine")
	out, errs, code := b.run("run", "-m", "st/x", "hi")
	if out != "" || code != 1 || !strings.Contains(errs, "the proxy has gone before it answered: EOF; its log is ") || !strings.Contains(errs, "--retries 1") {
		t.Errorf("exit %d: %q %s", code, out, errs)
	}
	if out, errs, code = b.run("run", "-m", "st/x", "hi"); out != "Rhine\n" || code != 0 {
		t.Errorf("exit %d: %q %s", code, out, errs)
	}
}

// A proxy that leaves in order sends the request away to come again, to its
// place at the next, which is started if none follows.
func TestRunProxyReplaced(t *testing.T) {
	for command, says := range map[string]string{
		"restart": "",
		"stop":    "paceline: the proxy was stopped while this request waited; another is started for it\n",
	} {
		t.Run(command, func(t *testing.T) { runProxyReplaced(t, command, says) })
	}
}

func runProxyReplaced(t *testing.T, command, says string) {
	p := scriptedBy(t, func(w http.ResponseWriter, n int) { io.WriteString(w, answered) })
	b := newBox(t)
	b.configure(p.Server, "idleExitMs: 1m\nproviders: {st: {baseURL: STUB, dialect: openai, limits: {windows: [{calls: 1, perMs: 4s}]}}}\n")
	b.env = append(b.env, "ST_API_KEY=sk-mine")
	if _, errs, code := b.run("run", "-m", "st/x", "hi"); code != 0 {
		t.Fatal(errs)
	}
	c := b.command("run", "-m", "st/x", "hi")
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { s, _, _ := b.run("status", "--line"); return strings.Contains(s, "1 waiting") })
	if _, errs, code := b.run(command); code != 0 {
		t.Fatal(errs)
	}
	if err := c.Wait(); err != nil || out.String() != "Rhine\n" || p.count() != 2 || errs.String() != says {
		t.Errorf("%v: %q %s", err, out.String(), errs.String())
	}
	if waited := p.when[1].Sub(p.when[0]); waited < 3900*time.Millisecond {
		t.Errorf("sent after %v, with 1 per 4 s", waited)
	}
}

// Output that cannot be written is a failure, and one that nobody reads ends
// quietly, before the answer does.
func TestRunOutput(t *testing.T) {
	left := make(chan struct{})
	p := scriptedBy(t, func(w http.ResponseWriter, n int) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			if _, err := io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"Rhine \"}}]}\n\n"); err != nil {
				break
			}
			w.(http.Flusher).Flush()
			time.Sleep(time.Millisecond)
		}
		left <- struct{}{}
	})
	b := newBox(t)
	b.configure(p.Server, st)
	b.env = append(b.env, "ST_API_KEY=sk-mine")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no full disk here")
	}
	defer full.Close()
	gone, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for _, c := range []struct {
		to   *os.File
		says string
		code int
	}{{full, "paceline: cannot write to standard output: no space left on device\n", 1}, {pipe, "", 141}} {
		cmd := b.command("run", "-m", "st/x", "--stream", "hi")
		var errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = c.to, &errs
		err := cmd.Run()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok || exit.ExitCode() != c.code && !exit.Sys().(syscall.WaitStatus).Signaled() || errs.String() != c.says {
			t.Errorf("%v: %q", err, errs.String())
		}
		<-left
	}
}
