package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/budget/file"
	"github.com/paceline-proxy/paceline/limiter/memory"
)

// A victim is a proxy that can be started again and again at one address.
type victim struct {
	url     string // where clients send to
	health  string
	binary  string
	args    []string
	env     []string
	process *exec.Cmd
	out     bytes.Buffer
}

func newVictim(system, binary, home, upstream string) (*victim, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	v := &victim{env: append(os.Environ(), "PACELINE_HOME="+home)}
	switch system {
	case "transport":
		if v.binary, err = os.Executable(); err != nil {
			return nil, err
		}
		address := fmt.Sprintf("127.0.0.1:%d", port)
		v.args = []string{"proxy", "--home", home, "--listen", address, "--upstream", "http://" + upstream}
		v.url, v.health = "http://"+address+"/v1/chat/completions", "http://"+address+"/health"
	case "serve":
		v.binary = binary
		if binary == "" {
			if v.binary, err = build(home); err != nil {
				return nil, err
			}
		}
		config := filepath.Join(home, "paceline.yaml")
		if err := os.WriteFile(config, fmt.Appendf(nil, `providers:
  stub:
    baseURL: http://%s/v1
    dialect: openai
    limits:
      windows: [{calls: %d, perMs: %d}]
      maxConcurrent: %d
      abortHoldMs: %d
      pacing: burst
    retry: {max: 3}
`, upstream, calls, declared.Milliseconds(), places, hold.Milliseconds()), 0o600); err != nil {
			return nil, err
		}
		v.args = []string{"serve", "--config", config, "--port", fmt.Sprint(port)}
		base := fmt.Sprintf("http://127.0.0.1:%d", port)
		v.url, v.health = base+"/stub/v1/chat/completions", base+"/health"
	}
	return v, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// start returns once the proxy answers.
func (v *victim) start() error {
	v.out.Reset()
	v.process = exec.Command(v.binary, v.args...)
	v.process.Env, v.process.Stdout, v.process.Stderr = v.env, &v.out, &v.out
	if err := v.process.Start(); err != nil {
		return err
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if res, err := http.Get(v.health); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
	}
	v.kill()
	return fmt.Errorf("%s does not come up:\n%s", v.binary, v.out.String())
}

func (v *victim) kill() {
	v.process.Process.Kill()
	v.process.Wait()
}

// log counts the rows that "paceline log" reads.
func (v *victim) log() (int, error) {
	cmd := exec.Command(v.binary, "log", "--json", "--since", "1h")
	cmd.Env = v.env
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("paceline log: %w: %s", err, complaint.Bytes())
	}
	n := bytes.Count(out, []byte("\n"))
	if n == 0 {
		return 0, errors.New("paceline log: no rows")
	}
	return n, nil
}

// A load is clients that send as fast as they are let, and again when a
// connection is lost.
type load struct {
	cancel   context.CancelFunc
	done     sync.WaitGroup
	answered atomic.Int64
}

func newLoad(url string) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{cancel: cancel}
	for range 8 {
		l.done.Go(func() {
			for ctx.Err() == nil {
				if !l.send(ctx, url) {
					time.Sleep(20 * time.Millisecond)
				}
			}
		})
	}
	return l
}

func (l *load) send(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer sk-crash")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
		return false
	}
	l.answered.Add(1)
	return true
}

// stop ends the load and says how many got an answer.
func (l *load) stop() int {
	l.cancel()
	l.done.Wait()
	return int(l.answered.Load())
}

// proxy is the child that is killed where the system is transport.
func proxy(args []string) error {
	flags := flag.NewFlagSet("proxy", flag.ContinueOnError)
	home := flags.String("home", "", "where state is kept")
	listen := flags.String("listen", "", "where to serve")
	upstream := flags.String("upstream", "", "base URL of the provider")
	if err := flags.Parse(args); err != nil {
		return err
	}
	target, err := url.Parse(*upstream)
	if err != nil {
		return err
	}
	granted, err := memory.Journal{Path: filepath.Join(*home, "journal"), Hold: hold}.Open()
	if err != nil {
		return err
	}
	store, err := file.Open(filepath.Join(*home, "rate-limits"))
	if err != nil {
		return err
	}
	transport := &paceline.Transport{
		Limiter: granted,
		Store:   store,
		Providers: []paceline.Provider{{
			Name: "stub", BaseURL: *upstream + "/v1", Dialect: "openai",
			Limits: paceline.Limits{
				Windows:       []paceline.Window{{Calls: calls, Per: declared}},
				MaxConcurrent: places,
				AbortHold:     hold,
				Pacing:        paceline.Burst,
			},
		}},
	}
	rewrite := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.WriteHeader(http.StatusBadGateway)
		},
	}
	mux := http.NewServeMux()
	mux.Handle("/v1/", rewrite)
	mux.HandleFunc("/health", func(http.ResponseWriter, *http.Request) {})
	return http.ListenAndServe(*listen, mux)
}
