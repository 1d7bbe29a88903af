package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/paceline-proxy/paceline/internal/daemon"
	"github.com/paceline-proxy/paceline/internal/home"
)

// answer is what the provider says: 1 KiB of JSON.
var answer = `{"id":"1","object":"chat.completion","model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18},"pad":"` +
	strings.Repeat("x", 880) + `"}`

// serveChild is this program as one of the systems. It prints its address, and
// then for each line of its input the processor time it has used, in
// nanoseconds.
func serveChild(what, at, dir string, limit int) error {
	if *profiles != "" {
		stop, err := profile(filepath.Join(*profiles, what))
		if err != nil {
			return err
		}
		defer stop()
	}
	switch what {
	case "provider":
		go listen(http.HandlerFunc(provide))
	case "bare":
		target := &url.URL{Scheme: "http", Host: at}
		p := httputil.NewSingleHostReverseProxy(target)
		p.Transport = &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true}
		go listen(p)
	case "paceline":
		if err := configure(dir, at, limit); err != nil {
			return err
		}
		go func() {
			err := daemon.Run(context.Background(), daemon.Options{
				Home: home.Home{Dir: dir}, ConfigFile: filepath.Join(dir, "paceline.yaml"), Listen: []string{"127.0.0.1:0"},
				Ready: func(s home.Server) { fmt.Println(net.JoinHostPort(s.Host, strconv.Itoa(s.Port))) },
			})
			fmt.Fprintln(os.Stderr, "paceline:", err)
			os.Exit(1)
		}()
	default:
		return fmt.Errorf("there is no child %q", what)
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var used syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
			return err
		}
		fmt.Println(used.Utime.Nano() + used.Stime.Nano())
	}
	return nil
}

// profile writes what the process does with its time to NAME.cpu, and what it
// has allocated to NAME.mem.
func profile(name string) (stop func(), err error) {
	cpu, err := os.Create(name + ".cpu")
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		mem, err := os.Create(name + ".mem")
		if err == nil {
			err = errors.Join(pprof.Lookup("allocs").WriteTo(mem, 0), mem.Close(), cpu.Close())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "profile:", err)
		}
	}, nil
}

func configure(dir, at string, limit int) error {
	limits := ""
	if limit > 0 {
		limits = fmt.Sprintf("    limits: {maxPerSecond: %d}\n", limit)
	}
	return os.WriteFile(filepath.Join(dir, "paceline.yaml"), []byte("providers:\n  bench:\n    baseURL: http://"+at+"/v1\n"+limits), 0o600)
}

func listen(h http.Handler) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		fmt.Println(l.Addr())
		err = http.Serve(l, h)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// provide answers after the time that the path's end says, and notes in the
// answer when the request came.
func provide(w http.ResponseWriter, r *http.Request) {
	came := time.Now()
	io.Copy(io.Discard, r.Body)
	if d, err := time.ParseDuration(r.Header.Get("X-Service")); err == nil && d > 0 {
		time.Sleep(d)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Came", strconv.FormatInt(came.UnixNano(), 10))
	io.WriteString(w, answer)
}

// A child is one of the systems, running.
type child struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	addr string
}

// start runs this program as a system.
func start(ctx context.Context, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, self, append(args, "-profiles", *profiles)...)}
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	if !c.out.Scan() {
		c.stop()
		return nil, fmt.Errorf("%v did not start", args)
	}
	c.addr = c.out.Text()
	return c, nil
}

// used is the processor time the child has used so far.
func (c *child) used() (time.Duration, error) {
	if _, err := io.WriteString(c.in, "\n"); err != nil {
		return 0, err
	}
	if !c.out.Scan() {
		return 0, fmt.Errorf("the child has gone")
	}
	ns, err := strconv.ParseInt(c.out.Text(), 10, 64)
	return time.Duration(ns), err
}

// stop has the child leave.
func (c *child) stop() {
	c.in.Close()
	c.cmd.Wait()
}

// systems are a provider, a bare ReverseProxy and paceline in front of it.
type systems struct {
	provider, bare, paceline *child
	home                     string
}

func startAll(ctx context.Context, limit int) (s systems, err error) {
	if s.home, err = os.MkdirTemp("", "paceline-bench"); err != nil {
		return s, err
	}
	if s.provider, err = start(ctx, "-child", "provider"); err != nil {
		return s, err
	}
	if s.bare, err = start(ctx, "-child", "bare", "-at", s.provider.addr); err != nil {
		return s, err
	}
	s.paceline, err = start(ctx, "-child", "paceline", "-at", s.provider.addr, "-home", s.home, "-limit", strconv.Itoa(limit))
	return s, err
}

func (s systems) stop() {
	for _, c := range []*child{s.paceline, s.bare, s.provider} {
		if c != nil {
			c.stop()
		}
	}
	os.RemoveAll(s.home)
}
