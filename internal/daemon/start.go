package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline/internal/home"
)

// startWithin is how long a proxy has for beginning to serve.
const startWithin = 20 * time.Second

// Start runs this program with args, which have it serve, as a process of its
// own that outlives this one and writes to the home's log. It returns when a
// proxy of the home answers: that one, or another that was faster.
func Start(ctx context.Context, h home.Home, args ...string) (home.Server, error) {
	if err := h.Make(); err != nil {
		return home.Server{}, err
	}
	program, err := os.Executable()
	if err != nil {
		return home.Server{}, err
	}
	log, err := os.OpenFile(h.ServeLog(), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return home.Server{}, err
	}
	defer log.Close()
	before, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return home.Server{}, err
	}
	c := exec.Command(program, args...)
	c.Args[0] = "paceline"
	c.Dir = h.Dir                                        // it keeps no other directory busy
	c.Env = append(os.Environ(), "PACELINE_HOME="+h.Dir) // which may be relative here
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = detached()
	if err := c.Start(); err != nil {
		return home.Server{}, err
	}
	exited := make(chan error, 1)
	go func() { exited <- c.Wait() }()

	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for {
		s, live := h.Live(ctx)
		if live && s.PID == c.Process.Pid {
			return s, nil
		}
		select {
		case err := <-exited:
			if s, live := h.Live(ctx); live && err != nil {
				return s, nil // another one was faster
			}
			return home.Server{}, fmt.Errorf("the proxy did not start: %s", said(log, before))
		case <-ctx.Done():
			return home.Server{}, errors.Join(fmt.Errorf("the proxy does not answer; its log is %s", h.ServeLog()), context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// said is the last line of what a process wrote from an offset on.
func said(log io.ReaderAt, from int64) string {
	var b bytes.Buffer
	_, _ = io.Copy(&b, io.NewSectionReader(log, from, 64<<10))
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	return strings.TrimPrefix(lines[len(lines)-1], "paceline: ")
}
