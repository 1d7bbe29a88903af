package modules

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/paceline-proxy/paceline/limiter/slothttp"
)

// A process is one run of a module.
type process struct {
	host   *host
	cmd    *exec.Cmd
	url    string        // where it answers
	prints chan string   // gets the URL that it prints, if it does
	exited chan struct{} // closed when it has ended
	err    error         // how, once exited is closed

	mu   sync.Mutex
	last []string // of what it wrote to its standard error
}

// environment is what a module is given of ours: what programs need to run at
// all, and none of the keys that may be there beside it.
func environment(ours []string) []string {
	need := []string{"PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"}
	return slices.DeleteFunc(slices.Clone(ours), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		name = strings.ToUpper(name)
		return !slices.Contains(need, name) && !strings.HasPrefix(name, "LC_")
	})
}

// start starts the module and waits until it answers.
func (h *host) start(ctx context.Context) (*process, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, fmt.Errorf("there is no port for the limiter module %s: %w", h.module.Name, err)
	}
	p := &process{host: h, prints: make(chan string, 1), exited: make(chan struct{})}
	p.cmd = exec.Command(h.module.Command[0], h.module.Command[1:]...)
	p.cmd.Dir = h.module.Dir
	p.cmd.Env = append(environment(os.Environ()), "PORT="+port, "PACELINE_SLOT_SECRET="+h.secret)
	out, complaints := &lines{say: p.output()}, &lines{say: p.complain}
	p.cmd.Stdout, p.cmd.Stderr = out, complaints
	p.cmd.WaitDelay = time.Second // what it leaves behind may hold its output
	p.cmd.SysProcAttr = alone()
	started := make(chan error)
	go func() {
		// On Linux the module ends with the thread that started it.
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			kill(p.cmd) // what it has started goes, too
			out.flush()
			complaints.flush()
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("the limiter module %s cannot be started in %s: %w; correct command: in its manifest", h.module.Name, h.module.Dir, err)
	}
	if err := p.ready(ctx, port); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// freePort is a port of this machine that nobody listens at now.
func freePort(ctx context.Context) (string, error) {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}

// ready waits until the module answers: where its manifest says, or where it
// says itself, or at its port.
func (p *process) ready(ctx context.Context, port string) error {
	ctx, cancel := context.WithTimeout(ctx, p.host.within)
	defer cancel()
	p.url = p.host.module.URL
	fixed := p.url != ""
	if !fixed {
		p.url = "http://127.0.0.1:" + port
	}
	name := p.host.module.Name
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		if slothttp.Health(ctx, p.url) == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("the limiter module %s ended before it answered: %s%s; try its command in %s: %s",
				name, p.how(), p.said(), p.host.module.Dir, strings.Join(p.host.module.Command, " "))
		case url := <-p.prints:
			if !fixed {
				p.url, wait = url, 0
			}
		case <-ctx.Done():
			return fmt.Errorf("the limiter module %s runs and does not answer GET /health at %s (%w)%s; have it listen at 127.0.0.1 and the PORT of its environment, or print its URL as the first line of its output",
				name, p.host.hidden.in(p.url), context.Cause(ctx), p.said())
		case <-time.After(wait):
		}
	}
}

// end ends the process, orderly where it lets that happen.
func (p *process) end() {
	select {
	case <-p.exited:
		return
	default:
		terminate(p.cmd)
	}
	select {
	case <-p.exited:
	case <-time.After(graceful):
		kill(p.cmd)
		<-p.exited
	}
}

// graceful is how long a module has for leaving once it is told to.
const graceful = 3 * time.Second

// how it ended.
func (p *process) how() string {
	if p.err == nil {
		return "exit status 0"
	}
	return p.err.Error()
}

// said is what the module wrote last, for the end of an error.
func (p *process) said() string {
	if tail := p.tail(); tail != "" {
		return "; it said: " + tail
	}
	return "; it said nothing"
}

// tail is what it wrote last to its standard error.
func (p *process) tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.last, " | ")
}

// Of what a module complains these many lines are kept, for errors.
const tailLines = 5

func (p *process) complain(line string) {
	line = p.host.hidden.in(line)
	p.host.logger.Warn("the limiter module says", "line", line)
	if runes := []rune(line); len(runes) > 300 {
		line = string(runes[:300]) + "…"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = append(p.last, line)
	p.last = p.last[max(0, len(p.last)-tailLines):]
}

// output takes what the module prints: its URL, where that comes first.
func (p *process) output() func(line string) {
	first := true
	return func(line string) {
		if first && isURL(line) {
			p.prints <- strings.TrimSpace(line)
		} else {
			p.host.logger.Info("the limiter module says", "line", p.host.hidden.in(line))
		}
		first = false
	}
}

func isURL(line string) bool {
	line = strings.TrimSpace(line)
	u, err := url.Parse(line)
	return err == nil && !strings.ContainsAny(line, " \t") && (u.Scheme == "http" && u.Host != "" || u.Scheme == "https" && u.Host != "" || u.Scheme == "unix")
}

// lines hands on what is written to it line by line.
type lines struct {
	say  func(line string)
	rest []byte
}

// mostLine bounds a line. What is longer is cut up.
const mostLine = 8 << 10

func (l *lines) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		end := bytes.IndexByte(l.rest, '\n')
		switch {
		case end >= 0:
			l.hand(end)
			l.rest = l.rest[1:]
		case len(l.rest) >= mostLine:
			l.hand(mostLine)
		default:
			return len(b), nil
		}
	}
}

// flush hands on a line without an end.
func (l *lines) flush() { l.hand(len(l.rest)) }

func (l *lines) hand(n int) {
	if line := strings.TrimRight(string(l.rest[:n]), "\r"); line != "" {
		l.say(strings.ToValidUTF8(line, "?"))
	}
	l.rest = l.rest[n:]
}
