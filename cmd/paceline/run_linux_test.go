package main

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/ptytest"
)

// A person at a real terminal, who runs the real program: every answer to the
// prompt, with the line and the prompt before it.
// are proven to the instant in package terminal.
func TestRunAtTerminal(t *testing.T) {
	const prompt = `st: waited \d+\.\d s for requests[^\n]*to go\r\nProjected: 0 of 1 left[^\n]*\r\n\[w\] continue waiting  \[s\] send anyway  \[c\] cancel `
	const line = `st: waiting for requests[^\n]*: \d+\.\d s of about \d+\.\d s`
	for _, c := range []struct {
		name string
		do   func(*ptytest.Terminal)
		code int
		sent int
		out  string
	}{
		{"send anyway", func(p *ptytest.Terminal) {
			p.Await(line)
			p.Await(prompt)
			p.Press("s")
		}, 0, 2, "Rhine\n"},
		{"cancel", func(p *ptytest.Terminal) {
			p.Await(prompt)
			p.Press("c")
			p.Await("paceline: cancelled while it waited; it was not sent\r\n")
		}, 4, 1, ""},
		{"Ctrl-C asks, and the second ends it", func(p *ptytest.Terminal) {
			p.Await(line)
			p.Press("\x03")
			p.Await(prompt)
			p.Press("w")
			p.Await(line)
			p.Press("\x03")
			p.Await(prompt)
			p.Press("\x03")
			p.Await("paceline: interrupted while it waited; it was not sent\r\n")
		}, 130, 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			upstream := scriptedBy(t, func(w http.ResponseWriter, n int) { tight(w, 100) })
			b := newBox(t)
			b.configure(upstream.Server, "wait: {delaySecs: 0, timeoutSecs: 2}\n"+st)
			b.env = append(b.env, "ST_API_KEY=sk-mine", "TERM=xterm")
			if _, errs, code := b.run("run", "-m", "st/x", "hi"); code != 0 {
				t.Fatal(errs)
			}
			var out bytes.Buffer
			cmd := b.command("run", "-m", "st/x", "hi")
			cmd.Stdout = &out
			p := ptytest.Start(t, cmd)
			c.do(p)
			if code := p.Wait(); code != c.code {
				t.Errorf("exit %d, want %d\n%q", code, c.code, p)
			}
			if out.String() != c.out || upstream.count() != c.sent {
				t.Errorf("printed %q, sent %d", out.String(), upstream.count())
			}
			if !p.Cooked() {
				t.Error("the terminal is not as it was")
			}
			// Nothing waits on.
			await(t, func() bool { s, _, _ := b.run("status", "--line"); return strings.HasPrefix(s, "0 active, 0 waiting") })
		})
	}
}

// What a provider stated is not sent into, whoever wants it; and the answer on a
// terminal comes as it is written, where the line was.
func TestRunStatedWaitAtTerminal(t *testing.T) {
	upstream := scriptedBy(t, func(w http.ResponseWriter, n int) {
		if n == 1 {
			w.Header().Set("Retry-After", "4")
			w.WriteHeader(429)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"Rhine\"}}]}\n\ndata: [DONE]\n\n")
	})
	b := newBox(t)
	b.configure(upstream.Server, "wait: {delaySecs: 0, timeoutSecs: 1}\n"+st)
	b.env = append(b.env, "ST_API_KEY=sk-mine", "TERM=xterm")
	p := ptytest.Start(t, b.command("run", "-m", "st/x", "hi"))
	seen := p.Await(`\[w\] continue waiting  \[c\] cancel `)
	if !strings.Contains(seen, "The provider stated this wait, so nothing is sent before") {
		t.Errorf("%q", seen)
	}
	p.Press("s")
	p.Await("\x1b\\[2A\r\x1b\\[JRhine\r\n") // the prompt goes by itself
	if code := p.Wait(); code != 0 {
		t.Errorf("exit %d\n%q", code, p)
	}
	if waited := upstream.when[1].Sub(upstream.when[0]); waited < 4*time.Second {
		t.Errorf("sent after %v", waited)
	}
	if !strings.Contains(upstream.asked[0], `"stream":true`) {
		t.Error("no stream was asked for")
	}
}

// wait shows a line at a terminal, and nothing of it is left.
func TestWaitAtTerminal(t *testing.T) {
	b := newBox(t)
	b.configure(nil, "providers: {st: {baseURL: http://127.0.0.1:9/v1}}\n")
	b.env = append(b.env, "TERM=xterm")
	b.serve("--port", "0")
	if _, errs, code := b.run("pause", "st", "--for", "3s"); code != 0 {
		t.Fatal(errs)
	}
	p := ptytest.Start(t, b.command("wait", "st"))
	p.Await(`st: waiting for pause: paused \(operator\)[^\n]*: \d\.\d s of about \d\.\d s`)
	if code := p.Wait(); code != 0 || !strings.HasSuffix(p.String(), "\r\x1b[J") {
		t.Errorf("exit %d\n%q", code, p)
	}
}
