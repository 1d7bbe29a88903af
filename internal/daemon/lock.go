package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/paceline-proxy/paceline/internal/home"
)

// letGo is how long a predecessor has for letting go of the home.
const letGo = 15 * time.Second

// takeLock takes the home, from a predecessor where that is asked for, and
// returns at which addresses that one served.
func takeLock(ctx context.Context, o Options) (lock *home.Lock, addrs []string, err error) {
	lock, err = o.Home.Lock()
	taken, ok := errors.AsType[*home.Taken](err)
	if !ok || !o.Replace || taken.Elsewhere {
		return lock, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, letGo)
	defer cancel()
	if taken.Server.PID != 0 {
		if err := End(ctx, o.Home, taken.Server); err != nil {
			return nil, nil, err
		}
	}
	for {
		lock, err = o.Home.Lock()
		if _, ok := errors.AsType[*home.Taken](err); !ok {
			return lock, taken.Server.Listen, err
		}
		select {
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("the proxy that was told to stop has not let go of the home in %v: %w", letGo, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// looksAfter is how often a proxy looks whether it has its home still.
const looksAfter = 5 * time.Second

// leaveWithHome stops the proxy when its home has been removed: another can
// start in its place, and two would each spend the whole limit.
func (d *daemon) leaveWithHome(ctx context.Context) {
	look := time.NewTicker(looksAfter)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		if !d.lock.Held() {
			d.Logger.Error("the home was removed while this proxy ran; it stops, and another can be started", "home", d.Home.Dir)
			d.stop()
			return
		}
	}
}

// End tells a proxy of this machine to stop, and returns when it has been
// told. One that does not listen gets a signal.
func End(ctx context.Context, h home.Home, s home.Server) error {
	told, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := h.ClientOf(s).Control(told, "stop", nil, nil)
	if err == nil {
		return nil
	}
	p, e := os.FindProcess(s.PID)
	if e == nil {
		e = p.Signal(syscall.SIGTERM)
	}
	if e != nil && !errors.Is(e, os.ErrProcessDone) {
		return fmt.Errorf("the proxy (%v) could not be told to stop: %w", s, errors.Join(err, e))
	}
	return nil
}
