package daemon

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/paceline-proxy/paceline/internal/home"
)

// use is who uses the proxy: how many requests are being answered, when the
// last one came, and which commands had requests of theirs come through.
type use struct {
	mu       sync.Mutex
	active   int
	last     time.Time
	caught   map[string]int
	draining bool
}

// ours reports whether a path is of the pages that keep no proxy alive.
func ours(path string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch name {
	case "health", "healthz", "ready", "readyz", "stats", "metrics", "ui", "control":
		return true
	}
	return false
}

// execMark finds the mark that an exec puts into the base URL, in a path that is
// still escaped.
var execMark = regexp.MustCompile(`^(?:/~[^/]+)?/as/(?:[^/]*,)?purpose=(` + home.MarkPattern + `)(?:[,/]|$)`)

// mostCaught bounds what strange marks can make us remember.
const mostCaught = 1 << 12

// count keeps the figures, around a handler, and tells an exec what it caught.
func (u *use) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if mark, ok := strings.CutPrefix(r.URL.Path, home.CaughtPath); ok && r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(home.Caught{Requests: u.caughtBy(mark)}) // its client has left
			return
		}
		if u.begin(r.URL.EscapedPath()) {
			// The next request belongs to the successor.
			w.Header().Set("Connection", "close")
		}
		defer u.end()
		next.ServeHTTP(w, r)
	})
}

// begin takes a request by its escaped path.
func (u *use) begin(path string) (draining bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.active++
	if !ours(path) {
		u.last = time.Now()
	}
	if !strings.Contains(path, "/as/") {
		return u.draining // most say nothing of themselves
	}
	if m := execMark.FindStringSubmatch(path); m != nil {
		if u.caught == nil || len(u.caught) >= mostCaught {
			u.caught = make(map[string]int)
		}
		u.caught[m[1]]++
	}
	return u.draining
}

func (u *use) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.active--
}

func (u *use) caughtBy(mark string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.caught[mark]
}

// drain has the answers that follow close their connections. It returns how
// many requests are being answered, and when the last one came.
func (u *use) drain() (active int, last time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.draining = true
	return u.active, u.last
}

// idleSince is when the last request came, now while one is being answered.
func (u *use) idleSince(started time.Time) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.active > 0:
		return time.Now()
	case u.last.Before(started):
		return started
	}
	return u.last
}

// leaveWhenIdle stops the proxy when it has not been used for idleExitMs, and
// no command that was started with exec runs.
func (d *daemon) leaveWhenIdle(ctx context.Context) {
	since := d.started
	for {
		d.mu.Lock()
		after := d.config.IdleExit
		d.mu.Unlock()
		if after <= 0 {
			return
		}
		rest := time.Until(since.Add(after))
		if rest <= 0 {
			// Who starts an exec from here on waits until the home is free.
			if d.idle = d.Home.NoExecs(); d.idle != nil {
				d.Logger.Info("nobody has used this proxy: it leaves", "after", after)
				d.stop()
				return
			}
			since = time.Now()
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(rest):
			since = d.use.idleSince(d.started)
		}
	}
}
