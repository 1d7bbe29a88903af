package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/config"
)

// health answers whether the proxy lives, and whether it takes requests. It
// asks nobody who they are.
func (p *Proxy) health(w http.ResponseWriter, r *http.Request, name string) bool {
	status := http.StatusOK
	says := "ok"
	switch name {
	case "health", "healthz":
	case "ready", "readyz":
		if p.draining.Load() {
			status, says = http.StatusServiceUnavailable, "draining"
			w.Header().Set("Retry-After", "1")
		}
	default:
		return false
	}
	if reads(w, r) {
		answer := map[string]string{"status": says}
		if p.o.Version != "" {
			answer["version"] = p.o.Version
		}
		writeJSON(w, status, answer)
	}
	return true
}

// page answers at the proxy's own addresses.
func (p *Proxy) page(w http.ResponseWriter, r *http.Request, s *state, t target) bool {
	switch t.name {
	case "stats", "metrics", "ui", "":
	default:
		return false
	}
	if !reads(w, r) {
		return true
	}
	w.Header().Set("Cache-Control", "no-store")
	switch t.name {
	case "stats":
		writeJSON(w, http.StatusOK, p.o.Status())
	case "metrics":
		p.metrics.handler.ServeHTTP(w, r)
	case "ui":
		p.ui(w, r)
	case "":
		writeJSON(w, http.StatusOK, map[string]any{
			"paceline":  p.o.Version,
			"providers": s.names(),
			"base_url":  "http://" + r.Host + "/PROVIDER",
			"see":       []string{"/ui", "/stats", "/metrics", "/health", "/ready"},
		})
	}
	return true
}

// reads reports whether a request only reads, and refuses it otherwise.
func reads(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	(&failure{http.StatusMethodNotAllowed, "paceline_method", r.URL.Path + " takes GET; a provider's path begins with its name"}).write(w, openAI)
	return false
}

// prefixOnly reports whether a request asks for a bare base URL, as clients do
// to see whether anybody is there.
func prefixOnly(rest string) bool {
	first, after := cutSegment(rest)
	return (first == "" || isVersion(first)) && bare(after)
}

// answerPrefix says that somebody is.
func answerPrefix(w http.ResponseWriter, j *journey) {
	writeJSON(w, http.StatusOK, map[string]string{"provider": j.up.Name, "sends_to": j.up.base.Redacted()})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		(&failure{http.StatusInternalServerError, "paceline_failed", "the answer could not be written: " + err.Error()}).write(w, openAI)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(append(b, '\n'))
}

// maxControl bounds what can be asked for.
const maxControl = 64 << 10

// An order is the body of POST /control/….
type order struct {
	Provider string `json:"provider"`
	ForMs    int64  `json:"for_ms"`
	Why      string `json:"why"`
	What     string `json:"what"`
	Mode     string `json:"mode"`
	ID       string `json:"id"`
}

// control does what the owner of the home asks for.
func (p *Proxy) control(w http.ResponseWriter, r *http.Request, rest string, home bool) {
	fail := func(status int, message string) {
		(&failure{status, "paceline_control", message}).write(w, openAI)
	}
	name := strings.Trim(rest, "/")
	if !home {
		fail(http.StatusUnauthorized, "/control is for the owner of the proxy: send the token of its home as X-Paceline-Token; the paceline commands do")
		return
	}
	if r.Method == http.MethodGet && p.waits.answer(w, name) {
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		fail(http.StatusMethodNotAllowed, "/control/"+name+" takes POST")
		return
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		fail(http.StatusUnsupportedMediaType, "send the order as JSON, with Content-Type: application/json")
		return
	}
	var o order
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxControl))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		fail(http.StatusBadRequest, fmt.Sprintf(`the order cannot be read: %v; it is a JSON object of "provider", "for_ms", "why", "what", "mode" and "id"`, err))
		return
	}
	if _, err := d.Token(); err != io.EOF {
		fail(http.StatusBadRequest, "there is something after the order: send one JSON object")
		return
	}
	do := p.order(name, o)
	if do == nil {
		fail(http.StatusNotFound, "there is no /control/"+name+": there are pause, resume, clear, mode, anyway, reload and stop, and GET /control/waits")
		return
	}
	if err := do(); err != nil {
		fail(http.StatusBadRequest, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, map[string]bool{"ok": true})
}

// order is what an order asks for, nil where it is none.
func (p *Proxy) order(name string, o order) func() error {
	switch name {
	case "pause":
		return p.known(o.Provider, func() error {
			var until time.Time // without an end
			if o.ForMs < 0 || o.ForMs > int64(100*365*24*time.Hour/time.Millisecond) {
				return fmt.Errorf("for_ms is %d: give the milliseconds of the pause, or 0 for one without end", o.ForMs)
			} else if o.ForMs > 0 {
				until = time.Now().Add(time.Duration(o.ForMs) * time.Millisecond)
			}
			return p.o.Transport.Pause(o.Provider, until, o.Why)
		})
	case "resume":
		return p.known(o.Provider, func() error { return p.o.Transport.Resume(o.Provider) })
	case "clear":
		return p.known(o.Provider, func() error {
			switch what := paceline.Cleared(o.What); what {
			case paceline.ClearLearned, paceline.ClearBudget, paceline.ClearAll:
				return p.o.Transport.Clear(o.Provider, what)
			}
			return fmt.Errorf("what is %q: it is learned, budget or all", o.What)
		})
	case "mode":
		change := func() error {
			switch mode := config.Mode(o.Mode); mode {
			case config.Enforce, config.Observe, config.Off:
				return p.o.Control.SetMode(o.Provider, mode)
			}
			return fmt.Errorf("mode is %q: it is enforce, observe or off", o.Mode)
		}
		if o.Provider == "" {
			return p.controlled(change)
		}
		return p.known(o.Provider, p.controlled(change))
	case "anyway":
		return func() error { return p.waits.sendAnyway(o.ID) }
	case "reload":
		return p.controlled(func() error { return p.o.Control.Reload() })
	case "stop":
		return p.controlled(func() error { p.o.Control.Stop(); return nil })
	}
	return nil
}

// known does something to a provider that there is.
func (p *Proxy) known(provider string, do func() error) func() error {
	return func() error {
		s := p.state.Load()
		if s.upstreams[provider] == nil {
			return fmt.Errorf("there is no provider %q: there are %s", provider, strings.Join(s.names(), ", "))
		}
		return do()
	}
}

// controlled does something that only a daemon can.
func (p *Proxy) controlled(do func() error) func() error {
	return func() error {
		if p.o.Control == nil {
			return fmt.Errorf("this proxy is not controlled by a daemon")
		}
		return do()
	}
}
